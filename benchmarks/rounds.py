# SPDX-License-Identifier: Apache-2.0
"""Rounds in which contenders take turns: what `benchmarks/compare` does, whatever it compares."""
import json, os, platform, shutil, signal, sys

from measure import spread


class Rounds:
    """All figures: `lines[task][contender]` has one for each round. A task has a name.

    Derived classes have `round(k)`, which calls `keep` with each figure."""

    def __init__(self, count, folder, tasks):
        self.count, self.folder, self.tasks = count, folder, tasks
        self.lines = {t.name: {} for t in tasks}
        self.ended = -1  # the first round only warms up

    def turns(self, k, some):
        """Some contenders in the order of a round."""
        return some[k % len(some) :] + some[: k % len(some)] if some else []

    def say(self, k, what):
        print(f"\rround {k} of {self.count}: {what} ...".ljust(78), end="", file=sys.stderr,
              flush=True)

    def keep(self, k, task, contender, line):
        if k: self.lines[task.name].setdefault(contender, []).append(line)

    def all(self):
        """@return Whether it ran to its end. If stopped (Ctrl-C, SIGTERM), without the last round.
        """
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        try:
            for k in range(self.count + 1):
                self.round(k)
                self.ended = k
            return True
        except KeyboardInterrupt:
            for of in self.lines.values():
                for lines in of.values(): del lines[max(self.ended, 0):]
            return False
        finally:
            print("\r" + " " * 78 + "\r", end="", file=sys.stderr, flush=True)

    def store(self, path, ranks, **more):
        """Stores every figure, if there is a path. Derived classes have `seconds(task)`."""
        if not path: return
        with open(path, "w") as f:
            json.dump({"ranks": ranks, "rounds": self.ended,
                       "cores": len(os.sched_getaffinity(0)), "machine": platform.machine(),
                       "kernel": platform.release(), **more,
                       "seconds": {t.name: self.seconds(t) for t in self.tasks},
                       "lines": self.lines}, f, indent=1)

    def forget_all(self):
        for name in os.listdir(self.folder): shutil.rmtree(f"{self.folder}/{name}")


def ratio(some, others): return spread([x / y for x, y in zip(some, others)], "", 2)


def some_of(tasks, names):
    """Those that --only names; all if there are none."""
    known = [t.name for t in tasks]
    for name in names or []:
        if name not in known:
            sys.exit(f"{sys.argv[0]}: --only {name}: tasks are {', '.join(known)}")
    return [t for t in tasks if not names or t.name in names]


def beyond_state(lines):
    """MiB of a rank beyond its state."""
    of = [(l["maxrss_mb"] * 2**20 - l["bytes"]) / l["ranks"] / 2**20
          for l in lines if "maxrss_mb" in l]
    return spread(of, " MiB", 0) if of else ""
