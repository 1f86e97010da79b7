# SPDX-License-Identifier: Apache-2.0
"""The libraries of `gpt2_dcp.py --with` besides DCP: they store tensors, and are used by hand.

They know nothing of ranks. Each rank stores its rows, and all wait for each other: names of files,
who reads what, and what happens when a rank fails are left to the trainer, as are values that are
not tensors. Each has `save(state, path, sync)` and `load(state, path)`, called on all ranks."""
import json, os

import torch
import torch.distributed as dist

ALL = ("safetensors", "tensorstore", "hugging-face")


def pieces(state):
    """(name, shape of the whole, first row, rows held here) of each tensor; a scalar is a row."""
    for fqn, first, local in state.parts:
        shape = tuple(state.tensors[fqn].shape)
        row = torch.Size(shape[1:]).numel()
        yield fqn, shape, first // row if shape else 0, local if shape else local.view(1)


def sync_path(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


class Safetensors:
    """A file for each rank, with the first row of each tensor in its header."""

    def __init__(self):
        import safetensors, safetensors.torch  # here: few have both libraries
        self.open, self.save_file = safetensors.safe_open, safetensors.torch.save_file

    def save(self, state, path, sync):
        os.makedirs(path, exist_ok=True)
        file = f"{path}/{dist.get_rank()}.safetensors"
        first = {fqn: begin for fqn, _, begin, _ in pieces(state)}
        self.save_file({fqn: local for fqn, _, _, local in pieces(state)}, file + ".new",
                       {"first": json.dumps(first)})
        if sync: sync_path(file + ".new")
        dist.barrier()
        os.rename(file + ".new", file)
        if sync: sync_path(path)
        dist.barrier()

    def load(self, state, path):
        for name in sorted(os.listdir(path)):
            with self.open(f"{path}/{name}", "pt") as f:
                first = json.loads(f.metadata()["first"])
                for fqn, shape, begin, local in pieces(state):
                    stored = f.get_slice(fqn)
                    if not shape:
                        local.copy_(stored[:])
                        continue
                    low = max(begin, first[fqn])
                    high = min(begin + local.shape[0], first[fqn] + stored.get_shape()[0])
                    if low < high:
                        local[low - begin : high - begin].copy_(
                            stored[low - first[fqn] : high - first[fqn]])


class TensorStore:
    """A zarr array for each tensor, uncompressed, with a chunk for each rank that saved it."""

    def __init__(self):
        import tensorstore
        self.ts = tensorstore

    def spec(self, path, fqn, sync=True):
        return {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/{fqn}/",
                                               "file_io_sync": bool(sync)}}

    def save(self, state, path, sync):
        ranks, all_of = dist.get_world_size(), list(pieces(state))
        if dist.get_rank() == 0:
            made = []
            for fqn, shape, _, _ in all_of:
                shape = shape or (1,)
                chunk = (-(-shape[0] // ranks), *shape[1:])
                made.append(self.ts.open({**self.spec(path, fqn, sync), "metadata": {
                    "shape": shape, "data_type": "float32",
                    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
                    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}},
                    create=True, delete_existing=True))
            for m in made: m.result()
        dist.barrier()
        opened = [(self.ts.open(self.spec(path, fqn, sync), open=True), shape, begin, local)
                  for fqn, shape, begin, local in all_of]
        written = [array.result()[begin : begin + local.shape[0]].write(local.numpy())
                   for array, shape, begin, local in opened
                   if local.numel() and (shape or dist.get_rank() == 0)]
        for w in written: w.result()
        dist.barrier()

    def load(self, state, path):
        opened = [(self.ts.open(self.spec(path, fqn), open=True), begin, local)
                  for fqn, _, begin, local in pieces(state) if local.numel()]
        read = [self.ts.array(local.numpy(), copy=False).write(
                    array.result()[begin : begin + local.shape[0]].translate_to[0])
                for array, begin, local in opened]
        for r in read: r.result()


class HuggingFace:
    """Files of whole tensors, as Hugging Face's libraries have them. DCP writes them: one for each
    rank, of which it then makes one. `safe_open` reads slices of them."""

    def __init__(self):
        import safetensors
        self.open = safetensors.safe_open

    def save(self, state, path, sync):
        import torch.distributed.checkpoint as dcp
        dcp.save(state.tensors, storage_writer=dcp.HuggingFaceStorageWriter(
            path, save_distributed=True, enable_consolidation=True))

    def load(self, state, path):
        parts = {fqn: (first, local) for fqn, first, local in state.parts}
        for name in sorted(n for n in os.listdir(path) if n.endswith(".safetensors")):
            with self.open(f"{path}/{name}", "pt") as f:
                for fqn in f.keys():
                    first, local = parts[fqn]
                    if local.dim() == 0:
                        local.copy_(f.get_tensor(fqn))
                        continue
                    row, column = divmod(first, torch.Size(state.tensors[fqn].shape[1:]).numel())
                    begins = (row, column)[: local.dim()]
                    local.copy_(f.get_slice(fqn)[tuple(
                        slice(b, b + n) for b, n in zip(begins, local.shape))])
        dist.barrier()


def library(name):
    try:
        return {"safetensors": Safetensors, "tensorstore": TensorStore,
                "hugging-face": HuggingFace}[name]()
    except ImportError as e:
        raise SystemExit(f"gpt2_dcp.py --with {name}: {e}: pip install {name}")
