# SPDX-License-Identifier: Apache-2.0
"""Runs the programs that should notice the planted defects, and says which of them do.

Usage: check.py BUILD JOBS [NAME | PATTERN]...
"""
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from defect import PROGRAMS, WITH_SUITES, chosen

LEAST_SECONDS = 60
SKIPPED = 77  # the exit status of what cannot run here
TIMES = 5  # so much longer than without a defect
NOTICED = re.compile(r'\berror: in "([^"]+)"|^FAILED +(.{1,80})')  # of Boost.Test; others
ENTERED = re.compile(r'Entering test case "([^"]+)"')
IN_SUITE = re.compile(r'Entering test suite "([^"]+)"')


@dataclasses.dataclass
class End:
    killed: bool
    by: str = ""  # of what was skipped: why
    seconds: float = 0
    silence: float = 0  # the longest


def command(build: pathlib.Path, program: str, suites: str) -> list[str]:
    line = [word.format(build) for word in PROGRAMS[program][1]]
    if program not in WITH_SUITES:
        return line
    if program == "fuzz":
        return line + (["--target", suites] if suites else [])
    only = [f"--run_test={suites}"] if suites else []
    return [*line, "--log_level=test_suite", "--color_output=no", *only]


def run(build: pathlib.Path, program: str, suites: str, limit: float, switch: dict) -> End:
    with tempfile.TemporaryDirectory(prefix="cairn-planted-") as folder:
        os.chmod(folder, 0o1777)  # as /tmp: a test gives up its rights
        # What a test that is ended leaves goes with the folder.
        return run_in(folder, command(build, program, suites), program, limit, switch)


def run_in(folder: str, line: list[str], program: str, limit: float, switch: dict) -> End:
    """Ends at the first test that notices, or when nothing is printed for so many seconds."""
    begun = heard = time.monotonic()
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True,
                               env={**os.environ, "TMPDIR": folder, **switch})
    over, late = threading.Event(), threading.Event()

    def end():
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def watch():
        while not over.wait(1):
            if time.monotonic() - heard > limit:
                late.set()
                return end()

    threading.Thread(target=watch, daemon=True).start()
    noticed, suite, case, last, longest = "", "", "", "", 0.0
    for line in process.stdout:
        longest, heard = max(longest, time.monotonic() - heard), time.monotonic()
        last = line.strip() or last
        if found := IN_SUITE.search(line):
            suite = found[1]
        elif found := ENTERED.search(line):
            case = f"{suite}/{found[1]}"
        elif found := NOTICED.search(line):
            noticed = (found[1] or found[2]).removeprefix("cairn/")
            end()
            break
    process.wait()
    over.set()
    end()  # what the program may have started
    seconds = time.monotonic() - begun
    where = f"{program}: {noticed or case or last[:100]}"
    if noticed:
        return End(True, where, seconds)
    if late.is_set():
        return End(True, f"{where} (hangs)", seconds)
    if last.startswith("Test setup error"):  # of Boost.Test: there is no such suite
        sys.exit(f"{program}: {last}")
    if process.returncode == SKIPPED:
        return End(False, where)
    if process.returncode != 0:
        how = f"signal {-process.returncode}" if process.returncode < 0 \
            else f"exit status {process.returncode}"
        return End(True, f"{where} ({how})", seconds)
    return End(False, "", seconds, longest)


def try_defect(build: pathlib.Path, defect, usual: dict) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="cairn-planted-") as folder:
        reached = pathlib.Path(folder) / "reached"
        os.chmod(folder, 0o1777)
        switch = {"CAIRN_PLANTED": defect.name, "CAIRN_PLANTED_REACHED": str(reached)}
        for program, suites in defect.programs():
            if program not in usual:
                return "skipped", f"{program} does not run here"
            limit = max(LEAST_SECONDS, TIMES * usual[program])
            end = run(build, program, suites, limit, switch)
            if end.killed:
                return "killed", f"{end.by}  {end.seconds:.0f} s"
        return "survived", defect.wrong + ("" if reached.exists() else "  (never reached)")


def suites_of(defects) -> dict[str, str]:
    """All that is run of each program; empty: the whole of it."""
    wanted = {}
    for d in defects:
        for program, suites in d.programs():
            wanted.setdefault(program, set()).add(suites)
    return {program: "" if "" in suites else ",".join(sorted({s for one in suites
                                                              for s in one.split(",")}))
            for program, suites in sorted(wanted.items())}


def main() -> int:
    build, jobs = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2])
    defects = chosen(sys.argv[3:])
    os.environ.pop("CAIRN_PLANTED", None)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        # First without any: a test that fails by itself notices nothing.
        runs = suites_of(defects)
        usual = {}
        for program, end in zip(runs, pool.map(lambda p: run(build, p, runs[p], 3600, {}), runs)):
            if end.killed:
                print(f"fails without a defect: {end.by}")
                return 2
            if end.by:
                print(f"skipped: {end.by}")
            else:
                usual[program] = end.silence
        survived = skipped = 0
        ends = {pool.submit(try_defect, build, d, usual): d for d in defects}
        for end in concurrent.futures.as_completed(ends):
            try:
                how, words = end.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            survived += how == "survived"
            skipped += how == "skipped"
            print(f"{how:8}  {ends[end].name}: {words}", flush=True)
    print(f"{len(defects) - survived - skipped} killed, {survived} survived, {skipped} skipped")
    return 1 if survived or not defects else 0


sys.exit(main())
