# SPDX-License-Identifier: Apache-2.0
"""What `benchmarks/compare --buckets` compares: saves to a bucket and loads from it.

The servers are those of tests/support/s3/servers, on this machine, which share its cores with the
ranks. *Loop* is `gpt2 --bare curl`: as many requests at once, of the same sizes, with the same
checksums and signatures, by libcurl alone. *DCP* is PyTorch's FsspecWriter and FsspecReader over
s3fs. *Unsigned* is cairn without payloads in its signatures (`signed_payloads`): over http, DCP
and the others sign them. Each save is the first of its processes, to a new place; each load is of
what that contender saved in this round.

Tasks whose name ends with `far` go through benchmarks/slow_proxy: each request waits for 20 ms, of
each 100 one connection is closed, and so many bytes a second pass in each direction."""
import os, sys

from contenders import Gpt2, Torch
from measure import spread
from rounds import Rounds, ratio, some_of
from s3_server import Network, Server

BUCKET = "cairn-benchmark"
NETWORK = ("--delay", "20", "--drop", "0.01")


class Task:
    def __init__(self, server, mode, far, contenders):
        self.server, self.mode, self.far, self.contenders = server, mode, far, contenders
        self.name = f"{mode}, {server}" + (", far" if far else "")


class Buckets(Rounds):
    def __init__(self, a, folder):
        self.a = a
        near = [Gpt2("cairn"), Gpt2("loop", "--bare", "curl", limit=True)]
        far = list(near)
        near.append(Gpt2("unsigned", "--unsigned"))
        if a.torch_python: near.append(Torch("DCP", a.torch_python))
        all_of = [Task(server, mode, is_far, far if is_far else near)
                  for server in ("radosgw", "ministack") for is_far in (False, True)
                  for mode in ("save", "load")]
        super().__init__(a.rounds, folder, some_of(all_of, a.only))
        self.passed = {}

    def round(self, k):
        for name in dict.fromkeys(t.server for t in self.tasks):
            # A new one, because what a server remembers of others makes it slower.
            server = Server(name, f"{self.folder}/servers")
            try:
                server.make_bucket(BUCKET)
                for far in (False, True):
                    some = [t for t in self.tasks if t.server == name and t.far == far]
                    if some: self.turn(k, server, some, far)
            finally:
                server.stop()

    def turn(self, k, server, tasks, far):
        network = Network(server, *NETWORK, "--rate", str(self.a.rate)) if far else None
        os.environ.update(server.variables(network.endpoint if far else None))
        for c in self.turns(k, tasks[0].contenders):
            by_mode = {t.mode: t for t in tasks}
            for mode in ("save", "load"):
                task = by_mode.get(mode)
                self.say(k, f"{c.name}, {(task or tasks[0]).name}, {mode}")
                if not task and mode == "load": continue
                line = c.run(mode, f"s3://{BUCKET}/{c.name}", self.a.ranks)
                if task: self.keep(k, task, c.name, line)
            server.clear(BUCKET)
        if network: self.passed[tasks[0].name] = network.stop()

    def seconds(self, task):
        return {name: [line["times"][-1] for line in lines]
                for name, lines in self.lines[task.name].items()}


def print_table(rounds):
    print("\n| | cairn | loop | share of the loop | DCP | DCP's time / cairn's "
          "| unsigned | DCP's time / that | requests: cairn, loop |")
    print("|---|---|---|---|---|---|---|---|---|")
    for t in rounds.tasks:
        seconds = rounds.seconds(t)
        def time(name): return spread(seconds[name], " s", 2) if name in seconds else ""
        def times(name):
            return ratio(seconds["DCP"], seconds[name]) if {"DCP", name} <= set(seconds) else ""
        requests = ", ".join(
            spread([line["requests"][-1] for line in rounds.lines[t.name][name]], "", 0)
            for name in ("cairn", "loop"))
        print(f"| {t.name} | {time('cairn')} | {time('loop')} | "
              f"{ratio(seconds['loop'], seconds['cairn'])} | {time('DCP')} | {times('cairn')} "
              f"| {time('unsigned')} | {times('unsigned')} | {requests} |")


def check(a, folder):
    """DCP loads on one more rank what cairn has saved, and the reverse; compares every bit."""
    server = Server("radosgw", f"{folder}/servers")
    try:
        server.make_bucket(BUCKET)
        os.environ.update(server.variables())
        both = Gpt2("cairn"), Torch("DCP", a.torch_python)
        for writer, reader in (both, both[::-1]):
            writer.run("save", f"s3://{BUCKET}/checked", a.ranks)
            line = reader.run("load", f"s3://{BUCKET}/checked", a.ranks + 1, 1, "--check")
            print(f"{reader.name} loads on {a.ranks + 1} ranks what {writer.name} wrote on "
                  f"{a.ranks}: {line['wrong']} elements wrong")
            server.clear(BUCKET)
    finally:
        server.stop()


def compare(a, folder):
    rounds = Buckets(a, folder)
    stopped = not rounds.all()
    if rounds.ended < 1: sys.exit("stopped before the end of the first round")
    print(f"{a.ranks} ranks and a server on {len(os.sched_getaffinity(0))} cores, {rounds.ended} "
          f"rounds; far: {a.rate / 1e6:.0f} MB/s; median (least to most)")
    if not a.torch_python: print("not compared: PyTorch: --torch-python was not passed")
    print_table(rounds)
    for name, said in rounds.passed.items(): print(f"through the network, {name}: {said}")
    rounds.store(a.json, a.ranks, rate=a.rate)
    if a.torch_python and not stopped: check(a, folder)
