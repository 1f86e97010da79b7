#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What cairn saves PyTorch loads, and what PyTorch saves cairn loads, bit for bit.

    exchange.py BUILD GOLDEN

BUILD holds tools/cairn and tests/interchange/mixed; GOLDEN the samples that PyTorch wrote.
Prints one line a check and `N passed, N failed`.
"""
import json, os, re, sys, tempfile, time, warnings

warnings.filterwarnings("ignore")
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/../support")
from checks import check, end, run

BUILD, GOLDEN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MIXED, CAIRN = f"{BUILD}/tests/interchange/mixed", f"{BUILD}/tools/cairn"




def raw(t):
    t = t.detach().contiguous().reshape(-1)
    return bytes(t.view(torch.uint8).tolist()) if t.numel() else b""


def tensor(spec):
    dtype = getattr(torch, spec["dtype"])
    data = bytearray.fromhex(spec["hex"])
    if not data: return torch.empty(spec["shape"], dtype=dtype)
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(spec["shape"]).clone()


def load_all(path):
    """The whole checkpoint without a template, as PyTorch's own tools load it."""
    sd = {}
    _load_state_dict(sd, storage_reader=dcp.FileSystemReader(path),
                     planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return sd


def flatten(d, prefix=()):
    if isinstance(d, dict):
        for k, v in d.items(): yield from flatten(v, prefix + (str(k),))
    elif isinstance(d, list) and any(isinstance(x, (torch.Tensor, dict, list)) for x in d):
        for i, v in enumerate(d): yield from flatten(v, prefix + (str(i),))
    else:
        yield ".".join(prefix), d


def plain(v):
    if isinstance(v, bytes): return {"bytes": v.hex()}
    if isinstance(v, tuple): return {"tuple": [plain(x) for x in v]}
    if isinstance(v, list): return [plain(x) for x in v]
    if isinstance(v, dict): return {str(k): plain(x) for k, x in v.items()}
    return v


def compare(flat, tensors, objects):
    for k, spec in tensors.items():
        if k not in flat: return f"{k} is missing"
        t = flat[k]
        if str(t.dtype) != "torch." + spec["dtype"] or list(t.shape) != spec["shape"]:
            return f"{k}: {t.dtype} {list(t.shape)}"
        if raw(t) != bytes.fromhex(spec["hex"]): return f"{k}: other bytes"
    for k, v in objects.items():
        if k not in flat: return f"{k} is missing"
        if plain(flat[k]) != v: return f"{k}: {plain(flat[k])!r} instead of {v!r}"
    extra = set(flat) - set(tensors) - set(objects)
    return f"unexpected {sorted(extra)}" if extra else None


EXTRA = {"step": 12345, "huge": 2**80, "ratio": 1.5, "name": "héllo", "none": None, "flag": True,
         "raw": b"\x00\xff", "pair": (1, (2.5, "x")), "list": [1, 2, 3],
         "groups": [{"lr": 0.1, "betas": (0.9, 0.999)}]}


def nested(tensors):
    """The state dict as PyTorch's user would have it: dotted names stay flat keys."""
    return {**tensors, "extra": EXTRA}


def shard_rank(rank, world, store_file, path, specs):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    torch.set_num_threads(1)
    store = dist.FileStore(store_file, world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    plain_dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64)
    out = {}
    for i, (k, spec) in enumerate(specs.items()):
        t = tensor(spec)
        if t.dtype in plain_dtypes and t.ndim:
            place = [Replicate()] if i % 3 == 0 else [Shard(i % t.ndim)]
            t = distribute_tensor(t, mesh, place)
        out[k] = t
    dcp.save(nested(out), checkpoint_id=path)
    # Nobody closes his sockets while another still waits in a collective.
    left = dist.PrefixStore("left", store)
    left.add("ranks", 1)
    while left.add("ranks", 0) < world: time.sleep(0.01)
    dist.destroy_process_group()


def refused_for_its_metadata(tmp):
    """A checkpoint saved with torch_metadata off: PyTorch says why it cannot load it."""
    code, out = run(f"{BUILD}/tests/tools/fixtures", f"{tmp}/fixtures")
    check("cairn saves without PyTorch's pickle", code == 0, out)
    why = ""
    try:
        load_all(f"{tmp}/fixtures/no_pickle")
    except BaseException as e:  # DCP's CheckpointException is no Exception
        why = f"{type(e).__name__}: {e}"
    check("PyTorch refuses it and says why", "torch_metadata off" in why, why or "it was loaded")


def lone_surrogates(tmp):
    """Names and a str that are no Unicode, though Python has and pickles them."""
    d, again, w = f"{tmp}/surrogates", f"{tmp}/surrogates again", torch.arange(6.0)
    whole = {"s\udc80": w, "\ud800.t": {"\udfff": "\udc80\x7f"}}
    want = dict(flatten(whole))
    dcp.save(whole, checkpoint_id=d, no_dist=True)
    code, out = run(CAIRN, "ls", d)
    check("cairn lists lone surrogates that PyTorch saved",
          code == 0 and "s\\udc80  float32" in out, out)
    code, out = run(CAIRN, "reshard", d, again, "--ranks", "2")
    if code == 0: code, out = run(CAIRN, "diff", d, again)
    check("cairn re-shards them", code == 0, out)
    found = dict(flatten(load_all(again))) if code == 0 else {}
    check("PyTorch loads them after that", found.keys() == want.keys() and
          all(plain(found[k]) == v if isinstance(v, str) else raw(found[k]) == raw(v)
              for k, v in want.items()), ascii(found))
    code, out = run(f"{BUILD}/tests/tools/fixtures", f"{tmp}/names")
    found = dict(flatten(load_all(f"{tmp}/names/names"))) if code == 0 else out
    check("PyTorch loads lone surrogates that cairn saved", code == 0 and
          found["s\udc80"] == "\ud800\x7f" and "a\x1b[2J\x9b" in found, ascii(found))


def golden_cases():
    for version in sorted(os.listdir(GOLDEN)):
        if version.startswith("torch-"):
            for case in sorted(os.listdir(f"{GOLDEN}/{version}")):
                yield f"{version}/{case}"


def in_turn(tmp, specs, objects):
    """PyTorch and cairn save over each other: each reads what the other has saved last, and cairn
    removes PyTorch's files. PyTorch removes none, so that cairn's are left until they are old."""
    d = f"{tmp}/in_turn"
    whole = nested({k: tensor(s) for k, s in specs.items()})
    for turn in range(3):
        code, out = run(MIXED, "save", d, str(turn + 1))
        names = sorted(os.listdir(d))
        check(f"turn {turn}: cairn saves, and removes what PyTorch has saved",
              code == 0 and not any(re.fullmatch(r"__\d+_\d+\.distcp", n) for n in names),
              f"{out} {names}")
        check(f"turn {turn}: each of its data files has an id",
              all(re.fullmatch(r"\.metadata|__\d+_\d+\.[0-9a-f]{32}\.distcp", n) for n in names),
              names)
        why = compare(dict(flatten(load_all(d))), specs, objects)
        check(f"turn {turn}: PyTorch loads what cairn saved", why is None, why)
        dcp.save(whole, checkpoint_id=d, no_dist=True)
        check(f"turn {turn}: PyTorch saves over it, and removes nothing",
              set(names) < set(os.listdir(d)), os.listdir(d))
        code, out = run(MIXED, "load", d, "2")
        check(f"turn {turn}: cairn loads what PyTorch saved", code == 0, out)


def main():
    code, out = run(MIXED, "describe")
    specs = json.loads(out)["tensors"]
    known = {k: s for k, s in specs.items() if hasattr(torch, s["dtype"])}
    objects = {k: plain(v) for k, v in flatten({"extra": EXTRA})}
    with tempfile.TemporaryDirectory() as tmp:
        for n in (1, 2, 4, 7):
            d = f"{tmp}/cairn{n}"
            code, out = run(MIXED, "save", d, str(n))
            check(f"cairn saves on {n} ranks", code == 0, out)
            try:
                why = compare(dict(flatten(load_all(d))), specs, objects)
            except Exception as e:
                why = f"{type(e).__name__}: {e}"
            check(f"PyTorch loads what {n} ranks of cairn saved", why is None, why)
            for m in (1, 3, 5):
                code, out = run(MIXED, "load", d, str(m))
                check(f"cairn loads {n} ranks' on {m}", code == 0, out)
        refused_for_its_metadata(tmp)
        lone_surrogates(tmp)
        in_turn(tmp, specs, objects)
        try:
            d = f"{tmp}/torch1"
            whole = nested({k: tensor(s) for k, s in specs.items()})
            dcp.save(whole, checkpoint_id=d, no_dist=True)
            for m in (1, 2, 3, 7):
                code, out = run(MIXED, "load", d, str(m))
                check(f"cairn loads one process of PyTorch's on {m}", code == 0, out)
            for world in (2, 4):
                d = f"{tmp}/torch{world}"
                mp.spawn(shard_rank, args=(world, f"{tmp}/store{world}", d, specs), nprocs=world)
                for m in (1, 3, 4):
                    code, out = run(MIXED, "load", d, str(m))
                    check(f"cairn loads {world} processes of PyTorch's on {m}", code == 0, out)
        except Exception as e:
            check("PyTorch saves", False, f"{type(e).__name__}: {e}")
        for case in golden_cases():
            with open(f"{GOLDEN}/{case}/expected.json") as f:
                want = json.load(f)
            for n in (1, 3, 5):
                d = f"{tmp}/{case}-{n}"
                os.makedirs(os.path.dirname(d), exist_ok=True)
                source = f"{GOLDEN}/{case}/checkpoint"
                code, out = run(CAIRN, "reshard", source, d, "--ranks", str(n))
                if code == 0: code, out = run(CAIRN, "diff", source, d)
                if code != 0:
                    check(f"cairn re-shards {case} onto {n}", False, out)
                    continue
                try:
                    why = compare(dict(flatten(load_all(d))), want["tensors"], want["objects"])
                except Exception as e:
                    why = f"{type(e).__name__}: {e}"
                check(f"PyTorch loads {case} after cairn re-sharded it onto {n}", why is None, why)
    sys.exit(end())


if __name__ == "__main__":
    main()
