"""Writes a checkpoint in which each of two ranks has its own metadata.

    python3 rank_metadata.py OUT

PyTorch 2.13 or newer.
"""
import os, pathlib, sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp

def run(rank, out):
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29617",
                   "USE_LIBUV": "0"}
    dist.init_process_group("gloo")
    dcp.save({"w": torch.full((4,), float(rank)), "rank": rank}, storage_writer=dcp.FileSystemWriter(out),
             use_collectives=False)
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(run, (pathlib.Path(sys.argv[1]) / "rank_metadata",), 2)
