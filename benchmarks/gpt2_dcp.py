#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does what gpt2.cpp does, with PyTorch's own DCP: the same state, options, and line of JSON.

    gpt2_dcp.py save|load|async DIR [--ranks N] [--steps K] [--sync 0|1] [--check]
                [--stager default|writer|cached|shared|threaded|pinned] [--foreground]
                [--with dcp|dcp-tuned|safetensors|tensorstore|hugging-face]
                [--weights] [--columns]

N processes on gloo, every tensor a DTensor with Shard(0); DCP's defaults otherwise. `async` calls
async_save: `stalls` end when it returns or, with a stager that returns a future, when that is done;
`times` end with the future of the upload. Stagers: see gpt2_dcp_async.py. `dcp-tuned` saves with
everything that makes DCP faster: threads of the writer, and plans that are kept from save to save.
DIR may be `s3://BUCKET/PREFIX`, on the server and with the keys that the environment names: DCP
then takes FsspecWriter and FsspecReader over s3fs.
--weights and --columns, which needs `hugging-face`, are gpt2.cpp's.
"""
import argparse, json, os, resource, sys, tempfile, time, warnings

warnings.filterwarnings("ignore")
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import gpt2_dcp_async, gpt2_libraries

BLOCK = 1 << 20  # elements that are computed at once, so that temporaries do not count as memory


def gpt2():
    """Names and shapes of GPT-2's 148 parameters."""
    p = [("transformer.wte.weight", (50257, 768)), ("transformer.wpe.weight", (1024, 768))]
    for i in range(12):
        for name, weight, bias in (("ln_1", (768,), 768), ("attn.c_attn", (768, 2304), 2304),
                                   ("attn.c_proj", (768, 768), 768), ("ln_2", (768,), 768),
                                   ("mlp.c_fc", (768, 3072), 3072),
                                   ("mlp.c_proj", (3072, 768), 768)):
            p += [(f"transformer.h.{i}.{name}.weight", weight),
                  (f"transformer.h.{i}.{name}.bias", (bias,))]
    return p + [("transformer.ln_f.weight", (768,)), ("transformer.ln_f.bias", (768,))]


def seed_of(fqn):
    """Optimizers count alike for all parameters."""
    h = 2166136261
    for c in (".step" if fqn.endswith(".step") else fqn).encode():
        h = ((h ^ c) * 16777619) & 0xFFFFFFFF
    return h


def content(seed, index):
    """The elements with these indices: the function of the same name in gpt2.cpp."""
    bits = (((index & 0xFFFFFFFF) ^ seed) * 2654435761) & 0xFFFFFFFF
    return (bits >> 8).to(torch.float32) * 1e-6


def blocks(t, first, stride):
    """(elements of `t`, their indices in the whole), a block at a time.
    @param stride  From row to row of the whole."""
    if t.numel() == 0: return
    rows = t.view(t.shape[0] if t.dim() else 1, -1)
    column = torch.arange(rows.shape[1])
    some = max(1, BLOCK // rows.shape[1])
    for i in range(0, rows.shape[0], some):
        row = torch.arange(i, min(i + some, rows.shape[0]))
        yield rows[i : i + some], first + row.unsqueeze(1) * stride + column


class State:
    """One rank's shards of everything, or of the weights: rows or, of matrices, columns."""

    def __init__(self, rank, ranks, filled, weights=False, columns=False):
        self.mesh, self.rank, self.ranks = init_device_mesh("cpu", (ranks,)), rank, ranks
        self.columns, self.tensors, self.parts, names = columns, {}, [], []
        for name, shape in gpt2():
            self.add("model." + name, shape, filled)
            if weights: continue
            for moment in ("exp_avg", "exp_avg_sq"):
                self.add(f"optim.state.{name}.{moment}", shape, filled)
            self.add(f"optim.state.{name}.step", (), filled)
            names.append(name)
        self.groups = [{"lr": 6e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1,
                        "params": names}] if filled else \
                      [{"lr": 0.0, "betas": (0.0, 0.0), "eps": 0.0, "weight_decay": 0.0,
                        "params": [""] * len(names)}]
        self.step = 12345 if filled else 0

    def add(self, fqn, shape, filled):
        dim, mine, first = int(self.columns and len(shape) > 1), list(shape), 0
        if shape:
            each = -(-shape[dim] // self.ranks)
            begin = min(self.rank * each, shape[dim])
            mine[dim] = min(begin + each, shape[dim]) - begin
            first = begin * torch.Size(shape[dim + 1 :]).numel()
        local = torch.zeros(mine, dtype=torch.float32)
        if filled:
            for some, index in blocks(local, first, torch.Size(shape[1:]).numel()):
                some.copy_(content(seed_of(fqn), index))
        self.parts.append((fqn, first, local))
        stride = torch.empty(shape, device="meta").stride()
        self.tensors[fqn] = local if not shape else DTensor.from_local(
            local, self.mesh, [Shard(dim)], run_check=False, shape=torch.Size(shape), stride=stride)

    def state_dict(self):
        return {**self.tensors, "optim.param_groups": self.groups, "step": self.step}

    def bytes(self): return sum(4 * local.numel() for _, _, local in self.parts)

    def wrong(self, loaded):
        n = int(loaded["step"] != 12345)
        for fqn, first, local in self.parts:
            stride = torch.Size(self.tensors[fqn].shape[1:]).numel()
            for some, index in blocks(local, first, stride):
                want = content(seed_of(fqn), index)
                n += int((some.view(torch.int32) != want.view(torch.int32)).sum())
        return n


def in_bucket(path):
    """The options of PyTorch's parts for a bucket."""
    return {"endpoint_url": os.environ["AWS_ENDPOINT_URL"], "key": os.environ["AWS_ACCESS_KEY_ID"],
            "secret": os.environ["AWS_SECRET_ACCESS_KEY"]} if path.startswith("s3://") else None


def writer(path, sync, threads):
    options = in_bucket(path)
    if options is None:
        return dcp.FileSystemWriter(path, sync_files=bool(sync), thread_count=threads)
    from torch.distributed.checkpoint._fsspec_filesystem import FsspecWriter
    return FsspecWriter(path, thread_count=threads, **options)


def reader(path):
    options = in_bucket(path)
    if options is None: return dcp.FileSystemReader(path)
    from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader
    return FsspecReader(path, **options)


def one_rank(rank, a, rendezvous):
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // a.ranks))
    store = dist.FileStore(rendezvous, a.ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=a.ranks)
    state, times, wrong = State(rank, a.ranks, a.mode != "load", a.weights, a.columns), [], 0
    background = gpt2_dcp_async.Saves(a, state) if a.mode == "async" else None
    library = gpt2_libraries.library(a.library) if a.library in gpt2_libraries.ALL else None
    tuned, cores = a.library == "dcp-tuned", len(os.sched_getaffinity(0))
    for k in range(a.steps):
        sd = state.state_dict()
        dist.barrier()
        path, start = f"{a.dir}/s{k % 2}", time.perf_counter()
        if background:
            background.step(sd, path)
        elif library and a.mode == "save":
            library.save(state, path, a.sync)
        elif library:
            library.load(state, f"{a.dir}/s0")
        elif a.mode == "save":
            threads = max(2, cores // a.ranks) if tuned else 1
            dcp.save(sd, planner=DefaultSavePlanner(enable_plan_caching=True) if tuned else None,
                     storage_writer=writer(path, a.sync, threads))
        else:
            dcp.load(sd, storage_reader=reader(f"{a.dir}/s0"))
        times.append(time.perf_counter() - start)
    if background: background.close()
    # The libraries do not store values.
    if a.check: wrong = state.wrong({"step": 12345} if library else sd)
    used = resource.getrusage(resource.RUSAGE_SELF)
    mine = (times, state.bytes(), wrong, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime,
            background and background.columns)
    everyone = [None] * a.ranks
    dist.all_gather_object(everyone, mine)
    if rank == 0:
        slowest = [max(r[0][k] for r in everyone) for k in range(a.steps)]
        line = {"mode": a.mode, "ranks": a.ranks, "bytes": sum(r[1] for r in everyone),
                "times": [round(t, 4) for t in slowest], "stalls": [round(t, 4) for t in slowest],
                "maxrss_mb": round(sum(r[3] for r in everyone), 1),
                "cpu_s": round(sum(r[4] for r in everyone), 2)}
        if background:
            line.update(stage=a.stager, **gpt2_dcp_async.figures([r[5] for r in everyone]))
        if a.check: line["wrong"] = sum(r[2] for r in everyone)
        print(json.dumps(line), flush=True)
    # No rank closes its sockets while another still waits in a collective.
    left = dist.PrefixStore("left", store)
    left.add("ranks", 1)
    while left.add("ranks", 0) < a.ranks: time.sleep(0.01)
    dist.destroy_process_group()
    if any(r[2] for r in everyone): sys.exit(1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("mode", choices=["save", "load", "async"])
    p.add_argument("dir")
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--steps", type=int, default=1)
    p.add_argument("--sync", type=int, default=1)
    p.add_argument("--check", action="store_true")
    p.add_argument("--stager", choices=gpt2_dcp_async.STAGERS)
    p.add_argument("--foreground", action="store_true")
    p.add_argument("--weights", action="store_true")
    p.add_argument("--columns", action="store_true")
    p.add_argument("--with", dest="library", default="dcp",
                   choices=["dcp", "dcp-tuned", *gpt2_libraries.ALL])
    a = p.parse_args()
    if a.columns and a.library != "hugging-face": p.error("--columns needs --with hugging-face")
    if a.mode == "async":
        if a.library != "dcp": p.error("async is for DCP")
        a.stager = a.stager or "default"
    elif a.stager or a.foreground:
        p.error("--stager and --foreground are for async")
    gpt2_dcp_async.refuse(a.stager)
    with tempfile.TemporaryDirectory() as tmp:
        mp.spawn(one_rank, args=(a, f"{tmp}/rendezvous"), nprocs=a.ranks)


if __name__ == "__main__": main()
