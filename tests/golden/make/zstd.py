"""Writes a checkpoint of two ranks whose items are compressed, and what it holds.

    python3 zstd.py OUT

PyTorch 2.13 or newer, and zstandard.
"""
import json, os, pathlib, sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint._extension import ZStandard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

def whole():
    g = torch.Generator().manual_seed(5)
    return {"rows": torch.randn(7, 6, generator=g), "cols": torch.randn(5, 9, generator=g).to(torch.bfloat16),
            "replica": torch.randn(3, 3, generator=g), "zeros": torch.zeros(1, 2000), "empty": torch.empty(0, 3)}

def run(rank, out):
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29618",
                   "USE_LIBUV": "0"}
    dist.init_process_group("gloo")
    mesh = dist.init_device_mesh("cpu", (2,))
    how = {"cols": Shard(1), "replica": Replicate(), "zeros": Replicate()}
    state = {k: distribute_tensor(v, mesh, [how.get(k, Shard(0))]) for k, v in whole().items()}
    dcp.save(state | {"step": 7, "name": "zstd"},
             storage_writer=dcp.FileSystemWriter(out / "checkpoint", _extensions=[ZStandard()]))
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1]) / "zstd"
    folder.mkdir(parents=True)
    mp.spawn(run, (folder,), 2)
    tensors = {k: {"dtype": str(v.dtype)[6:], "shape": list(v.shape),
                   "hex": v.contiguous().view(torch.uint8).numpy().tobytes().hex() if v.numel() else ""}
               for k, v in whole().items()}
    (folder / "expected.json").write_text(
        json.dumps({"tensors": tensors, "objects": {"step": 7, "name": "zstd"}}, indent=1))
