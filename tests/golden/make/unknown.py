"""Writes checkpoints with what cairn does not know: values of other classes, and other dtypes.

    python3 unknown.py OUT

PyTorch 2.13 or newer, with numpy.
"""
import collections, dataclasses, datetime, enum, io, pathlib, sys, warnings
warnings.filterwarnings("ignore")
import torch
import torch.distributed.checkpoint as dcp
import numpy

class Schedule(enum.Enum):
    COSINE = 1

@dataclasses.dataclass
class Config:
    width: int = 16

class Names(list):
    pass

nested = 0
for _ in range(300):
    nested = [nested]
shared = [0.0] * 64
values = {"deque": collections.deque([1, 2, 3]), "list_subclass": Names(["a", "b"]), "nested": nested,
          "shared": [shared] * 20, "set": {1, 2}, "numpy_scalar": numpy.float32(1.5), "enum": Schedule.COSINE,
          "bytes_io": io.BytesIO(b"content"), "dataclass": Config(), "delta": datetime.timedelta(1),
          "tensors": (torch.arange(4.), torch.ones(2, dtype=torch.int64)),
          "group": [{"lr": 0.1}, {3}]}
plain = {"w": torch.arange(6.).reshape(2, 3), "step": 7}

def save(name, state):
    dcp.save(state, storage_writer=dcp.FileSystemWriter(pathlib.Path(sys.argv[1]) / name), no_dist=True)

save("unknown_values", plain | {"extra": values})
float4 = torch.arange(48, dtype=torch.uint8).reshape(6, 8).view(torch.float4_e2m1fn_x2)
quantised = torch.quantize_per_tensor(torch.arange(8.), 0.1, 10, torch.qint8)
save("unknown_dtypes", plain | {"float4": float4, "quantised": quantised})
