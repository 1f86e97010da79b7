#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers in the layouts of trainers, and back.

    layouts.py BUILD

Ready mappings make of each model what PyTorch makes of its weights, on one rank and on three; what
is exported is what was stored, bit for bit, and computes the same logits. Prints one line a check
and `N passed, N failed`.
"""
import os, pathlib, sys, tempfile, warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
warnings.filterwarnings("ignore")
import torch
try:
    import safetensors.torch, transformers
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)
transformers.utils.logging.disable_progress_bar()

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../support")]
from checks import check, end, run

LAYOUTS = pathlib.Path(sys.argv[1]).resolve() / "tests/interchange/layouts"
HEADS, KV, LAYERS, EXPERTS, WORDS = 4, 2, 2, 3, 32
SIZES = dict(vocab_size=WORDS, hidden_size=16, intermediate_size=24, num_hidden_layers=LAYERS,
             num_attention_heads=HEADS, num_key_value_heads=KV)
MOE = dict(SIZES, moe_intermediate_size=12, head_dim=4, num_experts=EXPERTS, num_experts_per_tok=2)


def stored(directory):
    """Everything that the safetensors files of a directory hold, by `safe_open`."""
    all = {}
    for path in sorted(pathlib.Path(directory).glob("*.safetensors")):
        with safetensors.safe_open(path, framework="pt") as f:
            all.update({name: f.get_tensor(name) for name in f.keys()})
    return all


def same(a, b):
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and torch.equal(a[k], b[k])
        for k in a)


def differences(a, b):
    return f"only in the first: {sorted(a.keys() - b.keys())}; only in the second: " \
           f"{sorted(b.keys() - a.keys())}; different: " \
           f"{[k for k in a.keys() & b.keys() if not torch.equal(a[k], b[k])]}"


def gpt2(w):
    linear = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    return {k: t.T.contiguous() if k.endswith(linear) else t for k, t in w.items()}


def llm_c(w):
    h = "transformer.h.{}."
    def each(name): return torch.stack([w[h.format(i) + name] for i in range(LAYERS)])
    def linear(name): return each(name).transpose(1, 2).contiguous()
    rows = torch.zeros(40 - WORDS, w["transformer.wte.weight"].shape[1])
    return {"wte": torch.cat([w["transformer.wte.weight"], rows]),
            "wpe": w["transformer.wpe.weight"],
            "ln1w": each("ln_1.weight"), "ln1b": each("ln_1.bias"),
            "qkvw": linear("attn.c_attn.weight"), "qkvb": each("attn.c_attn.bias"),
            "attprojw": linear("attn.c_proj.weight"), "attprojb": each("attn.c_proj.bias"),
            "ln2w": each("ln_2.weight"), "ln2b": each("ln_2.bias"),
            "fcw": linear("mlp.c_fc.weight"), "fcb": each("mlp.c_fc.bias"),
            "fcprojw": linear("mlp.c_proj.weight"), "fcprojb": each("mlp.c_proj.bias"),
            "lnfw": w["transformer.ln_f.weight"], "lnfb": w["transformer.ln_f.bias"]}


def adjacent(t, heads):
    """As Meta's own code has the weights: the opposite of the permutation in transformers'
    convert_llama_weights_to_hf.py."""
    return t.view(heads, 2, -1, *t.shape[1:]).transpose(1, 2).reshape(t.shape)


def fused(w, grouped=False, turned=False, experts=None):
    """@param experts  Where they are, and the names of gate, up and down."""
    out = dict(w)
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        for kind in ("weight", "bias"):
            at = layer + "self_attn."
            if f"{at}q_proj.{kind}" not in w: continue
            q, k, v = (out.pop(f"{at}{n}_proj.{kind}") for n in "qkv")
            if turned: q, k = adjacent(q, HEADS), adjacent(k, KV)
            if grouped:
                parts = [t.view(KV, -1, *t.shape[1:]) for t in (q, k, v)]
                all = torch.cat(parts, 1).flatten(0, 1)
            else:
                all = torch.cat([q, k, v])
            out[f"{at}qkv_proj.{kind}"] = all
        for norm in ("q_norm", "k_norm"):
            name = f"{layer}self_attn.{norm}.weight"
            if turned and name in w: out[name] = adjacent(w[name], 1)
        mlp = layer + "mlp."
        if experts is None:
            gate, up = (out.pop(f"{mlp}{n}_proj.weight") for n in ("gate", "up"))
            out[mlp + "gate_up_proj.weight"] = torch.cat([gate, up])
            continue
        at, names = experts
        gate, up, down = ([out.pop(f"{layer}{at}experts.{e}.{n}.weight") for e in range(EXPERTS)]
                          for n in names)
        out[mlp + "experts.gate_up_proj"] = torch.stack(
            [torch.cat(pair) for pair in zip(gate, up)])
        out[mlp + "experts.down_proj"] = torch.stack(down)
        out[mlp + "gate.weight"] = out.pop(f"{layer}{at}gate.weight")
    return out


def megatron(w, stacked=True, experts=None):
    """As Megatron-Core's distributed checkpoints have a model: see sharded_state_dict of its
    TransformerBlock, MLP and SequentialMLP."""
    out = {"embedding.word_embeddings.weight": w["model.embed_tokens.weight"],
           "decoder.final_layernorm.weight": w["model.norm.weight"]}
    if "lm_head.weight" in w: out["output_layer.weight"] = w["lm_head.weight"]
    layers = []
    for i in range(LAYERS):
        def at(name): return w.get(f"model.layers.{i}.{name}")
        def heads(kind):
            if at(f"self_attn.q_proj.{kind}") is None: return None
            parts = [at(f"self_attn.{n}_proj.{kind}") for n in "qkv"]
            groups = [list(t.chunk(KV)) for t in parts]
            return torch.cat([t for group in zip(*groups) for t in group])
        layer = {"self_attention.linear_qkv.layer_norm_weight": at("input_layernorm.weight"),
                 "self_attention.linear_qkv.weight": heads("weight"),
                 "self_attention.linear_qkv.bias": heads("bias"),
                 "self_attention.q_layernorm.weight": at("self_attn.q_norm.weight"),
                 "self_attention.k_layernorm.weight": at("self_attn.k_norm.weight"),
                 "self_attention.linear_proj.weight": at("self_attn.o_proj.weight")}
        norm = at("post_attention_layernorm.weight")
        if experts is None:
            layer["mlp.linear_fc1.layer_norm_weight"] = norm
            layer["mlp.linear_fc1.weight"] = torch.cat(
                [at("mlp.gate_proj.weight"), at("mlp.up_proj.weight")])
            layer["mlp.linear_fc2.weight"] = at("mlp.down_proj.weight")
        else:
            of, (gate, up, down) = experts
            def one(e, name): return at(f"{of}experts.{e}.{name}.weight")
            layer["pre_mlp_layernorm.weight"] = norm
            layer["mlp.router.weight"] = at(of + "gate.weight")
            layer["mlp.experts.experts.linear_fc1.weight"] = torch.stack(
                [torch.cat([one(e, gate), one(e, up)]) for e in range(EXPERTS)])
            layer["mlp.experts.experts.linear_fc2.weight"] = torch.stack(
                [one(e, down) for e in range(EXPERTS)])
        layers.append({k: t for k, t in layer.items() if t is not None})
    for name in layers[0]:
        if stacked:
            out["decoder.layers." + name] = torch.stack([layer[name] for layer in layers])
            continue
        for i, layer in enumerate(layers): out[f"decoder.layers.{i}.{name}"] = layer[name]
    return out


def main(tmp):
    torch.manual_seed(1)
    small = transformers.GPT2Config(vocab_size=WORDS, n_positions=16, n_embd=8, n_layer=LAYERS,
                                    n_head=2)
    words = ("block_sparse_moe.", ("w1", "w3", "w2"))
    projections = ("mlp.", ("gate_proj", "up_proj", "down_proj"))
    t = transformers
    for mapping, name, model, expected in (
            ("gpt2", "gpt2", t.GPT2LMHeadModel(small), gpt2),
            ("llm_c", "gpt2", t.GPT2LMHeadModel(small), llm_c),
            ("llama", "llama", t.LlamaForCausalLM(t.LlamaConfig(**SIZES)), fused),
            ("llama", "mistral", t.MistralForCausalLM(t.MistralConfig(**SIZES)), fused),
            ("llama", "qwen2", t.Qwen2ForCausalLM(t.Qwen2Config(**SIZES)), fused),
            ("grouped", "qwen2", t.Qwen2ForCausalLM(t.Qwen2Config(**SIZES)),
             lambda w: fused(w, grouped=True)),
            ("adjacent", "qwen2", t.Qwen2ForCausalLM(t.Qwen2Config(**SIZES)),
             lambda w: fused(w, grouped=True, turned=True)),
            ("mixtral", "mixtral",
             t.MixtralForCausalLM(t.MixtralConfig(**SIZES, num_local_experts=EXPERTS)),
             lambda w: fused(w, experts=words)),
            ("qwen_moe", "qwen3_moe", t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**MOE)),
             lambda w: fused(w, experts=projections)),
            ("adjacent_moe", "qwen3_moe", t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**MOE)),
             lambda w: fused(w, grouped=True, turned=True, experts=projections)),
            ("megatron_llama", "llama", t.LlamaForCausalLM(t.LlamaConfig(**SIZES)), megatron),
            ("megatron_llama", "qwen3", t.Qwen3ForCausalLM(
                t.Qwen3Config(**SIZES, head_dim=4, tie_word_embeddings=True)), megatron),
            ("megatron_layers", "qwen2", t.Qwen2ForCausalLM(t.Qwen2Config(**SIZES)),
             lambda w: megatron(w, stacked=False)),
            ("megatron_mixtral", "mixtral",
             t.MixtralForCausalLM(t.MixtralConfig(**SIZES, num_local_experts=EXPERTS)),
             lambda w: megatron(w, experts=words)),
            ("megatron_qwen_moe", "qwen3_moe", t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**MOE)),
             lambda w: megatron(w, experts=projections))):
        title = f"{name} as {mapping}"
        model.eval()
        for parameter in model.parameters():  # biases and norms are all equal at first
            torch.nn.init.normal_(parameter)
        place = tmp / title.replace(" ", "_")
        source, to, back = place / "hf", place / "fused", place / "back"
        model.save_pretrained(source)
        code, said = run(LAYOUTS, mapping, source, to, back)
        check(f"{title}: loaded and exported", code == 0, said)
        if code != 0: continue
        original = stored(source)
        for suffix in ("", "_converted"):
            ours, made = stored(f"{to}{suffix}"), expected(original)
            check(f"{title}: what PyTorch makes{suffix}", same(ours, made),
                  differences(ours, made))
            again = stored(f"{back}{suffix}")
            check(f"{title}: back{suffix}", same(again, original), differences(again, original))
        if mapping in ("mixtral", "qwen_moe"):
            held = {k: v for k, v in model.state_dict().items() if ".mlp.experts." in k}
            ours = {k: v for k, v in stored(to).items() if ".mlp.experts." in k}
            check(f"{title}: experts as transformers keeps them", same(ours, held),
                  differences(ours, held))
        for file in source.glob("*.json"):
            if "index" not in file.name: (back / file.name).write_bytes(file.read_bytes())
        tokens = torch.arange(8).view(1, 8) % WORDS
        with torch.no_grad():
            wanted = model(tokens).logits
            found = type(model).from_pretrained(back).eval()(tokens).logits
        check(f"{title}: the same logits", torch.equal(wanted, found))


with tempfile.TemporaryDirectory() as tmp: main(pathlib.Path(tmp))
sys.exit(end())
