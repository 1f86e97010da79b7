#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails one of four processes at every point of a save and a load, in every way.

    matrix.py LAUNCHER RANK

{throw, exit, SIGKILL, SIGSTOP} × every point × {the coordinator, another}. Of each run: nobody
hangs; every survivor ends with an error that names the rank, or with a save that has happened; the
checkpoint is the old one or the new one, whole; the survivors save on a group of their own; and the
next save in the same place leaves nothing there but itself.
Prints a line for each run that went wrong, the counts, and `N passed, N failed`.
"""
import concurrent.futures, os, re, select, shutil, subprocess, sys, tempfile, time

LAUNCHER, RANK = sys.argv[1:3]
WORLD, DEADLINE, HANGS = 4, 1.5, 30.0
AT_ONCE = 6


def points(operation):
    out = subprocess.run([RANK, ".", "points", operation], capture_output=True, text=True,
                         check=True).stdout
    return out.splitlines()


def cases():
    for operation in ("save", "load"):
        for point in points(operation):
            for victim in ((0,) if point.endswith("*") else (0, 2)):
                for action in ("throw", "exit", "kill", "stop"):
                    yield operation, point.rstrip("*"), action, victim


def content(directory, name):
    r = subprocess.run([RANK, directory, "check", name], capture_output=True, text=True)
    return r.stdout.strip() or r.stderr.strip()


def end_all(process):
    """The launcher's children are in groups of their own: it ends them, if it still can."""
    process.terminate()
    try:
        process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def run(case):
    operation, point, action, victim = case
    directory = tempfile.mkdtemp()
    try:
        process = subprocess.Popen(
            [LAUNCHER, "launch", "-n", str(WORLD), "--", RANK, directory, operation, point, action,
             str(victim), str(int(DEADLINE * 1000))],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        out = heard_from(process, set(range(WORLD)) - {victim})
        end_all(process)
        if out is None: return case, ["hangs"], 0.0
        return (case, *judge(case, directory, out))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def heard_from(process, survivors):
    """What is printed until all survivors have had their say; None if they have not in HANGS s."""
    os.set_blocking(process.stdout.fileno(), False)
    out, end = b"", time.monotonic() + HANGS
    while time.monotonic() < end:
        select.select([process.stdout], [], [], 1.0)
        more = process.stdout.read()
        if more is None: continue
        out += more
        said = {int(r) for r in re.findall(rb"^\[(\d+)\] RESULT .*\n", out, re.MULTILINE)}
        if more == b"" or said >= survivors: return out.decode()
    return None


def judge(case, directory, out):
    operation, point, action, victim = case
    wrong, latest = [], 0.0
    results = {int(m[1]): m for m in re.finditer(
        r"^\[(\d+)\] RESULT (\w+) (\S+) (\S+) ?(.*)$", out, re.MULTILINE)}
    with open(f"{directory}/fault") as f: fault = float(f.read())
    committed = content(directory, "c")
    if committed not in (("A", "B") if operation == "save" else ("A",)):
        wrong.append(f"the checkpoint is {committed}")
    for rank in set(range(WORLD)) - {victim}:
        if rank not in results:
            wrong.append(f"rank {rank} says nothing: {out[-300:]}")
            continue
        _, outcome, ended, later, what = results[rank].groups()
        latest = max(latest, float(ended) - fault)
        if outcome == "error":
            if not re.search(rf"\brank {victim}\b", what) and "injected" not in what:
                wrong.append(f"rank {rank} does not name rank {victim}: {what}")
        elif outcome != "ok":
            wrong.append(f"rank {rank}: {outcome} {what}")
        elif operation == "save" and committed != "B":
            wrong.append(f"rank {rank} calls a save good that is not there")
        if later != "later": wrong.append(f"rank {rank} could not save later: {what}")
    if content(directory, "later") != "C": wrong.append("the survivors' own save is not there")
    subprocess.run([RANK, directory, "again", "c"], check=True)
    left = sorted(os.listdir(f"{directory}/c"))
    if len(left) != 2 or left[0] != ".metadata" or content(directory, "c") != "C":
        wrong.append(f"the next save leaves {left}")
    return wrong, latest


def main():
    passed = failed = 0
    longest = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for case, wrong, latest in pool.map(run, list(cases())):
            action = case[2]
            longest[action] = max(longest.get(action, 0.0), latest)
            if wrong:
                failed += 1
                print("FAILED ", *case, ": ", "; ".join(wrong), flush=True)
            else:
                passed += 1
    print(f"{passed + failed} failures injected into {WORLD} processes, deadline {DEADLINE} s; "
          "the last survivor returned after at most " +
          ", ".join(f"{s:.1f} s ({a})" for a, s in longest.items()))
    print(f"{passed} passed, {failed} failed")
    return failed != 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
