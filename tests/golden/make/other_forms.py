"""Writes a checkpoint whose `.metadata` has other forms than PyTorch's, which no load depends on.

    python3 other_forms.py OUT

PyTorch 2.13 or newer.
"""
import pathlib, pickle, sys
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import filesystem, metadata

out = pathlib.Path(sys.argv[1]) / "other_forms"
state = {"model": {"w": torch.arange(6.).reshape(2, 3), "b": torch.ones(2)}, "step": 7}
dcp.save(state, storage_writer=dcp.FileSystemWriter(out), no_dist=True)
m = pickle.loads((out / ".metadata").read_bytes())

class Properties(metadata.TensorProperties):
    """Saved as a tuple of six, or as a dict of six."""
    def __getstate__(self):
        return dict(self.__dict__) if hasattr(self, "sixth") else (*super().__getstate__(), True)

# Under the name of the class that it replaces.
Properties.__module__ = metadata.__name__
Properties.__name__ = Properties.__qualname__ = "TensorProperties"
metadata.TensorProperties = Properties
for fqn in ("model.w", "model.b"):
    m.state_dict_metadata[fqn].properties.__class__ = Properties
m.state_dict_metadata["model.b"].properties.sixth = "content"

m.planner_data["gone"] = ("gone",)
m.storage_data[metadata.MetadataIndex("gone")] = filesystem._StorageInfo("__9_0.distcp", 0, 1)
m.extra = "content"
m.nothing = None
for info in m.storage_data.values():
    object.__setattr__(info, "digest", "content")
(out / ".metadata").write_bytes(pickle.dumps(m))
