# SPDX-License-Identifier: Apache-2.0
"""The program cairn and what is no checkpoint of DCP.

Usage: other_formats.py CAIRN FIXTURES GOLDEN. Prints one line a check and `N passed, N failed`.
"""
import hashlib
import io
import json
import pathlib
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
import types
import zipfile
from program import FIXTURES, GOLDEN, cairn, check, end, one_sentence, said


def safetensors(tmp):
    hf = GOLDEN / "formats/hf/transformers_sharded"
    r = cairn("ls", hf)
    check("ls: Hugging Face's directory", r.returncode == 0 and
          b"transformer.h.0.attn.c_attn.weight  float32 [16, 48]  1 chunk" in r.stdout, said(r))
    r = cairn("reshard", hf, tmp / "of hf", "--ranks", 3)
    check("reshard: Hugging Face's directory", r.returncode == 0 and
          b"copied: 'expected.json'" in r.stdout, said(r))
    r = cairn("diff", hf, tmp / "of hf")
    check("diff: two formats", r.returncode == 0 and b"equal: " in r.stdout, said(r))
    one = GOLDEN / "formats/safetensors/numpy/model.safetensors"
    r = cairn("reshard", one, tmp / "of a file.bin", "--ranks", 2)
    check("reshard: a file of safetensors, to a directory whatever its name", r.returncode == 0 and
          (tmp / "of a file.bin/.metadata").exists(), said(r))
    r = cairn("cat", one, "u16", "--raw")
    check("cat: a file of safetensors", r.returncode == 0 and r.stdout ==
          cairn("cat", tmp / "of a file.bin", "u16", "--raw").stdout, said(r))
    kinds = GOLDEN / "formats/safetensors/torch_kinds/kinds.safetensors"
    r = cairn("convert", kinds, tmp / "kinds")
    check("convert: names members of the header that it does not keep", r.returncode == 1 and
          b"not copied: member '__metadata__.note' of the header\n" in r.stdout and
          r.stdout.count(b"not copied") == 1, said(r))
    (tmp / "hf").mkdir()
    (tmp / "hf" / "model.safetensors").write_bytes(b"x")
    r = cairn("ls", tmp / "hf")
    check("ls: names a file of safetensors that is none", r.returncode == 2 and
          one_sentence(r) and b"hf/model.safetensors" in r.stderr, said(r))


def model_and_checkpoints(tmp):
    """What a trainer writes: a model, and checkpoints below."""
    mix = tmp / "mix"
    shutil.copytree(GOLDEN / "one_rank", mix / "step_1")
    listing = cairn("ls", mix)
    check("ls: a directory of checkpoints", listing.returncode == 0 and
          listing.stdout.startswith(b"step_1  "), said(listing))
    links = tmp / "links"
    links.mkdir()
    (links / "model.safetensors").symlink_to("../blobs/1234")
    for command in "ls", "verify", "stats":
        r = cairn(command, links)
        check(f"{command}: a link that leads nowhere is named", r.returncode == 2 and
              one_sentence(r) and b"links/model.safetensors" in r.stderr and
              b"nothing at '../blobs/1234'" in r.stderr, said(r))
    for args in (mix,), (mix, "--json"):
        r = cairn("ls", *args, "--map", tmp / "nowhere.map")
        check("ls: a mapping that is not there, of a directory of checkpoints",
              r.returncode == 2 and one_sentence(r) and b"nowhere.map" in r.stderr, said(r))
    shutil.copy(GOLDEN / "formats/safetensors/numpy/model.safetensors", mix / "export.safetensors")
    check("ls: checkpoints beside an export", cairn("ls", mix).stdout == listing.stdout)
    (mix / "export.safetensors").rename(mix / "model.safetensors")
    r = cairn("ls", mix)
    check("ls: a model with checkpoints below", r.returncode == 0 and b"u16  uint16" in r.stdout,
          said(r))


def write_torch_save(path, tensors):
    """By name: dtype, shape, strides and the bytes; a shape of None: a quantised tensor."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    made = {}
    for name in "_rebuild_tensor_v2", "_rebuild_qtensor":
        made[name] = type(name, (), {"__module__": "torch._utils", "__qualname__": name})
        setattr(utils, name, made[name])
    for name in "FloatStorage", "QInt8Storage", "per_tensor_affine":
        made[name] = type(name, (), {"__module__": "torch", "__qualname__": name})
        setattr(torch, name, made[name])

    class tensor:
        def __init__(self, key, shape, strides, data):
            self.key, self.shape, self.strides, self.data = key, shape, strides, data

    class pickler(pickle.Pickler):
        def reducer_override(self, x):
            if not isinstance(x, tensor):
                return NotImplemented
            quantised = x.shape is None
            kind = made["QInt8Storage" if quantised else "FloatStorage"]
            storage = (kind, x.key, len(x.data) // (1 if quantised else 4))
            if quantised:
                return made["_rebuild_qtensor"], (
                    storage, 0, (len(x.data),), (1,), (made["per_tensor_affine"], 0.5, 0), False,
                    {})
            return made["_rebuild_tensor_v2"], (storage, 0, x.shape, x.strides, False, {})

        def persistent_id(self, x):
            if isinstance(x, tuple) and x and x[0] in (made["FloatStorage"], made["QInt8Storage"]):
                return ("storage", x[0], x[1], "cpu", x[2])
            return None

    state = {name: tensor(str(i), *of) for i, (name, of) in enumerate(tensors.items())}
    text = io.BytesIO()
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update({"torch": torch, "torch._utils": utils})
    pickler(text, protocol=2).dump(state)
    for name, module in before.items():
        sys.modules.pop(name) if module is None else sys.modules.update({name: module})
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("m/data.pkl", text.getvalue())
        z.writestr("m/byteorder", "little")
        for t in state.values():
            z.writestr(f"m/data/{t.key}", t.data)
        z.writestr("m/version", "3\n")


def not_compared(tmp):
    one = struct.pack("<f", 1)
    write_torch_save(tmp / "a.pt", {"x": ((1 << 44,), (0,), one), "w": ((1,), (1,), one),
                                    "q": (None, None, b"\1\2")})
    write_torch_save(tmp / "b.pt", {"x": ((1 << 44,), (0,), one), "w": ((1,), (1,), one),
                                    "q": ((1,), (1,), one)})
    write_torch_save(tmp / "c.pt", {"w": ((1,), (1,), struct.pack("<f", 2))})
    repeated = b"x: not compared: its 70368744177664 bytes repeat 4 stored ones\n"
    code = b"q: not compared: dtype "
    for a, b in ("a", "a"), ("a", "b"), ("b", "a"):
        r = cairn("diff", tmp / f"{a}.pt", tmp / f"{b}.pt")
        check(f"diff {a} {b}: what is not compared is named", r.returncode == 1 and
              repeated in r.stdout and code in r.stdout and
              r.stdout.endswith(b"\n2 of 3 entries differ\n"), said(r))
    r = cairn("diff", tmp / "a.pt", tmp / "c.pt")
    check("diff: names of one alone, whatever they are", r.returncode == 1 and
          b"q: only in " in r.stdout and b"x: only in " in r.stdout and
          r.stdout.endswith(b"\n3 of 3 entries differ\n"), said(r))
    r = cairn("cat", tmp / "a.pt", "x", "--raw")
    check("cat: a tensor that repeats what is stored is unsupported", r.returncode == 2 and
          one_sentence(r) and b"repeat 4 stored ones" in r.stderr and not r.stdout, said(r))
    r = cairn("verify", tmp / "b.pt")
    check("verify: it is not read for years", r.returncode == 0 and
          b"not checked: 'x': its 70368744177664 bytes repeat 4 stored ones" in r.stdout, said(r))
    write_torch_save(tmp / "names.pt", {"x\x1b[2J": ((1 << 44,), (0,), one)})
    r = cairn("verify", tmp / "names.pt")
    check("verify: its name does not move the cursor", r.returncode == 0 and
          b"\x1b" not in r.stdout and rb"'x\u001b[2J': its 70368744177664 bytes" in r.stdout,
          said(r))
    r = cairn("stats", tmp / "a.pt")
    check("stats: it could not be read", r.returncode == 2 and
          b"repeat 4 stored ones" in r.stdout and b"malformed" not in r.stdout and
          b"; could not read 2 tensors\n" in r.stdout, said(r))


def several_files(tmp):
    hub = tmp / "hub"
    hub.mkdir()
    shard = "pytorch_model-00001-of-00002.bin"
    cairn("convert", GOLDEN / "formats/safetensors/numpy/model.safetensors", hub / shard)
    r = cairn("ls", hub)
    check("ls: one of several files of torch.save", r.returncode == 2 and one_sentence(r) and
          b"one of the 2 files of a model" in r.stderr, said(r))
    (hub / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"u16": shard}}))
    (hub / "config.json").write_text("{}")
    for damaged in "{", '{"weight_map": {"a": 5}}':
        (tmp / "odd").mkdir(exist_ok=True)
        (tmp / "odd/pytorch_model.bin.index.json").write_text(damaged)
        r = cairn("ls", tmp / "odd")
        check("ls: names an index that is none", r.returncode == 2 and one_sentence(r) and
              b"odd/pytorch_model.bin.index.json" in r.stderr, said(r))
    r = cairn("convert", hub, tmp / "of hub", "--to", "safetensors")
    check("convert: several files of torch.save", r.returncode == 0 and
          sorted(p.name for p in (tmp / "of hub").iterdir()) ==
          ["config.json", "model.safetensors"], said(r))
    r = cairn("ls", tmp / "of hub")
    check("convert: what the index names", r.stdout.startswith(b"u16 ") and
          r.stdout.count(b"\n") == 1, said(r))


def verifications(tmp):
    for name in "hf/transformers_sharded", "hf/dcp_sharded_3_ranks", "pt/zip_kinds/state.pt", \
            "pt/legacy_kinds/state.pt", "safetensors/numpy/model.safetensors":
        r = cairn("verify", GOLDEN / "formats" / name)
        check(f"verify: {name}", r.returncode == 0 and b": all fine" in r.stdout and
              b" 0 bytes" not in r.stdout, said(r))
    damaged = bytearray((GOLDEN / "formats/pt/zip_kinds/state.pt").read_bytes())
    with zipfile.ZipFile(GOLDEN / "formats/pt/zip_kinds/state.pt") as z:
        storage = next(x for x in z.infolist() if x.filename.endswith("/data/0"))
    name, extra = struct.unpack_from("<HH", damaged, storage.header_offset + 26)
    damaged[storage.header_offset + 30 + name + extra] ^= 1
    (tmp / "damaged.pt").write_bytes(damaged)
    r = cairn("verify", tmp / "damaged.pt")
    check("verify: a damaged storage", r.returncode == 1 and b"damaged.pt" in r.stdout and
          b"1 finding" in r.stdout, said(r))
    cut = (GOLDEN / "formats/safetensors/numpy/model.safetensors").read_bytes()[:-1]
    (tmp / "cut.safetensors").write_bytes(cut)
    r = cairn("verify", tmp / "cut.safetensors")
    check("verify: a file that is cut short", r.returncode == 1 and
          b"cut.safetensors" in r.stdout, said(r))
    (tmp / "text.txt").write_text("no checkpoint")
    r = cairn("verify", tmp / "text.txt")
    check("verify: a file that is no checkpoint", r.returncode == 2 and one_sentence(r), said(r))


def conversions(tmp):
    source = GOLDEN / "formats/pt/training_state/last.pt"
    names = {x["fqn"]: x for x in json.loads(cairn("ls", source, "--json").stdout)}
    r = cairn("convert", source, tmp / "all", "--dry-run")
    check("convert --dry-run: writes nothing", r.returncode == 0 and b" tensors of " in r.stdout and
          not (tmp / "all").exists(), said(r))
    r = cairn("convert", source, tmp / "all", "--dry-run", "--only", "model*", "--skip", "model*")
    check("convert --dry-run: refuses what a conversion would", r.returncode == 2 and
          one_sentence(r) and b" is wanted" in r.stderr, said(r))
    r = cairn("convert", source, tmp / "all", "--ranks", 2)
    check("convert: a file of torch.save", r.returncode == 1 and
          b"not kept: that these keys are numbers" in r.stdout and
          b"'optimizer.state.0'" in r.stdout and b"not copied" not in r.stdout and
          cairn("diff", source, tmp / "all").returncode == 0 and
          cairn("verify", tmp / "all").returncode == 0, said(r))
    r = cairn("convert", "--only", "model*", "--skip", "*bias", source, tmp / "some", "--dtype",
              "float16")
    some = {x["fqn"]: x for x in json.loads(cairn("ls", tmp / "some", "--json").stdout)}
    wanted = {n for n in names if n.startswith("model") and not n.endswith("bias")}
    check("convert: only some names, as float16", r.returncode == 0 and some and
          set(some) == wanted and
          all(x["dtype"] == "float16" for n, x in some.items()
              if names[n].get("dtype") == "float32"), said(r))
    for pattern, to in ("--only", "some"), ("--skip", "some"), ("--prefer", "s.safetensors"):
        r = cairn("convert", source, tmp / to, pattern, "modle.*")
        check(f"convert: a pattern of {pattern} that matches nothing", r.returncode == 2 and
              one_sentence(r) and b"'modle.*'" in r.stderr and
              len(json.loads(cairn("ls", tmp / "some", "--json").stdout)) == len(some), said(r))
    one = next(n for n in names if n.startswith("model."))
    (tmp / "one.map").write_text(f'"model.renamed" = "{one}"\n')
    r = cairn("convert", source, tmp / "mapped.pt", "--map", tmp / "one.map")
    there = cairn("convert", tmp / "mapped.pt", tmp / "mapped")
    check("convert --map: keys of an optimizer's state stay numbers", r.returncode == 0 and
          there.returncode == 1 and b"'optimizer.state.0'" in there.stdout, said(r) + said(there))
    for again in tmp / "again.pt", tmp / "again.ckpt":
        r = cairn("convert", tmp / "all", again)
        check(f"convert: to {again.name}, a file of torch.save", r.returncode == 0 and
              cairn("diff", source, again).returncode == 0 and
              cairn("verify", again).returncode == 0, said(r))
    r = cairn("convert", GOLDEN / "formats/hf/transformers_sharded", tmp / "hf again", "--to",
              "safetensors", "--ranks", 2, "--max-file-size", 10000)
    check("convert: to Hugging Face's directory, with the files beside it", r.returncode == 0 and
          b"copied: 'expected.json'" in r.stdout and (tmp / "hf again/expected.json").exists() and
          (tmp / "hf again/model.safetensors.index.json").exists() and
          cairn("diff", GOLDEN / "formats/hf/transformers_sharded",
                tmp / "hf again").returncode == 0, said(r))
    consolidated = GOLDEN / "formats/hf/dcp_consolidated_2_files"
    r = cairn("convert", consolidated, tmp / "consolidated")
    check("convert: shards that were consolidated are named, and missing from nothing",
          r.returncode == 0 and b"not copied: 'sharded/" in r.stdout and
          not (tmp / "consolidated/sharded").exists() and
          cairn("diff", consolidated, tmp / "consolidated").returncode == 0, said(r))
    shutil.copytree(GOLDEN / "formats/hf/transformers_sharded", tmp / "modules")
    (tmp / "modules/2_Dense").mkdir()
    shutil.copy(consolidated / "model-00001-of-00002.safetensors",
                tmp / "modules/2_Dense/model.safetensors")
    r = cairn("convert", tmp / "modules", tmp / "modules of DCP")
    check("convert: weights of a module in a directory below are missing", r.returncode == 1 and
          b"not copied: '2_Dense/model.safetensors'\n" in r.stdout, said(r))
    r = cairn("convert", source, tmp / "values.safetensors")
    check("convert: values to safetensors", r.returncode == 2 and one_sentence(r) and
          b"skip" in r.stderr and not (tmp / "values.safetensors").exists(), said(r))
    r = cairn("convert", source, tmp / "values.safetensors", "--skip-values")
    check("convert: without values", r.returncode == 0 and
          (tmp / "values.safetensors").exists(), said(r))
    check("ls: a value in a file of torch.save has no bytes of its own",
          all((x["bytes"] is None) == (x["kind"] == "value") for x in names.values()) and
          {"tensor", "value"} == {x["kind"] for x in names.values()} and
          b"value  last.pt\n" in cairn("ls", source).stdout, cairn("ls", source).stdout)
    r = cairn("convert", tmp / "all", tmp / "checked.safetensors", "--skip-values", "--checksums")
    verified = cairn("verify", tmp / "checked.safetensors")
    check("convert: checksums in a file on request", r.returncode == 0 and
          verified.returncode == 0 and b"not checked" not in verified.stdout and b"not checked" in
          cairn("verify", tmp / "values.safetensors").stdout, said(verified))
    damaged = bytearray((tmp / "checked.safetensors").read_bytes())
    damaged[-1] ^= 1
    (tmp / "checked.safetensors").write_bytes(damaged)
    r = cairn("verify", tmp / "checked.safetensors")
    check("verify: finds a flipped byte of it", r.returncode == 1 and b"1 finding" in r.stdout,
          said(r))
    r = cairn("convert", source, tmp / "never", "--dtype", "int8")
    check("convert: a dtype that is no float's", r.returncode == 2 and one_sentence(r) and
          b"--dtype" in r.stderr and not (tmp / "never").exists(), said(r))


def dequantised(tmp):
    source, to = tmp / "quantised", tmp / "dequantised"
    shutil.copytree(GOLDEN / "formats/hf/quantised_blocks", source)
    config = {"hidden_size": 7, "names": ["a", "\u00fc\"", {"x": None}], "rate": -1.5e-3,
              "empty": [{}, []],
              "quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 4]},
              "tie": True}
    (source / "config.json").write_text(json.dumps(config))
    (source / "hf_quant_config.json").write_text("{}")
    r = cairn("convert", source, to, "--dtype", "bfloat16", "--to", "safetensors")
    check("convert: another dtype for quantised weights", r.returncode == 2 and one_sentence(r) and
          b"--dequantise" in r.stderr and b"'q.weight'" in r.stderr, said(r))
    r = cairn("convert", source, to, "--dequantise", "--dtype", "bfloat16", "--to", "safetensors")
    check("convert: quantised weights on request", r.returncode == 0 and
          b"q.weight  bfloat16 [10, 7]" in cairn("ls", to).stdout and
          b"q.weight_scale_inv" not in cairn("ls", to).stdout, said(r))
    del config["quantization_config"]
    for place in to, tmp / "dequantised as dcp":
        if not place.exists(): r = cairn("convert", source, place, "--dequantise")
        check(f"convert: the configuration then says nothing of it ({place.name})",
              json.loads((place / "config.json").read_text()) == config and
              not (place / "hf_quant_config.json").exists(), said(r))
    weight = cairn("cat", tmp / "dequantised as dcp", "q.weight", "--raw").stdout
    check("convert: they are the expected numbers", hashlib.sha256(weight).hexdigest() ==
          "8e910ace1575730acaffdb94dcdf3168928a3e3cd9c06d6f5ba902daffb591c1", weight[:16])
    for size in -1, 0:
        r = cairn("convert", source, tmp / "never", "--to", "safetensors", "--max-file-size", size)
        check(f"convert: files of {size} bytes are refused", r.returncode == 2 and
              b"--max-file-size" in r.stderr and not (tmp / "never").exists(), said(r))
    cairn("convert", source, tmp / "split", "--to", "safetensors", "--max-file-size", 40)
    r = cairn("convert", tmp / "split", tmp / "whole", "--dequantise")
    check("convert: a file with scales alone is a part of it", r.returncode == 0 and
          len(list((tmp / "split").glob("*.safetensors"))) == 3, said(r))
    (source / "config.json").write_text('{"limits": [Infinity, -Infinity, NaN]}')
    r = cairn("convert", source, tmp / "no block", "--dequantise")
    check("convert: a weight whose blocks nobody tells is named", r.returncode == 1 and
          b"'q.weight'" in r.stderr and b"no block size" in r.stderr, said(r))
    r = cairn("convert", "--block", "4,4", source, tmp / "block", "--dequantise")
    check("convert: an option tells them", r.returncode == 0 and
          cairn("diff", tmp / "block", tmp / "dequantised as dcp").returncode == 0, said(r))


class AnyClass(pickle.Unpickler):
    """Unpickles objects of classes that are not there: their members are those of a dict."""
    def find_class(self, module, name):
        def create(cls, *arguments): return dict.__new__(cls)
        def keep(self, state): self.update(state if isinstance(state, dict) else {"state": state})
        return type(name, (dict,), {"__new__": create, "__init__": lambda self, *a: None,
                                    "__setstate__": keep, "__hash__": lambda self: id(self),
                                    "full_name": f"{module}.{name}"})


def members_of(metadata):
    whole = AnyClass(io.BytesIO(metadata.read_bytes())).load()
    return {**whole, "class": whole.full_name}


def megatron(tmp):
    r = cairn("reshard", GOLDEN / "megatron_subclass", tmp / "megatron", "--ranks", 2)
    before, after = (members_of(x / ".metadata") for x in
                     (GOLDEN / "megatron_subclass", tmp / "megatron"))
    check("reshard: keeps the members and the class of Megatron's .metadata", r.returncode == 0 and
          after["mcore_data"] == before["mcore_data"] == {
              "decoder.w": {"nd_reformulated_orig_global_shape": (2, 3)}} and
          after["class"] == before["class"] ==
          "megatron.core.dist_checkpointing.strategies.torch.MCoreMetadata" and
          after["planner_data"] == before["planner_data"], said(r))


def tied(tmp):
    made = subprocess.run([FIXTURES, tmp], capture_output=True)
    check("the fixtures are written", made.returncode == 0, made.stderr)
    for source, name in (tmp / "tied", "dcp"), (tmp / "tied.pt", "torch"):
        if name == "torch": cairn("convert", tmp / "tied", source)
        for wanted, more in ("embed", ()), ("head", ("--prefer", "h*")):
            to = tmp / f"{name} {wanted}.safetensors"
            r = cairn("convert", source, to, *more)
            found = {x["fqn"] for x in json.loads(cairn("ls", to, "--json").stdout)}
            check(f"convert: of tied names {wanted} is written, from {name}",
                  r.returncode == 0 and found == {wanted} and
                  b"is not stored: it is tied to '" + wanted.encode() in r.stdout, said(r))


def in_brackets(tmp):
    """An argument in brackets is one argument."""
    r = cairn("convert", tmp / "base", tmp / "only w", "--only", "[wx]")
    check("convert: a pattern in brackets", r.returncode == 0 and
          cairn("ls", tmp / "only w").stdout.startswith(b"w  ") and
          cairn("ls", tmp / "only w").stdout.count(b"\n") == 1, said(r))


def main():
    with tempfile.TemporaryDirectory() as d:
        safetensors(pathlib.Path(d))
        model_and_checkpoints(pathlib.Path(d))
        not_compared(pathlib.Path(d))
        several_files(pathlib.Path(d))
        verifications(pathlib.Path(d))
        conversions(pathlib.Path(d))
        dequantised(pathlib.Path(d))
        megatron(pathlib.Path(d))
        tied(pathlib.Path(d))
        in_brackets(pathlib.Path(d))
    sys.exit(end())


main()
