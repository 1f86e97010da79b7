#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers, and files of safetensors, there and back.

    hugging_face.py BUILD

What the usual software wrote is converted for several ranks and exported again; then the usual
software reads it, bit for bit. Prints one line a check and `N passed, N failed`.
"""
import os, pathlib, sys, tempfile, warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", USE_LIBUV="0")
warnings.filterwarnings("ignore")
import torch
try:
    import safetensors.torch, transformers
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)
import torch.distributed.checkpoint as dcp
transformers.utils.logging.disable_progress_bar()

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../support")]
from checks import check, end, run

CAIRN = pathlib.Path(sys.argv[1]).resolve() / "tools/cairn"


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
        expected = model(ids).logits
        for size, files in (("20KB", "sharded"), ("5GB", "one file")):
            source = tmp / f"{name} {files}"
            model.save_pretrained(source, max_shard_size=size)
            for ranks, dim in ((1, 0), (3, 0), (4, 1)):
                what = f"{name}, {files}, {ranks} ranks, dimension {dim}"
                trained, export = tmp / f"{what}.dcp", tmp / f"{what}.hf"
                cairn(f"{what}: converted", "convert", source, trained, "--ranks", ranks, "--dim",
                      dim)
                cairn(f"{what}: exported", "convert", trained, export, "--to", "safetensors",
                      "--ranks", ranks, *(("--max-file-size", 20000) if size == "20KB" else ()))
                check(f"{what}: the same tensors", same(stored(source), stored(export)))
            check(f"{name}, {files}: an index where there are shards",
                  (export / "model.safetensors.index.json").exists() == (size == "20KB"))
            back = transformers.AutoModelForCausalLM.from_pretrained(export)
            check(f"{name}, {files}: from_pretrained", same(model.state_dict(), back.state_dict())
                  and torch.equal(expected, back(ids).logits))


def files(tmp):
    kinds = {t: torch.arange(-3, 21).reshape(4, 6).to(getattr(torch, t)) for t in
             "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int64 int32 int16 int8 "
             "uint8 bool complex64".split()}
    kinds.update(scalar=torch.tensor(1.5), empty=torch.empty(0, 3))
    safetensors.torch.save_file(kinds, tmp / "kinds.safetensors")
    for ranks, dim in ((1, 0), (3, 0), (4, 1)):
        export = tmp / f"kinds {ranks} {dim}.safetensors"
        cairn(f"save_file, {ranks} ranks: converted", "convert", tmp / "kinds.safetensors", export,
              "--ranks", ranks, "--dim", dim)
        check(f"save_file, {ranks} ranks: load_file",
              same(kinds, safetensors.torch.load_file(export)))
    torch.save(kinds, tmp / "kinds.pt")
    cairn("torch.save: converted", "convert", tmp / "kinds.pt", tmp / "of pt.safetensors")
    check("torch.save: load_file",
          same(kinds, safetensors.torch.load_file(tmp / "of pt.safetensors")))
    cairn("save_file: to a file of torch.save", "convert", tmp / "kinds.safetensors",
          tmp / "back.pt", "--ranks", 3)
    check("save_file: torch.load", same(kinds, torch.load(tmp / "back.pt", weights_only=True)))


def of_dcp(tmp):
    """PyTorch's own reader and writer of Hugging Face's format."""
    state = {"a.weight": torch.randn(7, 5), "b.weight": torch.randn(3).to(torch.bfloat16)}
    theirs, ours = tmp / "theirs", tmp / "ours"
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(
        str(theirs), fqn_to_index_mapping={"a.weight": 1, "b.weight": 2}))
    cairn("HuggingFaceStorageWriter: converted", "convert", theirs, ours, "--to", "safetensors",
          "--ranks", 4)
    check("HuggingFaceStorageWriter: the same tensors", same(state, stored(ours)))
    loaded = {k: torch.zeros_like(v) for k, v in state.items()}
    dcp.load(loaded, storage_reader=dcp.HuggingFaceStorageReader(str(ours)))
    check("HuggingFaceStorageReader: reads what cairn writes", same(state, loaded))


def main():
    with tempfile.TemporaryDirectory() as d:
        for part in (models, files, of_dcp):
            place = pathlib.Path(d) / part.__name__
            place.mkdir()
            part(place)
    return end()


if __name__ == "__main__":
    sys.exit(main())
