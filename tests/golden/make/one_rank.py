"""Writes a checkpoint of one of two ranks' shards, as `no_dist` of a sharded state.

    python3 one_rank.py OUT

PyTorch 2.13 or newer.
"""
import os, pathlib, sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

def run(rank, out):
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29617",
                   "USE_LIBUV": "0"}
    dist.init_process_group("gloo")
    w = distribute_tensor(torch.arange(12.).reshape(4, 3), init_device_mesh("cpu", (2,)), [Shard(0)])
    if rank == 0:
        dcp.save({"w": w, "plain": torch.ones(2)}, storage_writer=dcp.FileSystemWriter(out), no_dist=True)
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(run, (pathlib.Path(sys.argv[1]) / "one_rank",), 2)
