# SPDX-License-Identifier: Apache-2.0
"""What the benchmark scripts share: programs, their figures, the page cache."""
import json, mmap, os, statistics, subprocess, sys, tempfile, time

BUILD = os.environ.get("CAIRN_BUILD", f"{os.path.dirname(os.path.abspath(__file__))}/../build")


def cairn_command(ranks, threads=False):
    """The program gpt2 on a number of ranks: processes, or threads of one."""
    gpt2 = f"{BUILD}/benchmarks/gpt2"
    for program in (gpt2, f"{BUILD}/tools/cairn"):
        if not os.path.exists(program):
            sys.exit(f"{sys.argv[0]}: {program} is not built: meson compile -C {BUILD} gpt2 cairn")
    if threads or ranks == 1: return [gpt2], ["--ranks", str(ranks)]
    return [f"{BUILD}/tools/cairn", "launch", "-n", str(ranks), "--", gpt2], []


def run(*command):
    """The figures that a program prints in its last line."""
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(f"{sys.argv[0]}: {' '.join(command)}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    last = r.stdout.splitlines()[-1]
    return json.loads(last[last.index("{"):])  # after the rank, under a launcher


def run_measured(*command):
    """Runs a program that prints no figures: the seconds and the memory of its process."""
    with tempfile.TemporaryFile("w+") as out:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=out)
        _, status, used = os.wait4(child.pid, 0)
        took = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            out.seek(0)
            sys.exit(f"{sys.argv[0]}: {' '.join(command)}: exit {child.returncode}\n{out.read()}")
    return {"ranks": 1, "bytes": 0, "times": [took], "maxrss_mb": used.ru_maxrss / 1024,
            "cpu_s": used.ru_utime + used.ru_stime}


def why_no_direct_io(folder):
    """Opening alone says little: some file systems refuse the first write."""
    block, path = mmap.mmap(-1, 4096), f"{folder}/direct_io"
    try:
        f = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        try:
            if os.pwrite(f, block, 0) != 4096 or os.preadv(f, [block], 0) != 4096: return "short"
        finally:
            os.close(f)
            os.unlink(path)
    except OSError as e:
        return str(e)
    return ""


def files_under(folder):
    if os.path.isfile(folder): return [folder]
    return [os.path.join(d, f) for d, _, names in os.walk(folder) for f in names]


def forget(folder):
    """Removes the files from the page cache, if the file system can."""
    for path in files_under(folder):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def remember(folder):
    """Reads the files into the page cache, where files written by direct I/O are not."""
    for path in files_under(folder):
        with open(path, "rb") as f:
            while f.read(1 << 20): pass


def spread(values, unit, digits):
    return (f"{statistics.median(values):.{digits}f}{unit} "
            f"({min(values):.{digits}f} to {max(values):.{digits}f})")
