# SPDX-License-Identifier: Apache-2.0
"""What `benchmarks/compare --mapped` compares: saves and loads of the same bytes with a mapping.

The checkpoint has PyTorch's names and shapes of GPT-2. States that a mapping makes of it are laid
out as gpt2/layouts.hpp says: `rows` keeps rows together (concatenated, stacked, divided, reshaped,
renamed), in `columns` rows consist of parts of rows, and in `transposed` all matrices are
transposed, and sharded by columns, so that each rank reads the rows that it reads without a
mapping. No optimizer counts its steps: such numbers become one, where parameters
do. `loop` only transposes, block by block, from memory to memory: the third time in a process.
Saves are the third, too; loads, the first. In each round all take turns."""
import os, shutil, sys

from contenders import Gpt2, file_system
from measure import remember, spread
from rounds import Rounds, beyond_state, ratio, some_of

TRANSPOSED = ("--layout", "transposed", "--columns")


class Task:
    def __init__(self, name, contenders):
        self.name, self.contenders = name, contenders


class Mapped(Rounds):
    def __init__(self, a, folder):
        self.ranks = a.ranks
        both = [Gpt2("without", "--layout", "names"), Gpt2("rows", "--layout", "rows"),
                Gpt2("columns", "--layout", "columns"), Gpt2("transposed", *TRANSPOSED)]
        loop = Gpt2("loop", *TRANSPOSED, "--bare", "transpose")
        loop.modes = ("load",)
        super().__init__(a.rounds, folder, some_of([Task("load", both + [loop]),
                                                    Task("save", both)], a.only))

    def round(self, k):
        for t in self.tasks:
            for c in self.turns(k, t.contenders):
                self.say(k, f"{c.name}, {t.name}")
                if t.name == "load":
                    at = f"{self.folder}/stored"
                    if not os.path.exists(at): Gpt2("").run("save", at, self.ranks)
                    remember(at)
                    steps = 3 if c.name == "loop" else 1
                    self.keep(k, t, c.name, c.run("load", at, self.ranks, steps))
                    continue
                at = f"{self.folder}/saved"
                self.keep(k, t, c.name, c.run("save", at, self.ranks, 3))
                shutil.rmtree(at)

    def seconds(self, task):
        """Contender -> seconds of each round."""
        return {name: [line["times"][-1] for line in lines]
                for name, lines in self.lines[task.name].items()}


def print_tables(rounds):
    for t in rounds.tasks:
        seconds = rounds.seconds(t)
        print(f"\n| {t.name} | | time / without a mapping | share of the loop | "
              "memory of a rank beyond its state |")
        print("|---|---|---|---|---|")
        for name, of in seconds.items():
            loop = ratio(seconds["loop"], of) if "loop" in seconds and name == "transposed" else ""
            beyond = beyond_state(rounds.lines[t.name][name]) if name != "loop" else ""
            print(f"| {name} | {spread(of, ' s', 3)} | {ratio(of, seconds['without'])} | {loop} | "
                  f"{beyond} |")


def check(rounds):
    """Saves from each layout, and loads what it has stored again; compares every bit."""
    for c in rounds.tasks[0].contenders:
        if "save" not in c.modes: continue
        at = f"{rounds.folder}/checked"
        c.run("save", at, rounds.ranks)
        line = c.run("load", at, rounds.ranks, 1, "--check")
        print(f"{c.name}: {line['wrong']} elements wrong")
        shutil.rmtree(at)


def compare(a, folder):
    rounds = Mapped(a, folder)
    stopped = not rounds.all()
    if rounds.ended < 1: sys.exit("stopped before the end of the first round")
    where = file_system(folder)
    print(f"{a.ranks} ranks on {len(os.sched_getaffinity(0))} cores, {where}, "
          f"{rounds.ended} rounds; median (least to most)")
    print_tables(rounds)
    rounds.store(a.json, a.ranks, file_system=where)
    print()
    if not stopped: check(rounds)
