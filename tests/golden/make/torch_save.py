#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of torch.save against which those that are laid out by cairn are compared, byte for byte.

Usage: torch_save.py OUT, with PyTorch 2.13. Also prints the SHA-256 of a file of 66000 tensors,
which is too large to keep.
"""
import hashlib, pathlib, struct, sys, warnings

warnings.filterwarnings("ignore")
import torch
from torch.serialization import skip_data

OUT = pathlib.Path(sys.argv[1])


def filled(dtype, *shape):
    """A tensor whose bytes are a pattern, in a storage of its own."""
    size = torch.empty(shape, dtype=dtype, device="meta").nbytes
    if size == 0: return torch.empty(shape, dtype=dtype)
    most = 2 if dtype is torch.bool else 251
    content = bytearray((31 * i + size) % most for i in range(size))
    return torch.frombuffer(content, dtype=torch.uint8).view(dtype).reshape(shape)


def simple():
    weight = filled(torch.float32, 2, 3)
    return {
        "model": {"weight": weight, "bias": filled(torch.bfloat16, 3),
                  "tied": weight.reshape(3, 2),
                  "scalar": filled(torch.int64), "empty": filled(torch.float32, 0, 4),
                  "float8": filled(torch.float8_e4m3fn, 5), "flags": filled(torch.bool, 3)},
        "optim": {"state": {"0": {"step": filled(torch.float32),
                                  "exp_avg": filled(torch.float32, 2, 3)},
                            "1": {"step": filled(torch.float32),
                                  "exp_avg": filled(torch.bfloat16, 3)}},
                  "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1]}]},
        "list": [filled(torch.uint8, n) for n in range(1, 4)],
        "epoch": 3, "step": 70000, "none": None, "done": False, "name": "run", "0": b"a\xff",
        "size": torch.Size([2, 3]), "trained": filled(torch.float16, 2).requires_grad_(),
    }


def huge():
    """More than 4 GiB: sizes and offsets of 64 bits, around the limits. The elements are a hole."""
    def bytes_of(n): return torch.empty(n, dtype=torch.uint8)
    return {"a": bytes_of(10), "max": bytes_of((1 << 32) - 1), "b": bytes_of(12),
            "empty": bytes_of(0), "less": bytes_of((1 << 32) - 2), "c": bytes_of(20),
            "huge": bytes_of(5 << 30), "d": bytes_of(4)}


def outside_of_elements(path):
    """Yields (offset, bytes) for all that is not an element."""
    with open(path, "rb") as f:
        f.seek(-98, 2)
        count, size, at = struct.unpack("<QQQ", f.read(56)[32:])
        f.seek(at)
        directory, begin, o = f.read(size), 0, 0
        for _ in range(count):
            n, x = struct.unpack("<HH", directory[o + 28:o + 32])
            stored, header = directory[o + 24:o + 28], directory[o + 42:o + 46]
            name = directory[o + 46:o + 46 + n].decode()
            wide = directory[o + 50 + n:o + 46 + n + x]
            length = struct.unpack("<I", stored)[0]
            if length == 0xffffffff: length, wide = struct.unpack("<Q", wide[:8])[0], wide[16:]
            header = struct.unpack("<I", header)[0]
            if header == 0xffffffff: header = struct.unpack("<Q", wide[:8])[0]
            o += 46 + n + x
            if "/data/" not in name or length == 0: continue
            f.seek(header + 26)
            data = header + 30 + sum(struct.unpack("<HH", f.read(4)))
            f.seek(begin)
            yield begin, f.read(data - begin)
            begin = data + length
        f.seek(begin)
        yield begin, f.read()


def main():
    torch.save(simple(), OUT / "simple.pt")
    with skip_data(): torch.save(huge(), OUT / "huge.pt")
    with open(OUT / "huge.txt", "w") as text:
        for offset, content in outside_of_elements(OUT / "huge.pt"):
            print(offset, content.hex(), file=text)
    (OUT / "huge.pt").unlink()
    torch.save({f"t{i}": torch.zeros(1, dtype=torch.uint8) for i in range(66000)}, OUT / "many.pt")
    print("many.pt", hashlib.sha256((OUT / "many.pt").read_bytes()).hexdigest())
    (OUT / "many.pt").unlink()


if __name__ == "__main__": main()
