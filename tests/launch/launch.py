#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cairn launch, and programs under it, torchrun and mpirun.

    launch.py BUILD [CHECKS]...: all checks, or those of these functions

Prints one line a check and `N passed, N failed`. What cannot run here is skipped, and says why.
"""
import json, os, re, resource, select, shutil, signal, subprocess, sys, tempfile, time
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{HERE}/../support", f"{HERE}/../../benchmarks"]
from checks import check, end
from measure import why_no_direct_io

BUILD = os.path.abspath(sys.argv[1])
CAIRN, GPT2 = f"{BUILD}/tools/cairn", f"{BUILD}/benchmarks/gpt2"
PROCESSES = f"{BUILD}/examples/9_processes"
# Examples that are threads by themselves and processes under a launcher -> what 3 ranks say.
EXAMPLES = {"1_save_and_load": "saved and loaded on 3 ranks",
            "2_reshard": "rows on 3 ranks, columns on 3: 0 elements wrong",
            "4_own_tensor": "own tensor: as saved",
            "6_own_planner": "own planner: head loaded, frozen left alone",
            "7_own_storage": "own storage: as saved, in the promised order",
            "8_without_resharding": "by hand: 0 ranks wrong"}
TORCH = os.environ.get("CAIRN_TORCH_PYTHON")

# What runs in the background of a shell has these ignored, and a rank cannot trap what is ignored.
for _ignored in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_ignored, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)



def skip(name, why): print(f"skipped {name}: {why}", flush=True)


def run(*args, **more):
    r = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=300, **more)
    return r.returncode, r.stdout, r.stderr


def launch(n, *command, options=(), **more):
    return run(CAIRN, "launch", "-n", n, *options, "--", *command, **more)


def sh(n, script, *options, **more):
    return launch(n, "sh", "-c", script, options=options, **more)


def output():
    code, out, err = sh(3, "echo out $CAIRN_RANK of $CAIRN_WORLD_SIZE; echo err >&2; printf part")
    for r in range(3):
        check(f"rank {r}: lines have its number",
              f"[{r}] out {r} of 3\n" in out and f"[{r}] err\n" in err, out + err)
        check(f"rank {r}: a line that does not end is not lost", f"[{r}] part\n" in out, out)
    check("all is well: 0", code == 0, code)
    code, out, _ = sh(2, "i=0; while [ $i -lt 2000 ]; do echo line $i of rank $CAIRN_RANK; "
                         "i=$((i+1)); done")
    good = all(re.fullmatch(r"\[(\d)\] line \d+ of rank \1", x) for x in out.splitlines())
    check("lines of ranks do not mix", good and len(out.splitlines()) == 4000)


def read_until(p, text, seconds=30, times=1):
    """What a launcher prints until it has printed `text` so many times; it goes on."""
    out, end = b"", time.monotonic() + seconds
    while out.count(text) < times and time.monotonic() < end:
        if select.select([p.stdout], [], [], 0.2)[0]:
            more = os.read(p.stdout.fileno(), 65536)
            if not more: break
            out += more
    return out


def start(n, script, *options, **more):
    return subprocess.Popen([CAIRN, "launch", "-n", str(n), *options, "--", "sh", "-c", script],
                            **({"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | more))


def ended(p, seconds=30):
    """Its exit code, or None: it was killed then."""
    try:
        return p.wait(seconds)
    except subprocess.TimeoutExpired:
        p.kill()
        p.wait()
        return None


def unfinished_lines():
    p = start(1, "printf part; sleep 60")
    out = read_until(p, b"part")
    check("a line that has not ended is shown", out == b"[0] part", out)
    p.send_signal(signal.SIGTERM)
    ended(p)
    p = start(1, "for i in 1 2 3; do printf '%d0%%\\r' $i; sleep 0.05; done; sleep 60")
    out = read_until(p, b"30%")
    check("a progress bar moves", out == b"[0] 10%\r[0] 20%\r[0] 30%\r", out)
    p.send_signal(signal.SIGTERM)
    ended(p)
    code, out, _ = sh(2, "i=0; while [ $i -lt 300 ]; do printf 'line %d \\r' $i; "
                         "printf 'of rank '; echo $CAIRN_RANK; i=$((i+1)); done")
    pieces = re.findall(r"\[(\d)\] ([^\[]*)", out)
    good = all(x[1].rstrip("\r\n") in ("", f"of rank {x[0]}") or x[1].startswith("line ")
               for x in pieces)
    check("parts of lines of ranks do not mix", code == 0 and good, out[:300])
    # Each line in two writes, so that one is incomplete at nearly any moment.
    code, out, _ = sh(2, "i=0; while [ $i -lt 15000 ]; do printf 'line '; printf '%s\\n' "
                         "\"$i of rank $CAIRN_RANK\"; i=$((i+1)); done")
    torn = [x for x in out.splitlines() if not re.fullmatch(r"\[(\d)\] line \d+ of rank \1", x)]
    check("lines that are written in two parts, one right after the other, stay whole",
          code == 0 and not torn and len(out.splitlines()) == 30000, torn[:5])
    # 200 MB without an end: as much memory as for one line.
    p = start(1, "head -c 200000000 /dev/zero; sleep 60", stdout=subprocess.DEVNULL)
    end, peak = time.monotonic() + 60, 0
    def written(): return int(open(f"/proc/{p.pid}/io").read().split("wchar: ")[1].split()[0])
    while written() < 200000000 and time.monotonic() < end: time.sleep(0.05)
    peak = int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{p.pid}/status").read())[1])
    check("a line without an end is passed on in bounded memory",
          written() >= 200000000 and peak < 60000, (written(), peak))
    p.send_signal(signal.SIGTERM)
    ended(p)


def left_behind():
    """Processes that a rank has started and that outlive it."""
    for name, script in (("in its group", "sleep 120 & echo started"),
                         ("in a session of its own", "setsid sleep 120 & echo started")):
        p = start(2, script)
        out = read_until(p, b"still hold")
        check(f"a process left behind, {name}, is not waited for",
              ended(p) == 0 and out.count(b"started") == 2, out)
    p = start(1, "(while :; do echo on; sleep 0.01; done) & echo started")
    check("nor one that goes on writing", ended(p) == 0)
    p = start(2, "sleep 120 & exit 3", "--grace", "0")
    check("one of a rank that has failed", ended(p) == 3)
    p = start(1, "exec >&-; sleep 0.2; echo last words >&2")
    out = read_until(p, b"words")
    check("a rank that closes its output goes on", b"[0] last words" in out and ended(p) == 0, out)
    code, out, err = sh(3, "[ $CAIRN_RANK != 1 ] || kill -9 $$; i=0; while [ $i -lt 3000 ]; do "
                           "echo line $i; echo line $i >&2; i=$((i+1)); done")
    check("a rank dies while others write: nothing of theirs is lost",
          code == 137 and all(x.count(f"[{r}] line ") == 3000 for x in (out, err) for r in (0, 2)))


def blocked_output():
    """Nobody reads what the launcher prints."""
    for stream, flood in (("output", "yes"), ("errors", "yes >&2")):
        p = start(2, f"exec {flood}", stderr=subprocess.PIPE)
        time.sleep(1)
        p.send_signal(signal.SIGINT)
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        check(f"a launcher whose {stream} nobody reads ends at the second Ctrl-C",
              ended(p) == 128 + signal.SIGINT)
    p = start(1, "exec head -c 500000 /dev/zero")
    time.sleep(1)
    check("what nobody reads is waited for", p.poll() is None)
    n = len(p.stdout.read())
    check("and comes when it is read", ended(p) == 0 and 500000 <= n < 500100, n)


def lost_output():
    """As behind `| tee`, which a Ctrl-C ends at once."""
    with tempfile.TemporaryDirectory() as tmp:
        p = start(2, "trap 'echo saving; sleep 0.5; echo saved; touch saved$CAIRN_RANK; exit 0' "
                     "INT; echo ready; while :; do sleep 0.05; done", cwd=tmp)
        read_until(p, b"ready\n", times=2)
        p.stdout.close()
        p.send_signal(signal.SIGINT)
        code = ended(p)
        check("who reads the output ends first: the ranks end in order",
              code == 0 and sorted(os.listdir(tmp)) == ["saved0", "saved1"],
              (code, os.listdir(tmp)))
    with open("/dev/full", "w") as full:
        r = subprocess.run([CAIRN, "launch", "-n", "2", "--", "echo", "hello"], stdout=full,
                           stderr=subprocess.PIPE, text=True, timeout=60)
    check("output that is lost is an error", r.returncode == 1 and "output was lost" in r.stderr, r)
    _, out, err = sh(1, "kill -PIPE $$; echo alive")
    check("ranks do not ignore SIGPIPE because their launcher does", "alive" not in out, out + err)


def failures():
    code, _, err = sh(3, "[ $CAIRN_RANK != 1 ] || exit 7")
    check("an exit code is passed on", code == 7 and "rank 1 ended with exit code 7" in err, err)
    code, _, err = sh(3, "[ $CAIRN_RANK != 2 ] || kill -9 $$; sleep 60", "--grace", "0")
    check("a killed rank is named, the rest is ended",
          code == 137 and "rank 2 was killed by signal 9" in err, (code, err))
    code, _, err = sh(2, "[ $CAIRN_RANK != 0 ] || exit 3; trap '' TERM; sleep 60", "--grace", "0")
    check("one that does not want to end is ended", code == 3, (code, err))
    code, _, err = launch(2, "/no/such/program")
    check("a program that is not there", code == 127 and "No such file" in err, (code, err))
    for bad in (["-n", "0", "--", "true"], ["-n", "2"], ["--", "true"]):
        code, _, err = run(CAIRN, "launch", *bad)
        check(f"refused: launch {' '.join(bad)}", code == 2 and err, (code, err))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Many at once: ranks are then told to end before they have become the program.
    few = [start(40, "ulimit -n; sleep 60", stderr=subprocess.PIPE,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (30, 60)))
           for _ in range(24)]
    ends = [(p.communicate(timeout=300), p.returncode) for p in few]
    wrong = [e for e in ends if e[1] == 0 or b"ulimit -n" not in e[0][1]]
    check("too few descriptors: an error that says so, and no rank is left", not wrong, wrong)
    code, out, _ = sh(20, "ulimit -n; readlink /proc/self/fd/0", input="for rank 0",
                      preexec_fn=lambda: resource.setrlimit(
                          resource.RLIMIT_NOFILE, (30, limits[1])))
    check("the launcher's own limit is raised, the ranks' is not",
          code == 0 and out.count("] 30\n") == 20, (code, out))
    check("the last of many ranks have no input, either", out.count("] /dev/null\n") == 19, out)


def input_of_ranks():
    code, out, err = sh(3, "cat", input="for rank 0\n")
    check("input goes to rank 0", code == 0 and out == "[0] for rank 0\n", out + err)


def command_lines():
    """Whoever lists processes sees command lines; the group's secret is in the environment."""
    code, out, err = sh(2, "for p in $$ $PPID; do tr '\\0' ' ' < /proc/$p/cmdline; echo; done; "
                           "echo group $CAIRN_GROUP")
    groups = re.findall(r"^\[\d\] group (cairn1:(\w+)@.*)$", out, re.MULTILINE)
    seen = "\n".join(x for x in out.splitlines() if "group cairn1:" not in x)
    check("ranks get the group's secret", code == 0 and len(groups) == 2, out + err)
    check("and it is on no command line", "CAIRN_GROUP" in seen and "launch" in seen
          and all(secret not in seen for _, secret in groups), seen)
    words = ["[0.9,0.95]", "[]", "[ -e go ]", "--", "-n", "ls", ""]
    code, out, err = launch(1, "printf", "<%s>\\n", *words)
    check("each argument reaches the program as it is",
          code == 0 and out == "".join(f"[0] <{w}>\n" for w in words), out + err)


def blocked_signals():
    """As for a program that a supervisor's thread has started, with these signals blocked."""
    blocked = {signal.SIGCHLD, signal.SIGTERM}
    def block(): signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    def run_blocked(*command):
        return subprocess.Popen([CAIRN, "launch", "-n", "1", "--", *command], preexec_fn=block,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    p = run_blocked("grep", "SigBlk", "/proc/self/status")
    code = ended(p)
    mask = int(re.search(rb"([0-9a-f]+)$", p.stdout.read().strip())[1], 16)
    check("a launcher that was started with signals blocked sees that its rank ends", code == 0,
          code)
    check("its rank has them blocked, as it would have without it",
          all(mask & 1 << (s - 1) for s in blocked), hex(mask))
    p = run_blocked(sys.executable, "-c", "import signal, time; signal.pthread_sigmask("
                    "signal.SIG_UNBLOCK, [signal.SIGTERM]); print('ready', flush=True); "
                    "time.sleep(60)")
    read_until(p, b"ready")
    p.send_signal(signal.SIGTERM)
    check("and it forwards them", ended(p) == 128 + signal.SIGTERM, p.returncode)


def signals():
    blocked_signals()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        p = start(2, f"trap 'echo heard; exit 0' {number}; echo ready; "
                     "while :; do sleep 0.05; done")
        out = read_until(p, b"ready\n", times=2) + read_until(p, b"nothing", 0.3)
        p.send_signal(number)
        out += p.stdout.read()
        check(f"signal {number} is passed on", out.count(b"heard") == 2, out)
        check(f"signal {number}, answered by 0 from every rank, ends the launcher with 0",
              ended(p) == 0, p.returncode)
        p = start(2, "echo ready; exec sleep 60")
        read_until(p, b"ready\n", times=2)
        p.send_signal(number)
        check(f"signal {number}, which ends ranks, is in the exit code",
              ended(p) == 128 + number, p.returncode)
        p = start(2, f"trap 'exit $((CAIRN_RANK * 5))' {number}; echo ready; "
                     "while :; do sleep 0.05; done")
        read_until(p, b"ready\n", times=2)
        p.send_signal(number)
        check(f"signal {number}: a rank that fails upon it is in the exit code", ended(p) == 5,
              p.returncode)
    p = start(2, "trap 'echo asked' USR1; echo ready; while :; do sleep 0.05; done")
    read_until(p, b"ready\n", times=2)
    p.send_signal(signal.SIGUSR1)
    out = read_until(p, b"asked\n", times=2)
    check("SIGUSR1 is passed on, and ends nothing", out.count(b"asked") == 2 and p.poll() is None)
    p.send_signal(signal.SIGTSTP)
    rank = int(subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True)
               .stdout.split()[0])
    def state(pid): return open(f"/proc/{pid}/stat").read().split(") ")[1][0]
    end = time.monotonic() + 20
    # A shell that has just forked waits in D for its child, which is stopped.
    def stopped(): return state(rank) in "TD" and state(p.pid) == "T"
    while not stopped() and time.monotonic() < end: time.sleep(0.02)
    check("Ctrl-Z stops the launcher and its ranks", stopped(), (state(rank), state(p.pid)))
    p.send_signal(signal.SIGCONT)
    end = time.monotonic() + 20
    while state(rank) == "T" and time.monotonic() < end: time.sleep(0.02)
    check("and they go on together", state(rank) != "T")
    p.send_signal(signal.SIGTERM)
    ended(p)
    p = start(2, "trap '' INT; echo ready; while :; do sleep 0.05; done")
    read_until(p, b"ready\n", times=2)
    p.send_signal(signal.SIGINT)
    time.sleep(0.5)
    check("one Ctrl-C is passed on", p.poll() is None)
    p.send_signal(signal.SIGINT)
    check("two mean it", ended(p) == 128 + signal.SIGINT)
    for first, second in (("HUP", "HUP"), ("TERM", "HUP")):
        p = start(2, "trap 'echo asked; sleep 1; echo saved; exit 0' HUP TERM; echo ready; "
                     "while :; do sleep 0.05; done")
        read_until(p, b"ready\n", times=2)
        p.send_signal(getattr(signal, "SIG" + first))
        out = read_until(p, b"asked\n", times=2)
        p.send_signal(getattr(signal, "SIG" + second))
        out += p.stdout.read()
        check(f"SIG{second} after SIG{first} leaves the ranks time to save",
              ended(p) == 0 and out.count(b"saved") == 2, (p.returncode, out))
    p = start(2, "[ $CAIRN_RANK != 0 ] || trap '' TERM; echo ready; "
                 "while :; do sleep 0.05; done", "--grace", "1")
    read_until(p, b"ready\n", times=2)
    p.send_signal(signal.SIGTERM)
    check("one that stays when another has ended upon a signal is ended",
          ended(p) == 128 + signal.SIGTERM, p.returncode)
    p = start(2, "echo $$; exec sleep 300")
    out = read_until(p, b"\n", times=2)
    pids = [int(x.split()[1]) for x in out.decode().splitlines()]
    p.kill()
    p.communicate()
    end, alive = time.monotonic() + 20, pids
    while alive and time.monotonic() < end:
        alive = [x for x in alive if os.path.exists(f"/proc/{x}/stat")
                 and open(f"/proc/{x}/stat").read().split()[2] != "Z"]
        time.sleep(0.05)
    check("ranks end with their launcher", not alive, alive)


def figures(name, result, ranks):
    code, out, err = result
    found = re.search(r"(\{\"mode\".*\})", out)
    figures = json.loads(found[1]) if found else {}
    check(name, code == 0 and figures.get("ranks") == ranks and figures.get("wrong", 0) == 0,
          (code, out[-300:], err[-600:]))


def conformance():
    """The suite of the Communicator concept on real processes; 256 MiB in one message once."""
    rank = f"{BUILD}/tests/launch/conforming_rank"
    for n, fan_in, largest in ((1, 32, 28), (2, 32, 28), (4, 2, 24), (8, 2, 22), (8, 32, 22)):
        code, out, err = launch(n, rank, fan_in, 1 << largest)
        check(f"{n} processes, fan-in {fan_in}: the suite, and 2^{largest} bytes at once",
              code == 0 and out.count("keeps its word") == n, out + err)
    code, out, err = sh(2, f"'{rank}' 32 1024; exit $?")
    check("a shell between the launcher and its rank holds no port",
          code == 0 and out.count("keeps its word") == 2, out + err)


def launchers(tmp):
    """One state, saved by four processes, under every launcher."""
    for name, says in EXAMPLES.items():
        code, out, err = launch(3, f"{BUILD}/examples/{name}", cwd=tmp)
        check(f"example {name} as 3 processes", code == 0 and says in out, (code, out, err))
    figures("gpt2 saved by 4 processes", launch(4, GPT2, "save", tmp), 4)
    for n in (3, 7):
        figures(f"gpt2 loaded by {n} processes", launch(n, GPT2, "load", tmp, "--check"), n)
    figures("gpt2 loaded by one process", run(GPT2, "load", tmp, "--check"), 1)
    figures("gpt2 loaded by 2 threads", run(GPT2, "load", tmp, "--check", "--ranks", 2), 2)
    for way in ("each", "once"):
        figures(f"gpt2 loaded whole by 2 processes, {way}",
                launch(2, GPT2, "load", tmp, "--check", "--replicas", way), 2)
    # The limit that benchmarks compare with moves every byte.
    for way in ("buffered", "direct"):
        if way == "direct" and (why := why_no_direct_io(tmp)):
            skip("gpt2, bare and direct", f"this file system has no direct I/O: {why}")
            continue
        for mode in ("save", "load"):
            figures(f"gpt2, {mode} by 2 processes, bare and {way}",
                    launch(2, GPT2, mode, f"{tmp}/{way}", "--bare", way, "--check"), 2)
        shutil.rmtree(f"{tmp}/{way}", ignore_errors=True)
    figures("gpt2, one file of 2 processes, bare",
            launch(2, GPT2, "save", f"{tmp}/one", "--bare", "buffered", "--one-file"), 2)
    safetensors = ("--format", "safetensors")
    figures("gpt2 saved as safetensors by 2 processes",
            launch(2, GPT2, "save", f"{tmp}/one", *safetensors, "--max-file-size", 400_000_000), 2)
    figures("gpt2, columns of safetensors loaded by 3 processes",
            launch(3, GPT2, "load", f"{tmp}/one", *safetensors, "--columns", "--check"), 3)
    figures("gpt2, weights of safetensors loaded by one process",
            run(GPT2, "load", f"{tmp}/one", *safetensors, "--weights", "--check"), 1)
    # Loops over files.
    figures("gpt2, files copied", run(GPT2, "copy", f"{tmp}/one/s0", f"{tmp}/copied"), 1)
    figures("gpt2, files summed", run(GPT2, "sum", f"{tmp}/one/s0"), 1)
    shutil.rmtree(f"{tmp}/one", ignore_errors=True)
    if shutil.which("mpirun"):
        env = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        mpirun = ["mpirun", "--oversubscribe", "-n", "3", GPT2, "load", tmp, "--check"]
        figures("gpt2 loaded under mpirun", run(*mpirun, env=env), 3)
        figures("gpt2 loaded over MPI", run(*mpirun, "--group", "mpi", env=env), 3)
        code, out, err = run(*mpirun[:-4], f"{BUILD}/examples/1_save_and_load", env=env, cwd=tmp)
        check("example 1_save_and_load under mpirun",
              code == 0 and EXAMPLES["1_save_and_load"] in out, (code, out, err))
    else:
        skip("gpt2 under mpirun", "there is no mpirun")
    if TORCH:
        # By number: not every container knows the name localhost.
        torchrun = [TORCH, "-m", "torch.distributed.run", "--no-python", "--rdzv-backend", "c10d",
                    "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
        figures("gpt2 loaded under torchrun",
                run(*torchrun, "--nproc-per-node", 2, GPT2, "load", tmp, "--check"), 2)
        code, out, err = run(TORCH, f"{HERE}/../../benchmarks/gpt2_dcp.py", "load", tmp, "--ranks",
                             2, "--check", env=os.environ | {"USE_LIBUV": "0"})
        figures("gpt2 loaded by PyTorch", (code, out, err), 2)
    else:
        why = os.environ.get("CAIRN_WHY_NO_TORCH", "CAIRN_TORCH_PYTHON names no Python")
        skip("gpt2 under torchrun, and loaded by PyTorch", why)


def hosts(tmp):
    """Two hosts: network namespaces that share a directory; ranks as torchrun numbers them."""
    if not shutil.which("ip"): return skip("two hosts", "there is no program ip")
    a, b = "cairn-test-a", "cairn-test-b"
    steps = [["ip", "netns", "add", a], ["ip", "netns", "add", b],
             ["ip", "link", "add", "cairn-a", "netns", a, "type", "veth", "peer", "name", "cairn-b",
              "netns", b]]
    for name, link, address in ((a, "cairn-a", "10.77.0.1"), (b, "cairn-b", "10.77.0.2")):
        steps += [["ip", "-n", name, "addr", "add", f"{address}/24", "dev", link],
                  ["ip", "-n", name, "link", "set", link, "up"],
                  ["ip", "-n", name, "link", "set", "lo", "up"]]
    try:
        for s in steps:
            code, _, err = run(*s)
            if code != 0: return skip("two hosts", f"no network namespaces here: {err.strip()}")
        env = os.environ | {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.77.0.1",
                            "MASTER_PORT": "29500", "CAIRN_RENDEZVOUS_DIR": tmp}
        ranks = [subprocess.Popen(["ip", "netns", "exec", a if r < 2 else b, PROCESSES], cwd=tmp,
                                  env=env | {"RANK": str(r)}, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for r in range(4)]
        out = [p.communicate(timeout=120)[0] for p in ranks]
        check("four ranks on two hosts", all("saved and loaded" in x for x in out), out)
        code, out, _ = run(CAIRN, "verify", f"{tmp}/ckpt/processes")
        check("what two hosts saved is whole", code == 0, out)
    finally:
        for name in (a, b):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def without_a_group(tmp):
    """A program that has forgotten its communicator, and the tool, as several ranks."""
    code, out, err = launch(2, f"{BUILD}/examples/3_one_process", cwd=tmp, options=["--grace", "1"])
    said = out + err
    check("a forgotten communicator is an error that says so",
          code != 0 and "CAIRN_WORLD_SIZE=2" in said and "cairn::solo()" in said, said)
    run(f"{BUILD}/examples/3_one_process", cwd=tmp)
    for command in ("ls", "verify"):
        code, out, err = launch(2, CAIRN, command, f"{tmp}/ckpt/one_process")
        check(f"cairn {command} is for one process, under a launcher too", code == 0, out + err)
    code, out, err = launch(2, CAIRN, "cat", f"{tmp}/ckpt/one_process", "step")
    check("and so is cairn cat", code == 0 and out.count("7") == 2, out + err)


def main():
    for name in sys.argv[2:]: globals()[name]()
    if sys.argv[2:]: return end()
    output()
    unfinished_lines()
    input_of_ranks()
    command_lines()
    failures()
    left_behind()
    blocked_output()
    lost_output()
    signals()
    conformance()
    with tempfile.TemporaryDirectory() as tmp:
        code, out, err = launch(4, PROCESSES, cwd=tmp)
        check("four processes save and load", code == 0 and out.count("saved and loaded") == 4,
              out + err)
        code, out, err = run(PROCESSES, cwd=tmp)
        check("one process alone saves and loads", code == 0 and "rank 0 of 1" in out, out + err)
        hosts(tmp)
        without_a_group(tmp)
    with tempfile.TemporaryDirectory(dir=BUILD) as tmp: launchers(tmp)
    return end()


if __name__ == "__main__":
    sys.exit(main())
