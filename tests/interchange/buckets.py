#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One bucket for cairn's tool and for PyTorch's FsspecReader and FsspecWriter over s3fs.

    buckets.py BUILD

The server is the one that AWS_ENDPOINT_URL and so on name. Prints one line a check and `N passed, N
failed`.
"""
import json, os, pathlib, sys, tempfile, warnings

os.environ.update(USE_LIBUV="0")
warnings.filterwarnings("ignore")
import torch
import torch.distributed.checkpoint as dcp
try:
    import s3fs
    from safetensors.torch import load as safetensors_tensors, save as safetensors_bytes
    from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../support")]
from checks import check, end, run

CAIRN = pathlib.Path(sys.argv[1]).resolve() / "tools/cairn"
BUCKET = "s3://cairn-interchange"


def cairn(name, *args, code=0):
    got, said = run(CAIRN, *args)
    check(name, got == code, said)
    return said


def same(a, b):
    def raw(t): return t.detach().contiguous().reshape(-1).view(torch.uint8)
    return a.keys() == b.keys() and all(
        torch.equal(raw(a[k]), raw(b[k])) and a[k].dtype == b[k].dtype if torch.is_tensor(a[k])
        else a[k] == b[k] for k in a)


def main(tmp):
    fs = s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"],
                           key=os.environ["AWS_ACCESS_KEY_ID"],
                           secret=os.environ["AWS_SECRET_ACCESS_KEY"])
    how = {"endpoint_url": os.environ["AWS_ENDPOINT_URL"], "key": os.environ["AWS_ACCESS_KEY_ID"],
           "secret": os.environ["AWS_SECRET_ACCESS_KEY"]}
    if fs.exists(BUCKET): fs.rm(BUCKET, recursive=True)
    fs.mkdir(BUCKET)
    torch.manual_seed(1)
    state = {"w": torch.randn(300, 70), "half": torch.randn(9, 5).to(torch.bfloat16),
             "large": torch.randn(3_000_000), "none": torch.zeros(0, 4), "step": 7}

    dcp.save(state, storage_writer=FsspecWriter(f"{BUCKET}/run/torch", **how), no_dist=True)
    cairn("a checkpoint of PyTorch in a bucket is whole", "verify", f"{BUCKET}/run/torch")
    cairn("it is converted to a directory", "convert", f"{BUCKET}/run/torch", f"{tmp}/local")
    cairn("and to a bucket, for three ranks", "convert", f"{tmp}/local", f"{BUCKET}/run/cairn",
          "--ranks", "3")
    cairn("both are the same", "diff", f"{BUCKET}/run/torch", f"{BUCKET}/run/cairn")
    cairn("what cairn wrote is whole", "verify", f"{BUCKET}/run/cairn")
    got = {k: torch.empty_like(v) if torch.is_tensor(v) else None for k, v in state.items()}
    dcp.load(got, storage_reader=FsspecReader(f"{BUCKET}/run/cairn", **how), no_dist=True)
    check("PyTorch reads it, bit for bit", same(state, got))
    cairn("it is replaced", "convert", f"{BUCKET}/run/torch", f"{BUCKET}/run/cairn", "--ranks", "2")
    names = [n.rsplit("/", 1)[1] for n in fs.ls(f"{BUCKET}/run/cairn", refresh=True)]
    check("nothing of the replaced one is left", len(names) == 3 and ".metadata" in names, names)

    listed = json.loads(cairn("a bucket is listed", "ls", f"{BUCKET}/run", "--json"))
    check("with both", sorted(c["id"] for c in listed) == ["cairn", "torch"], listed)
    said = cairn("a value is printed", "cat", f"{BUCKET}/run/cairn", "step")
    check("as it is", said.strip() == "7", said)
    fs.pipe(f"{BUCKET}/run/cairn/.saving." + "0" * 32, b"not an intent")
    cairn("gc looks at all of it", "gc", f"{BUCKET}/run", "--dry-run")

    weights = {"a.weight": torch.randn(40, 30), "b": torch.arange(5)}
    fs.pipe(f"{BUCKET}/hf/model.safetensors", safetensors_bytes(weights, metadata={"format": "pt"}))
    fs.pipe(f"{BUCKET}/hf/config.json", b'{"model_type": "none"}')
    cairn("safetensors in a bucket are listed", "ls", f"{BUCKET}/hf")
    cairn("their file too", "ls", f"{BUCKET}/hf/model.safetensors")
    cairn("they are converted", "convert", f"{BUCKET}/hf", f"{tmp}/hf")
    check("with the file beside them", (tmp / "hf/config.json").read_bytes() ==
          b'{"model_type": "none"}')
    cairn("they are the same", "diff", f"{BUCKET}/hf", f"{tmp}/hf")

    tensors = {k: v for k, v in state.items() if torch.is_tensor(v)}
    for ranks in "1", "2":
        cairn("a checkpoint is exported into the bucket", "convert", f"{BUCKET}/run/cairn",
              f"{BUCKET}/export", "--to", "safetensors", "--skip-values", "--max-file-size",
              "1000000", "--ranks", ranks)
        fs.invalidate_cache()
        index = json.loads(fs.cat(f"{BUCKET}/export/model.safetensors.index.json"))
        files = set(index["weight_map"].values())
        got = {}
        for name in files: got |= safetensors_tensors(fs.cat(f"{BUCKET}/export/{name}"))
        check("safetensors reads it, bit for bit", same(tensors, got))
        names = {n.rsplit("/", 1)[1] for n in fs.ls(f"{BUCKET}/export", refresh=True)}
        check("nothing of a replaced one is left",
              len(files) > 1 and names == files | {"model.safetensors.index.json"}, names)
        check("nor beside it", not fs.exists(f"{BUCKET}/.export.saving"))
        cairn("cairn reads it too", "verify", f"{BUCKET}/export")
    cairn("one file is one object", "convert", f"{BUCKET}/export", f"{BUCKET}/one.safetensors")
    check("with all of it", same(tensors, safetensors_tensors(fs.cat(f"{BUCKET}/one.safetensors"))))
    said = cairn("it is not replaced", "convert", f"{BUCKET}/export", f"{BUCKET}/one.safetensors",
                 code=2)
    check("and why is said", "remove it first" in said, said)
    cairn("so is a file of torch.save", "convert", f"{BUCKET}/run/cairn", f"{BUCKET}/one.pt")
    with fs.open(f"{BUCKET}/one.pt") as f:
        check("torch.load reads it", same(state, torch.load(f, weights_only=True)))

    said = cairn("a place without a checkpoint", "ls", f"{BUCKET}/nothing", code=2)
    check("is said to be none", "there is no checkpoint" in said, said)
    os.environ["AWS_SECRET_ACCESS_KEY"] = secret = "wrong/secret+key"
    said = run(CAIRN, "ls", f"{BUCKET}/run")[1]
    check("no secret is told", secret not in said, said)


with tempfile.TemporaryDirectory() as directory: main(pathlib.Path(directory))
sys.exit(end())
