#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers, and files of safetensors, there and back.

    hugging_face.py BUILD

What the usual software wrote is converted for several ranks and exported again; then the usual
software reads it, bit for bit. Prints one line a check and `N passed, N failed`.
"""
import json, os, pathlib, sys, tempfile, warnings, zlib

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", USE_LIBUV="0")
warnings.filterwarnings("ignore")
import torch
try:
    import safetensors.torch, transformers
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)  # ranks are forked, without the threads of their parent

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../support")]
from checks import check, end, run

CAIRN = pathlib.Path(sys.argv[1]).resolve() / "tools/cairn"
RANKS = ((1, 0), (3, 0), (3, 1), (4, 0), (4, 1))  # numbers of ranks, and what is cut: rows, columns


def same(a, b):
    """Equal names, dtypes, shapes and bytes."""
    def raw(t): return t.detach().contiguous().reshape(-1).view(torch.uint8)
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and
        (a[k].numel() == 0 or torch.equal(raw(a[k]), raw(b[k]))) for k in a)


def cairn(name, *args):
    code, said = run(CAIRN, *args)
    check(name, code == 0, said)


def stored(directory):
    """Everything that the safetensors files of a directory hold, by `safe_open`."""
    all = {}
    for path in sorted(directory.glob("*.safetensors")):
        with safetensors.safe_open(path, framework="pt") as f:
            all.update({name: f.get_tensor(name) for name in f.keys()})
    return all


def models(tmp):
    torch.manual_seed(1)
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2)).to(torch.bfloat16)
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=101, n_embd=24, n_layer=2, n_head=3, n_positions=16))
    ids = torch.arange(8)[None]
    for name, model in (("llama", llama), ("gpt2", gpt2)):
        model.eval()
        for size, files in (("20KB", "sharded"), ("5GB", "one file")):
            source = tmp / f"{name} {files}"
            model.save_pretrained(source, max_shard_size=size)
            for ranks, dim in RANKS:
                what = f"{name}, {files}, {ranks} ranks, dimension {dim}"
                trained, export = tmp / f"{what}.dcp", tmp / f"{what}.hf"
                cairn(f"{what}: converted", "convert", source, trained, "--ranks", ranks, "--dim",
                      dim)
                cairn(f"{what}: exported", "convert", trained, export, "--to", "safetensors",
                      "--ranks", ranks, *(("--max-file-size", 20000) if size == "20KB" else ()))
                check(f"{what}: the same tensors", same(stored(source), stored(export)))
            check(f"{name}, {files}: an index where there are shards",
                  (export / "model.safetensors.index.json").exists() == (size == "20KB"))
            base = transformers.AutoModel.from_pretrained(export)
            check(f"{name}, {files}: AutoModel",
                  same(model.base_model.state_dict(), base.state_dict()))
            back = transformers.AutoModelForCausalLM.from_pretrained(export)
            # How weights lie in memory may change the order of sums, by the CPU, and
            # bfloat16 has eight binary digits.
            expected = transformers.AutoModelForCausalLM.from_pretrained(source)(ids).logits
            check(f"{name}, {files}: from_pretrained", same(model.state_dict(), back.state_dict())
                  and torch.allclose(expected, back(ids).logits, rtol=1e-2, atol=1e-2))


def files(tmp):
    kinds = {t: torch.arange(-3, 21).reshape(4, 6).to(getattr(torch, t)) for t in
             "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int64 int32 int16 int8 "
             "uint8 bool complex64".split()}
    kinds.update(scalar=torch.tensor(1.5), empty=torch.empty(0, 3))
    safetensors.torch.save_file(kinds, tmp / "kinds.safetensors")
    torch.save(kinds, tmp / "zip.pt")
    torch.save(kinds, tmp / "legacy.pt", _use_new_zipfile_serialization=False)
    for name, file in (("save_file", "kinds.safetensors"), ("torch.save", "zip.pt"),
                       ("torch.save, legacy", "legacy.pt")):
        for ranks, dim in RANKS:
            what = f"{name}, {ranks} ranks, dimension {dim}"
            loaded, export = tmp / f"{what}.dcp", tmp / f"{what}.safetensors"
            cairn(f"{what}: converted", "convert", tmp / file, loaded, "--ranks", ranks, "--dim",
                  dim)
            cairn(f"{what}: exported", "convert", loaded, export)
            check(f"{what}: load_file", same(kinds, safetensors.torch.load_file(export)))
    cairn("save_file: to a file of torch.save", "convert", tmp / "kinds.safetensors",
          tmp / "back.pt", "--ranks", 3)
    check("save_file: torch.load", same(kinds, torch.load(tmp / "back.pt", weights_only=True)))


def on_request(tmp):
    """A tied weight, whose state has both names: the one that transformers expects is exported,
    with another dtype, and with checksums, which nobody else reads."""
    torch.manual_seed(2)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True))
    state = model.state_dict()
    torch.save(state, tmp / "trained.pt")
    cairn("tied: converted", "convert", tmp / "trained.pt", tmp / "trained", "--ranks", 2)
    wanted = "model.embed_tokens.weight"
    for source in "trained.pt", "trained":
        export = tmp / f"{source} exported"
        cairn(f"{source}: exported on request", "convert", tmp / source, export, "--to",
              "safetensors", "--prefer", wanted, "--dtype", "bfloat16", "--checksums")
        found = stored(export)
        check(f"{source}: the preferred name alone", wanted in found and
              "lm_head.weight" not in found, found.keys())
        check(f"{source}: elements as Tensor.to() rounds them",
              same({k: v.to(torch.bfloat16) for k, v in state.items() if k in found}, found))
        with safetensors.safe_open(export / "model.safetensors", framework="pt") as f:
            crcs = json.loads(f.metadata()["cairn_crc32"])
        check(f"{source}: CRC-32 in the header", crcs == {
            k: zlib.crc32(v.contiguous().view(torch.uint8).numpy().tobytes())
            for k, v in found.items()}, crcs)
        model.config.save_pretrained(export)
        back = transformers.AutoModelForCausalLM.from_pretrained(export, dtype=torch.bfloat16)
        check(f"{source}: from_pretrained ties the other name",
              same({k: v.to(torch.bfloat16) for k, v in state.items()}, back.state_dict()) and
              back.lm_head.weight.data_ptr() == back.model.embed_tokens.weight.data_ptr())


def rank_of_dcp(rank, world, tmp, state):
    """Saves rows, in a file for each rank and in files of whole tensors; loads columns."""
    dist.init_process_group("gloo", rank=rank, world_size=world,
                            store=dist.FileStore(str(tmp / "store"), world))
    mesh = init_device_mesh("cpu", (world,))
    rows = {k: distribute_tensor(v, mesh, [Shard(0)]) for k, v in state.items()}
    for whole in (False, True):
        dcp.save(rows, storage_writer=dcp.HuggingFaceStorageWriter(
            str(tmp / f"theirs {whole}"), save_distributed=True, enable_consolidation=whole,
            fqn_to_index_mapping={name: i + 1 for i, name in enumerate(state)}))
    columns = {k: distribute_tensor(torch.zeros_like(v), mesh, [Shard(v.dim() - 1)])
               for k, v in state.items()}
    dcp.load(columns, storage_reader=dcp.HuggingFaceStorageReader(str(tmp / "ours")))
    assert same(state, {k: v.full_tensor() for k, v in columns.items()})
    dist.destroy_process_group()


def of_dcp(tmp):
    """PyTorch's own reader and writer of Hugging Face's format, on one rank and on several."""
    state = {"a.weight": torch.randn(7, 5), "b.weight": torch.randn(3).to(torch.bfloat16)}
    mapping = {name: i + 1 for i, name in enumerate(state)}
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(
        str(tmp / "theirs"), fqn_to_index_mapping=mapping))
    cairn("HuggingFaceStorageWriter: exported", "convert", tmp / "theirs", tmp / "ours", "--to",
          "safetensors", "--ranks", 4)
    loaded = {k: torch.zeros_like(v) for k, v in state.items()}
    dcp.load(loaded, storage_reader=dcp.HuggingFaceStorageReader(str(tmp / "ours")))
    check("HuggingFaceStorageReader: reads what cairn writes", same(state, loaded))
    try:
        mp.start_processes(rank_of_dcp, (2, tmp, state), nprocs=2, start_method="fork")
        check("HuggingFaceStorageReader: two ranks read columns", True)
    except Exception as e:
        check("HuggingFaceStorageReader: two ranks read columns", False, e)
    for theirs in ("theirs", "theirs False", "theirs True"):
        for ranks, dim in RANKS:
            what = f"HuggingFaceStorageWriter, {theirs}, {ranks} ranks, dimension {dim}"
            loaded, export = tmp / f"{what}.dcp", tmp / f"{what}.hf"
            code, said = run(CAIRN, "convert", tmp / theirs, loaded, "--ranks", ranks, "--dim", dim)
            # PyTorch leaves the files of ranks beside what it made of them; they are named.
            rest = [line for line in said.splitlines() if line.startswith("not copied: ")]
            check(f"{what}: converted", code == 0 and len(rest) ==
                  len(list((tmp / theirs).glob("sharded/*"))), said)
            cairn(f"{what}: exported", "convert", loaded, export, "--to", "safetensors")
            check(f"{what}: the same tensors", same(state, stored(export)))


def main():
    with tempfile.TemporaryDirectory() as d:
        for part in (models, files, on_request, of_dcp):
            place = pathlib.Path(d) / part.__name__
            place.mkdir()
            part(place)
    return end()


if __name__ == "__main__":
    sys.exit(main())
