#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cairn launch, and programs under it, torchrun and mpirun.

    launch.py BUILD

Prints one line a check and `N passed, N failed`. What cannot run here is skipped, and says why.
"""
import json, os, re, shutil, signal, subprocess, sys, tempfile, time
sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/../support")
from checks import check, end

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
HERE = os.path.dirname(os.path.abspath(__file__))


def skip(name, why): print(f"skipped {name}: {why}", flush=True)


def run(*args, **more):
    r = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=300, **more)
    return r.returncode, r.stdout, r.stderr


def launch(n, *command, options=(), **more):
    return run(CAIRN, "launch", "-n", n, *options, "--", *command, **more)


def sh(n, script, *options): return launch(n, "sh", "-c", script, options=options)


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


def signals():
    for number in (signal.SIGINT, signal.SIGTERM):
        p = subprocess.Popen([CAIRN, "launch", "-n", "2", "--", "sh", "-c",
                              f"trap 'echo heard; exit 0' {number}; echo ready; "
                              "while :; do sleep 0.05; done"],
                             stdout=subprocess.PIPE, text=True)
        ready = 0
        while ready < 2: ready += "ready" in p.stdout.readline()
        p.send_signal(number)
        out, _ = p.communicate(timeout=60)
        check(f"signal {number} is passed on", out.count("heard") == 2, out)
        check(f"signal {number} is in the exit code", p.returncode == 128 + number, p.returncode)
    p = subprocess.Popen([CAIRN, "launch", "-n", "2", "--", "sh", "-c", "echo $$; exec sleep 300"],
                         stdout=subprocess.PIPE, text=True)
    pids = [int(p.stdout.readline().split()[1]) for _ in range(2)]
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
    for way in ("each", "once", "faster"):
        figures(f"gpt2 loaded whole by 2 processes, {way}",
                launch(2, GPT2, "load", tmp, "--check", "--replicas", way), 2)
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
    """Two hosts: network namespaces that share a directory."""
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
        # Rank 0 is in a namespace of its own, whose address the launcher does not have.
        names = f"{tmp}/names"
        with open(names, "w") as f:
            # A shell that finds the namespace by the address, as ssh would the host.
            f.write(f'#!/bin/sh\ncase $1 in 10.77.0.1) n={a} ;; *) n={b} ;; esac\nshift\n'
                    'exec ip netns exec $n "$@"\n')
        os.chmod(names, 0o755)
        code, out, err = launch(4, PROCESSES, cwd=tmp, options=[
            "--hosts", "10.77.0.1,10.77.0.2", "--port", 45671, "--rsh", names, "--grace", 1])
        check("four ranks on two hosts", code == 0 and out.count("saved and loaded") == 4,
              (code, out, err))
        code, out, _ = run(CAIRN, "verify", f"{tmp}/ckpt/processes")
        check("what two hosts saved is whole", code == 0, out)
    finally:
        for name in (a, b):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def main():
    output()
    failures()
    signals()
    conformance()
    with tempfile.TemporaryDirectory() as tmp:
        code, out, err = launch(4, PROCESSES, cwd=tmp)
        check("four processes save and load", code == 0 and out.count("saved and loaded") == 4,
              out + err)
        code, out, err = run(PROCESSES, cwd=tmp)
        check("one process alone saves and loads", code == 0 and "rank 0 of 1" in out, out + err)
        hosts(tmp)
    with tempfile.TemporaryDirectory(dir=BUILD) as tmp: launchers(tmp)
    return end()


if __name__ == "__main__":
    sys.exit(main())
