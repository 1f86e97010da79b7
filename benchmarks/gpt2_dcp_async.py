# SPDX-License-Identifier: Apache-2.0
"""The steps of `gpt2_dcp.py async`: PyTorch's async_save, with the stagers that it has."""
import ctypes, os, resource, statistics, time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

# What each asks of DefaultStager, and whether the stager is kept from save to save: it then keeps
# the memory of its copies. `writer` is the writer's own stager, which does not keep any.
STAGERS = {
    "default": (False, {}),  # what async_save makes for itself, given no stager
    "writer": (False, None),
    "cached": (True, {}),
    "shared": (True, {"use_shared_memory": True}),
    "threaded": (True, {"use_async_staging": True}),
    "pinned": (True, {"use_pinned_memory": True}),
}
OPTIONS = ("use_pinned_memory", "use_shared_memory", "use_async_staging", "use_non_blocking_copy")


def refuse(stager):
    """Exits if PyTorch would ignore what makes this stager different."""
    if stager == "pinned" and not torch.cuda.is_available():
        raise SystemExit("gpt2_dcp.py: --stager pinned: PyTorch pins memory only where CUDA is")


def make_stager(options):
    return DefaultStager(StagingOptions(**{o: options.get(o, False) for o in OPTIONS}))


def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_mb():
    with open("/proc/self/statm") as f: pages = int(f.read().split()[1])
    return pages * resource.getpagesize() / 1e6


def peak_mb(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


class Foreground:
    """Stands for training: steps of some milliseconds, from Python, of small operations."""

    def __init__(self):
        self.a, self.b = torch.full((256, 256), 0.01), torch.full((256, 256), 0.02)

    def step(self):
        start = time.perf_counter()
        for _ in range(8): self.a = torch.sigmoid(self.a @ self.b)
        return time.perf_counter() - start


def quantile(values, share): return sorted(values)[int(share * (len(values) - 1))] if values else 0


class Saves:
    """One rank's saves. `columns` has a figure for each step, by the names that gpt2.cpp uses."""

    SUMS = ("faults", "residents", "peaks", "cpus")  # of all ranks; of others, the slowest's

    def __init__(self, a, state):
        self.a, self.state, self.columns = a, state, {}
        self.kept, self.options = STAGERS[a.stager]
        self.stager = make_stager(self.options) if self.kept else None
        self.target = None  # where memcpy copies to
        self.training = Foreground()

    def add(self, name, value): self.columns.setdefault(name, []).append(value)

    def step(self, sd, path):
        cpu = cpu_seconds()
        writer = dcp.FileSystemWriter(path, sync_files=bool(self.a.sync))
        stager = self.stager
        faults_before, start = faults(), time.perf_counter()
        if stager is None and self.options is not None: stager = make_stager(self.options)
        saved = dcp.async_save(sd, storage_writer=writer, async_stager=stager)
        if hasattr(saved, "staging_completion"):
            saved.staging_completion.result()
            saved = saved.upload_completion
        self.add("stalls", time.perf_counter() - start)
        self.add("faults", faults() - faults_before)
        beside = []
        while self.a.foreground and not saved.done(): beside.append(self.training.step())
        saved.result()
        self.add("times", time.perf_counter() - start)
        if stager is not None and stager is not self.stager: stager.close()
        del saved, stager
        dist.barrier()
        alone = [self.training.step() for _ in beside]
        for name, steps in (("alone", alone), ("beside", beside)):
            self.add(f"{name}_median", quantile(steps, 0.5))
            self.add(f"{name}_p99", quantile(steps, 0.99))
        self.add("residents", resident_mb())
        self.add("peaks", peak_mb())
        if self.target is None:  # every page of it present
            self.target = torch.full((self.state.bytes(),), 1, dtype=torch.uint8)
        dist.barrier()
        self.add("memcpys", self.copy())
        self.add("cpus", cpu_seconds() - cpu)

    def copy(self):
        """Seconds for one memcpy of each tensor, on this thread."""
        at, start = self.target.data_ptr(), time.perf_counter()
        for _, _, local in self.state.parts:
            ctypes.memmove(at, local.data_ptr(), 4 * local.numel())
            at += 4 * local.numel()
        return time.perf_counter() - start

    def close(self):
        if self.stager is not None: self.stager.close()


def figures(ranks):
    """The columns of all ranks as one, and the shares of memcpy that follow from them."""
    one = {name: [round((sum if name in Saves.SUMS else max)(step), 4)
                  for step in zip(*(r[name] for r in ranks))] for name in ranks[0]}
    shares = [m / s for m, s in zip(one["memcpys"][1:], one["stalls"][1:])]
    one["share_of_memcpy"] = [round(f(shares), 4) for f in (statistics.median, min, max)
                              ] if shares else []
    return one
