#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers are trained by a C++ trainer in its own layout, on four processes, and
come back.

    trainer.py BUILD

The trainer (trainer.cpp) keeps all layers of a weight in one tensor, transposed, with queries, keys
and values, and gates and ups, fused, of which a rank has a part of what tensor parallelism gives
it. Its logits, its gradients, as Adam's moments tell them, and its weights are compared with those
of PyTorch, before and after a step, and after one more on four and on two processes. Prints one
line a check and `N passed, N failed`.
"""
import os, pathlib, sys, tempfile, warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
warnings.filterwarnings("ignore")
import torch
try:
    import transformers
    from safetensors.torch import load_file
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)
transformers.utils.logging.disable_progress_bar()
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../support")]
from checks import check, end, run

BUILD = pathlib.Path(sys.argv[1]).resolve()
TRAINER, CAIRN = BUILD / "tests/interchange/trainer", BUILD / "tools/cairn"
# As trainer/shape.hpp has them.
WORDS, TEXTS, TIME, EXPERTS, RATE = 30, 4, 6, 3, 1e-3
SIZES = dict(vocab_size=WORDS, hidden_size=12, intermediate_size=12, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=2, head_dim=4, rms_norm_eps=1e-5,
             rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
TOKENS = torch.tensor([[(7 * b + 3 * t + b * t) % WORDS for t in range(TIME)]
                       for b in range(TEXTS)])

COMMON = """
"embed" = pad(stored("model.embed_tokens.weight", [30, -1]), [32, -1])
"head"  = transpose(pad(stored("lm_head.weight", [30, -1]), [32, -1]))
"norm"  = "model.norm.weight"
"norm1" = stack("i", "model.layers.{i}.input_layernorm.weight")
"norm2" = stack("i", "model.layers.{i}.post_attention_layernorm.weight")
"wo"    = stack("i", transpose("model.layers.{i}.self_attn.o_proj.weight"))
follow "optim.state.{param...}.{slot}" = "optim.state.{param...}.{slot}"
follow "optim.param_groups.{param...}.{option}" = "optim.param_groups.{param...}.{option}"
"""
# Rotary embeddings turn neighbours.
LLAMA = COMMON + """
"qkv" = stack("i", transpose(concat(0, [
    merge_dims(permute(split_dim("model.layers.{i}.self_attn.q_proj.weight", 0, [4, 2, -1]),
                       [0, 2, 1, 3]), 0, [4, -1, 2]),
    merge_dims(permute(split_dim("model.layers.{i}.self_attn.k_proj.weight", 0, [2, 2, -1]),
                       [0, 2, 1, 3]), 0, [2, -1, 2]),
    "model.layers.{i}.self_attn.v_proj.weight"], [2, 1, 1])))
"gate_up" = stack("i", transpose(concat(0, ["model.layers.{i}.mlp.gate_proj.weight",
                                            "model.layers.{i}.mlp.up_proj.weight"])))
"down"    = stack("i", transpose("model.layers.{i}.mlp.down_proj.weight"))
"""
# The queries, the key and the value of a group stand together.
MIXTRAL = COMMON + """
"qkv" = stack("i", transpose(interleave(0, 2, ["model.layers.{i}.self_attn.q_proj.weight",
                                               "model.layers.{i}.self_attn.k_proj.weight",
                                               "model.layers.{i}.self_attn.v_proj.weight"],
                                        [2, 1, 1])))
"router"  = stack("i", transpose("model.layers.{i}.block_sparse_moe.gate.weight"))
"gate_up" = stack("i", stack("e", transpose(concat(0, [
    "model.layers.{i}.block_sparse_moe.experts.{e}.w1.weight",
    "model.layers.{i}.block_sparse_moe.experts.{e}.w3.weight"]))))
"down"    = stack("i", stack("e", transpose(
    "model.layers.{i}.block_sparse_moe.experts.{e}.w2.weight")))
"""


def stored(held):
    """Parameters, or what belongs to them, under the names that transformers stores."""
    out = {}
    for name, t in held.items():
        moe = name.replace(".mlp.", ".block_sparse_moe.")
        if name.endswith("experts.gate_up_proj"):
            for e in range(EXPERTS):
                at = moe.replace("gate_up_proj", str(e))
                out[f"{at}.w1.weight"], out[f"{at}.w3.weight"] = t[e].chunk(2) if t.ndim else (t, t)
        elif name.endswith("experts.down_proj"):
            for e in range(EXPERTS):
                out[f"{moe.replace('down_proj', str(e))}.w2.weight"] = t[e] if t.ndim else t
        else:
            out[moe if name.endswith(".mlp.gate.weight") else name] = t
    return out


def train(model, steps):
    """What PyTorch's Adam makes of the model: weights and state, after each step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.99), eps=1e-8)
    for _ in range(steps):
        optimizer.zero_grad()
        logits = model(TOKENS).logits[:, :-1].reshape(-1, WORDS)
        torch.nn.functional.cross_entropy(logits, TOKENS[:, 1:].reshape(-1)).backward()
        optimizer.step()
        held = dict(model.named_parameters())
        out = stored({k: p.detach().clone() for k, p in held.items()})
        for slot in ("exp_avg", "exp_avg_sq", "step"):
            of = stored({k: optimizer.state[p][slot].clone() for k, p in held.items()})
            out.update({f"optim.state.{k}.{slot}": t for k, t in of.items()})
        for k in stored({k: p.detach() for k, p in held.items()}):
            out[f"optim.param_groups.{k}.lr"] = RATE
        yield out


def loaded(directory):
    """The whole checkpoint, as PyTorch's own tools load it."""
    out = {}
    _load_state_dict(out, storage_reader=dcp.FileSystemReader(directory),
                     planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    flat = {}
    def add(at, v):
        if isinstance(v, dict):
            for k, x in v.items(): add(f"{at}.{k}" if at else k, x)
        else: flat[at] = v
    add("", out)
    return flat


def equal(a, b):
    """Why not, bit for bit; else nothing."""
    if a.keys() != b.keys(): return f"names: {sorted(a.keys() ^ b.keys())}"
    return ", ".join(k for k in a if not (torch.equal(a[k], b[k]) and a[k].dtype == b[k].dtype
                                          if torch.is_tensor(a[k]) else a[k] == b[k]))


def near(a, b, tolerance):
    """Likewise, in parts of the largest element."""
    if a.keys() != b.keys(): return f"names: {sorted(a.keys() ^ b.keys())}"
    wrong = []
    for k, x in a.items():
        if not torch.is_tensor(x):
            if x != b[k]: wrong.append(f"{k}: {x} and {b[k]}")
        elif x.shape != b[k].shape: wrong.append(f"{k}: {x.shape} and {b[k].shape}")
        else:
            off = (x.double() - b[k].double()).abs().max() / b[k].double().abs().max()
            if not off <= tolerance: wrong.append(f"{k}: {off:.1e}")
    return ", ".join(wrong)


def logits(file):
    return torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.float64).view(
        TEXTS, TIME, WORDS)


def compute_alike(name, place, directory, file):
    """transformers computes the logits that the trainer has computed."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()
    with torch.no_grad(): off = (model(TOKENS).logits.double() - logits(place / file)).abs().max()
    check(f"{name}: the trainer's logits to 1e-5", off <= 1e-5, f"{off:.1e}")


def main(title, place, model, mapping):
    torch.manual_seed(1)
    for parameter in model.parameters(): torch.nn.init.normal_(parameter, std=0.4)
    hf, export = place / "hf", place / "export"
    model.save_pretrained(hf)
    (place / "map").write_text(mapping)
    def launch(ranks, *args):
        return run(CAIRN, "launch", "-n", ranks, "--", TRAINER, title, place, *args)

    code, said = launch(4, "train")
    check(f"{title}: four processes load it, train it and export it", code == 0, said)
    if code != 0: return
    compute_alike(f"{title}, as it was", place, hf, "logits_0")
    for file in hf.glob("*.json"):
        if "index" not in file.name: (export / file.name).write_bytes(file.read_bytes())
    compute_alike(f"{title}, exported", place, export, "logits_1")
    off = (logits(place / "logits_1") - logits(place / "logits_0")).abs().max()
    check(f"{title}: the step changed what it computes", off > 1e-3, f"{off:.1e}")

    first, second = train(model.double(), 2)
    mapped, weights = loaded(place / "mapped"), load_file(export / "model.safetensors")
    why = near(mapped, first, 1e-5)
    check(f"{title}: weights and optimizer are those that PyTorch has after a step", not why, why)
    why = equal(weights, {k: t for k, t in mapped.items() if not k.startswith("optim.")})
    check(f"{title}: the export has the same weights", not why, why)
    before = load_file(hf / "model.safetensors")
    same = [k for k in before if torch.equal(before[k], weights[k])]
    check(f"{title}: each tensor has changed", before.keys() == weights.keys() and not same, same)

    code, said = run(CAIRN, "convert", place / "own", place / "converted", "--map", place / "map",
                     "--map-back")
    check(f"{title}: its own checkpoint is converted with the same mapping", code == 0, said)
    why = equal(loaded(place / "converted"), mapped) if code == 0 else "nothing"
    check(f"{title}: to what it saves with it", not why, why)

    dcp.save(mapped, checkpoint_id=place / "by_torch", no_dist=True)
    for ranks, source in (4, "mapped"), (2, "mapped"), (4, "by_torch"):
        to = f"{source}_{ranks}"
        code, said = launch(ranks, "resume", source, to)
        check(f"{title}: {ranks} processes load {source} and its own, bit for bit", code == 0, said)
        if code != 0: continue
        same = torch.equal(logits(place / "logits_1"), logits(place / f"logits_{to}"))
        check(f"{title}: {ranks} compute the same with {source}", same)
        why = near(loaded(place / to), second, 1e-4)
        check(f"{title}: {ranks} go on from {source} as PyTorch does", not why, why)


with tempfile.TemporaryDirectory() as tmp:
    for title, made, mapping in (
            ("llama", transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)), LLAMA),
            ("mixtral", transformers.MixtralForCausalLM(transformers.MixtralConfig(
                **SIZES, num_local_experts=EXPERTS, num_experts_per_tok=2,
                experts_implementation="eager")), MIXTRAL)):
        place = pathlib.Path(tmp) / title
        place.mkdir()
        main(title, place, made.eval(), mapping)
sys.exit(end())
