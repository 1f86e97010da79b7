# SPDX-License-Identifier: Apache-2.0
"""What `benchmarks/compare --formats` compares: conversions, saves and loads in other formats.

In each round the contenders of a task take turns. Conversions and statistics are of a checkpoint
that cairn saved on as many ranks; `cairn` and `loop` are whole runs of programs, PyTorch's are the
calls alone, without the import. A save is the third in a process; a load, the first.

*Loop* moves the same bytes with as many threads or processes and as many files, with one checksum
of each byte and the same syncs, and does nothing else: `gpt2 copy` and `sum`, `gpt2 --bare`. What
it loads by columns are rows. Memory is the most that was resident: of a conversion, of all its
processes; of a save or load, of a rank beyond its state."""
import os, shutil, sys

from contenders import HERE, Gpt2, Torch, file_system
from measure import BUILD, cairn_command, remember, run, run_measured, spread
from rounds import Rounds, beyond_state, ratio, some_of

WHOLE, WEIGHTS, LARGEST = 1_493_278_288, 497_759_232, 154_389_504
OF_PYTORCH = {"dcp_to_torch_save", "torch_save_to_dcp", "PyTorch", "safe_open"}


class Task:
    """@param runs  Contender -> a function that runs it and returns its line of figures."""

    def __init__(self, name, needs, runs, beyond=False):
        self.name, self.needs, self.runs, self.beyond = name, needs, runs, beyond


class Extract:
    """The whole state or the weights: its files, and the tasks with them."""

    def __init__(self, a, folder, name, options, size):
        self.ranks, self.python, self.options, self.size = a.ranks, a.torch_python, options, size
        self.at, self.end = f"{folder}/{name}", f", {name}" if options else ""
        self.to = f"{self.at}/to"

    def cairn(self, *options): return Gpt2("cairn", *options, *self.options)
    def loop(self, *options): return Gpt2("loop", "--bare", "buffered", *options, *self.options,
                                          limit=True)
    def torch(self, *options): return Torch("", self.python, *options, *self.options)

    def make(self, what):
        """What tasks read: `dcp`, `model.pt` and `safetensors`, each once."""
        path = f"{self.at}/{what}"
        if os.path.exists(path): return
        if what == "model.pt":
            self.make("dcp")
            run_measured(f"{BUILD}/tools/cairn", "convert", f"{self.at}/dcp/s0", path)
        else:
            self.cairn("--format", what).run("save", path, self.ranks)
        remember(path)

    def to_new(self, *command, figures=None):
        """Runs what makes `to`, which is removed."""
        os.makedirs(self.to)
        line = (figures or run_measured)(*command)
        shutil.rmtree(self.to)
        return line

    def tool(self, *arguments): return self.to_new(f"{BUILD}/tools/cairn", *arguments)
    def gpt2(self, *arguments): return self.to_new(*cairn_command(1)[0], *arguments)
    def convert(self, source, target):
        return self.to_new(self.python, f"{HERE}/gpt2_conversion.py", source, target, figures=run)

    def save(self, c):
        line = c.run("save", self.to, self.ranks, 3)
        shutil.rmtree(self.to)
        return line

    def tasks(self):
        dcp, pt, tensors = f"{self.at}/dcp/s0", f"{self.at}/model.pt", f"{self.at}/safetensors"
        to = f"{self.to}/to"
        # As many as cairn's DCP of one rank has.
        files = str(min(len(os.sched_getaffinity(0)), self.size // LARGEST))
        several = ("--max-file-size", str(int(1.1 * self.size / self.ranks)))
        st, hugging_face = ("--format", "safetensors"), ("--with", "hugging-face")

        def task(name, needs, runs, beyond=False):
            runs = {n: f for n, f in runs.items() if self.python or n not in OF_PYTORCH}
            return Task(name + self.end, needs, runs, beyond)

        def load(name, *options):
            return task(name, ["safetensors"], {
                "cairn": lambda: self.cairn(*st, *options).run("load", tensors, self.ranks),
                "safe_open": lambda: self.torch(*hugging_face, *options)
                                         .run("load", tensors, self.ranks),
                "loop": lambda: self.loop(*options).run("load", tensors, self.ranks)}, True)

        return [
            task("DCP → .pt", ["dcp"], {
                "cairn": lambda: self.tool("convert", dcp, f"{to}.pt"),
                "dcp_to_torch_save": lambda: self.convert(dcp, f"{to}.pt"),
                "loop": lambda: self.gpt2("copy", dcp, to)}),
            task(".pt → DCP", ["model.pt"], {
                "cairn": lambda: self.tool("convert", pt, to),
                "torch_save_to_dcp": lambda: self.convert(pt, to),
                "loop": lambda: self.gpt2("copy", pt, to, "--files", files)}),
            task("DCP → Hugging Face", ["dcp"], {
                "cairn": lambda: self.tool("convert", dcp, to, "--to", "safetensors",
                                           "--skip-values"),
                "PyTorch": lambda: self.save(self.torch(*hugging_face)),
                "loop": lambda: self.gpt2("copy", dcp, to)}),
            task("save, a file for each rank", [], {
                "cairn": lambda: self.save(self.cairn(*st, *several)),
                "cairn's DCP": lambda: self.save(self.cairn()),
                "loop": lambda: self.save(self.loop())}, True),
            task("save, one file", [], {
                "cairn": lambda: self.save(self.cairn(*st)),
                "loop": lambda: self.save(self.loop("--one-file"))}, True),
            load("load, rows"),
            load("load, columns", "--columns"),
            task("stats", ["dcp"], {
                "cairn": lambda: self.tool("stats", dcp),
                "loop": lambda: self.gpt2("sum", dcp)}),
        ]


class Formats(Rounds):
    def __init__(self, a, folder):
        self.extracts = [Extract(a, folder, "state", (), WHOLE),
                         Extract(a, folder, "weights", ("--weights",), WEIGHTS)]
        both = [(e, t) for e in self.extracts for t in e.tasks()]
        super().__init__(a.rounds, folder, some_of([t for _, t in both], a.only))
        self.made_by = {t.name: e for e, t in both}

    def round(self, k):
        for t in self.tasks:
            for what in t.needs: self.made_by[t.name].make(what)
            for name in self.turns(k, list(t.runs)):
                self.say(k, f"{name}, {t.name}")
                self.keep(k, t, name, t.runs[name]())

    def seconds(self, task):
        return {name: [line["times"][-1] for line in lines]
                for name, lines in self.lines[task.name].items()}


def print_tables(rounds):
    for t in rounds.tasks:
        seconds = rounds.seconds(t)
        which = " of a rank beyond its state" if t.beyond else ""
        print(f"\n| {t.name} | | time / cairn's | memory{which} |")
        print("|---|---|---|---|")
        for name, of in seconds.items():
            lines = rounds.lines[t.name][name]
            memory = (beyond_state(lines) if t.beyond else
                      spread([l["maxrss_mb"] for l in lines], " MiB", 0))
            print(f"| {name} | {spread(of, ' s', 3)} | {ratio(of, seconds['cairn'])} | {memory} |")


def check(rounds):
    """Loads what was loaded in the rounds once more, and compares every bit."""
    for e in rounds.extracts:
        if not os.path.exists(f"{e.at}/safetensors"): continue
        for options in ((), ("--columns",)):
            for c in [e.cairn("--format", "safetensors", *options)] + (
                    [e.torch("--with", "hugging-face", *options)] if e.python else []):
                line = c.run("load", f"{e.at}/safetensors", e.ranks, 1, "--check")
                print(f"{c.name or 'safe_open'} loads safetensors{e.end} {' '.join(options)}: "
                      f"{line['wrong']} elements wrong")


def compare(a, folder):
    rounds = Formats(a, folder)
    stopped = not rounds.all()
    if rounds.ended < 1: sys.exit("stopped before the end of the first round")
    where = file_system(folder)
    print(f"{a.ranks} ranks on {len(os.sched_getaffinity(0))} cores, {where}, "
          f"{rounds.ended} rounds; median (least to most)")
    if not a.torch_python: print("not compared: PyTorch: --torch-python was not passed")
    print_tables(rounds)
    rounds.store(a.json, a.ranks, file_system=where)
    print()
    if not stopped: check(rounds)
