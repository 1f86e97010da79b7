"""Writes a checkpoint with the keys of PyTorch 2.3: a mapping without a tensor in it is one object.

    python3 keys_of_2_3.py OUT

Any PyTorch since 2.4 has the old rule for reading, and can be told to flatten by it.
"""
import sys, warnings
warnings.filterwarnings("ignore")
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import _version

state = {"model": {"w": torch.arange(6.).reshape(2, 3)},
         "optim": {"state": {"w": {"step": torch.tensor(7.0), "exp_avg": torch.ones(2, 3)}},
                   "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": ["w"]},
                                    {"lr": 0.01, "betas": (0.9, 0.99), "params": []}]},
         "run": {"epoch": 3, "data": {"position": 1000, 5: "five"}},
         "mixed": [torch.zeros(2), {"a": 1, "b": {"c": "x"}}],
         "list": [1, 2, 3], "step": 12345}
_version._derived_version = "2_3"
dcp.save(state, storage_writer=dcp.FileSystemWriter(sys.argv[1]), no_dist=True)
