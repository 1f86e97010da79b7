"""Gives the `.metadata` of a checkpoint of PyTorch the class that Megatron-Core 0.15 pickles.

    python3 megatron.py OUT

PyTorch 2.13 or newer. Of Megatron-Core only the class is needed, under its own name.
"""
import dataclasses, pathlib, pickle, sys, types
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import Metadata

@dataclasses.dataclass
class MCoreMetadata(Metadata):
    mcore_data: dict | None = None

name = "megatron.core.dist_checkpointing.strategies.torch"
for n in range(1, name.count(".") + 2):
    sys.modules[".".join(name.split(".")[:n])] = types.ModuleType(name)
MCoreMetadata.__module__ = name
sys.modules[name].MCoreMetadata = MCoreMetadata

out = pathlib.Path(sys.argv[1]) / "megatron_subclass"
dcp.save({"decoder": {"w": torch.arange(6.).reshape(2, 3)}, "step": 7},
         storage_writer=dcp.FileSystemWriter(out), no_dist=True)
m = pickle.loads((out / ".metadata").read_bytes())
mcore = {"decoder.w": {"nd_reformulated_orig_global_shape": (2, 3)}}
(out / ".metadata").write_bytes(pickle.dumps(MCoreMetadata(mcore_data=mcore, **vars(m))))
