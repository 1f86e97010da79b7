#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of torch.save that cairn lays out, loaded by PyTorch.

    torch_save_files.py BUILD

Each is loaded whole, by mmap, and by mmap with the offsets that PyTorch calculates, all with
`weights_only=True`. Prints one line a check and `N passed, N failed`.
"""
import collections, datetime, os, pathlib, random, sys, tempfile, warnings, zipfile

os.environ["TORCH_SERIALIZATION_DEBUG"] = "1"  # calculated offsets are compared with those stored
warnings.filterwarnings("ignore")
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.utils.serialization import config

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../support"), str(HERE / "../golden/make")]
from checks import check, end, run
from torch_save import filled, simple

FILES = pathlib.Path(sys.argv[1]).resolve() / "tests/interchange/torch_save_files"
CAIRN = pathlib.Path(sys.argv[1]).resolve() / "tools/cairn"
DTYPES = [getattr(torch, name) for name in (
    "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz "
    "float8_e8m0fnu int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex128 complex64 "
    "complex32 float4_e2m1fn_x2").split()]


def same(a, b):
    """Equal in type and content, but for the order of keys and the classes of containers."""
    if isinstance(a, torch.Tensor):
        def raw(t): return t.detach().reshape(-1).view(torch.uint8)
        return (isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and
                a.requires_grad == b.requires_grad and b.is_contiguous() and
                (a.numel() == 0 or torch.equal(raw(a), raw(b))))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def loads(name, path, wanted):
    """Loads the file in each way; what is loaded must be the same."""
    for way, mmap, calculated in (("", False, False), (", mmap", True, False),
                                  (", calculated offsets", True, True)):
        try:
            with config.patch("load.calculate_storage_offsets", calculated):
                loaded = torch.load(path, weights_only=True, mmap=mmap)
            check(name + way, same(wanted, loaded), "loaded something else")
        except Exception as e:
            check(name + way, False, str(e)[:1000])
    with zipfile.ZipFile(path) as z:  # every checksum
        check(name + ", as a zip", z.testzip() is None)
    return loaded


def again(name, folder, state, items=()):
    """The state as cairn writes what PyTorch has written."""
    torch.save(state, folder / "in.pt")
    code, said = run(FILES, "again", folder / "in.pt", folder / f"{name}.pt", *items)
    check(f"{name}: written", code == 0, said)
    converted(name, folder, state)
    return folder / f"{name}.pt", said


def converted(name, folder, state):
    """The same file through DCP's format and back, by the program."""
    if not CAIRN.exists() or name not in ("kinds", "values", "many"):
        return
    dcp, back = folder / f"{name}.dcp", folder / f"{name}.back.pt"
    for source, target, ranks in ((folder / "in.pt", dcp, "2"), (dcp, back, "1")):
        code, said = run(CAIRN, "convert", source, target, "--ranks", ranks)
        check(f"{name}: {target.name}", code == 0, said)
    loads(f"{name}, through DCP", back, state)


def values():
    return {
        "none": None, "true": True, "int": -7, "big": 1 << 100, "minus": -(1 << 70),
        "float": 1e-300, "inf": float("inf"), "str": "h\u00e9llo\n", "long": "x" * 70000,
        "bytes": b"\x00\xff", "nothing": b"",
        "tuple": (1, (2, "a"), ()), "size": torch.Size([2, 3]), "list": [1, [2.5, None]],
        "pairs": {(1, 2): "x", (3,): None}, "many": list(range(2500)),
        "keys": {str(i): i for i in range(2001)},
        "device": torch.device("cpu"), "dtype": torch.float8_e5m2, "set": {1, 2}, "complex": 1 + 2j,
        "counter": (collections.Counter("aab"),), "within": ({"a": [1], 2: {}},),
    }


def simple_state(tmp):
    path = tmp / "simple.pt"
    check("simple: written", run(FILES, "simple", path)[0] == 0)
    loaded = loads("simple", path, simple())
    check("simple: order of keys", list(loaded) == list(simple()))
    model = loaded["model"]
    check("simple: tied", model["tied"].data_ptr() == model["weight"].data_ptr())
    torch.save(simple(), tmp / "theirs" / "simple.pt")
    if torch.__version__.startswith("2.13"):
        check("simple: the bytes of torch.save",
              path.read_bytes() == (tmp / "theirs" / "simple.pt").read_bytes())


def kinds(tmp):
    state = {str(t)[6:]: {"matrix": filled(t, 3, 2), "scalar": filled(t),
                          "empty": torch.empty((2, 0), dtype=t)} for t in DTYPES}
    path, _ = again("kinds", tmp, state)
    loads("kinds", path, state)
    path, _ = again("values", tmp, values())
    loads("values", path, values())
    # Enough for storages whose numbers are in another order than their text.
    many = {f"layer.{i}": filled(torch.float32, i % 7, 3) for i in range(1200)}
    path, _ = again("many", tmp, many)
    loads("many", path, many)


def stored_values(tmp):
    """Items as DCP stores them, which are copied as they are; some of protocol 4."""
    shared = [1, 2]
    tensor = filled(torch.float32, 4)
    items = {
        "ordered": collections.OrderedDict(b=1, a=collections.OrderedDict()),
        "tensors": (tensor, tensor[:2].clone(), [tensor], filled(torch.bfloat16, 3)),
        "shared": (shared, shared), "module": torch.nn.Linear(2, 1).state_dict(),
        "parameter": (torch.nn.Parameter(filled(torch.float32, 2)),),
        "words": {"text": "a", "size": torch.Size([1]), "bytes": b"abc", "set": {3}},
        "sets": ({1, "a"}, set()),
    }
    for name, v in items.items():
        torch.save(v, tmp / f"{name}.item", pickle_protocol=4 if name == "sets" else 2)
    state = {"a": filled(torch.uint8, 5), "z": filled(torch.float64, 2)}
    path, said = again("stored", tmp, state, [tmp / f"{n}.item" for n in items])
    loaded = loads("stored", path, {**state, **items})
    check("stored: nothing to trust", said == "", said)
    check("stored: classes", type(loaded["ordered"]) is type(loaded["ordered"]["a"]) is
          type(loaded["module"]) is collections.OrderedDict and
          isinstance(loaded["parameter"][0], torch.nn.Parameter))
    check("stored: what is shared", loaded["shared"][0] is loaded["shared"][1])
    check("stored: storages", loaded["tensors"][0].data_ptr() == loaded["tensors"][2][0].data_ptr())
    check("stored: metadata of a module", loaded["module"]._metadata == items["module"]._metadata)
    trust = {"delta": datetime.timedelta(1), "default": collections.defaultdict(list, a=[1]),
             "deque": collections.deque([1, 2], 3), "frozen": frozenset([1, ()])}
    for name, v in trust.items():
        torch.save(v, tmp / f"{name}.item", pickle_protocol=4 if name == "frozen" else 2)
    path, said = again("trust", tmp, state, [tmp / f"{n}.item" for n in trust])
    check("trust: said", said.splitlines() == ["default __builtin__.list",
                                               "default collections.defaultdict",
                                               "delta datetime.timedelta",
                                               "deque collections.deque",
                                               "frozen __builtin__.frozenset"], said)
    check("trust: loaded", same({**state, **trust}, torch.load(path, weights_only=False)))
    try:
        torch.load(path, weights_only=True)
        check("trust: refused by PyTorch", False)
    except Exception as e:
        check("trust: refused by PyTorch", "weights_only" in str(e), str(e))


class Random:
    """States that DCP's flattening takes apart and puts together again."""
    def __init__(self, seed): self.draw, self.tensors = random.Random(seed), []

    def tensor(self):
        if self.tensors and self.draw.random() < 0.2: return self.draw.choice(self.tensors)
        shape = [self.draw.randrange(4) for _ in range(self.draw.randrange(4))]
        t = filled(self.draw.choice(DTYPES), *shape)
        if t.dtype.is_floating_point and t.itemsize > 1 and self.draw.random() < 0.1:
            t.requires_grad_()
        self.tensors.append(t)
        return t

    def state(self, depth):
        kind = self.draw.randrange(8 if depth < 5 else 5)
        if kind < 3: return self.tensor()
        if kind < 5: return self.draw.choice(list(values().values()))
        n = self.draw.choice([1, 1, 2, 3, 11])
        if kind < 7: return {f"k{self.draw.randrange(30)}": self.state(depth + 1) for _ in range(n)}
        return [self.tensor(), *(self.state(depth + 1) for _ in range(n))]


def random_states(tmp):
    for seed in range(40):
        make = Random(seed)
        state = {f"top{i}": make.state(0) for i in range(make.draw.randrange(1, 6))}
        path, _ = again(f"random{seed}", tmp, state)
        loads(f"random {seed}", path, state)
        path.unlink()


def numbers_as_keys(tmp):
    """An optimizer's state has a dict for each parameter's number."""
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 2)
    adam = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(torch.ones(3)).sum().backward()
        adam.step()
    state = {"optimizer": adam.state_dict(), "odd": {True: 1, None: torch.ones(2), -7: {"x": 2}},
             "text": {"0": torch.zeros(1)}}
    torch.save(state, tmp / "adam.pt")
    code, said = run(CAIRN, "convert", tmp / "adam.pt", tmp / "adam_again.pt", "--ranks", "2")
    check("numbers as keys: nothing is lost", code == 0, said)
    loaded = torch.load(tmp / "adam_again.pt", weights_only=True)
    check("numbers as keys", same(state, loaded), str(loaded))
    other = torch.optim.Adam(model.parameters())
    other.load_state_dict(loaded["optimizer"])
    first = next(iter(model.parameters()))
    check("numbers as keys: an optimizer goes on",
          torch.equal(other.state[first]["exp_avg"], adam.state[first]["exp_avg"]))
    code, said = run(CAIRN, "convert", tmp / "adam.pt", tmp / "adam_dcp")
    check("numbers as keys: DCP has none", code == 1 and
          "'odd.-7', 'odd.None', 'odd.True' and 2 more; they are text" in said, said)


def old_files(tmp):
    """Tensors within values of a file of before PyTorch 1.6, whose storages have other ids."""
    both = torch.arange(4.)
    state = {"w": filled(torch.float32, 3), "pair": (both, both[1:3]),
             "deep": ({"a": [filled(torch.bfloat16, 2)]}, 7)}
    torch.save(state, tmp / "old.pt", _use_new_zipfile_serialization=False)
    for source, target in (("old.pt", "old_again.pt"), ("old.pt", "old_dcp"),
                           ("old_dcp", "old_back.pt")):
        code, said = run(CAIRN, "convert", tmp / source, tmp / target)
        check(f"old files: {target}", code == 0, said)
    dcp_to_torch_save(tmp / "old_dcp", tmp / "old_theirs.pt")
    for name in ("old_again", "old_back", "old_theirs"):
        loads(f"old files: {name}", tmp / f"{name}.pt", state)


def main():
    with tempfile.TemporaryDirectory() as d:
        tmp = pathlib.Path(d)
        (tmp / "theirs").mkdir()
        simple_state(tmp)
        kinds(tmp)
        stored_values(tmp)
        random_states(tmp)
        numbers_as_keys(tmp)
        old_files(tmp)
    sys.exit(end())


main()
