// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_READY_IPP
#define CAIRN_MAPPING_IMPL_READY_IPP

#include <cairn/error.hpp>
#include <cairn/mapping/expressions.hpp>
#include <cairn/mapping/ready.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace cairn::map {

CAIRN_DECL mapping gpt2() {
    mapping m;
    for (std::string const before : {"transformer.h.{i}.", "h.{i}."})
        for (auto const* layer : {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}) {
            auto const name = before + layer + ".weight";
            m.set_optional(name, transpose(stored(name)));  // a model has one of the two
        }
    return m;
}

CAIRN_DECL mapping llm_c(std::int64_t padded_vocabulary, std::int64_t vocabulary) {
    mapping m;
    auto const each = [&](const char* name, const char* of) {
        m.set(name, stack("i", stored(std::string("transformer.h.{i}.") + of)));
    };
    auto const linear = [&](const char* name, const char* of) {
        m.set(name, stack("i", transpose(stored(std::string("transformer.h.{i}.") + of))));
    };
    stored_type known;
    if (vocabulary != 0) known.shape = {vocabulary, -1};
    auto words = stored("transformer.wte.weight", known);
    if (padded_vocabulary != 0) words = pad(std::move(words), {padded_vocabulary, -1});
    m.set("wte", std::move(words));
    m.rename("wpe", "transformer.wpe.weight");
    each("ln1w", "ln_1.weight");
    each("ln1b", "ln_1.bias");
    linear("qkvw", "attn.c_attn.weight");
    each("qkvb", "attn.c_attn.bias");
    linear("attprojw", "attn.c_proj.weight");
    each("attprojb", "attn.c_proj.bias");
    each("ln2w", "ln_2.weight");
    each("ln2b", "ln_2.bias");
    linear("fcw", "mlp.c_fc.weight");
    each("fcb", "mlp.c_fc.bias");
    linear("fcprojw", "mlp.c_proj.weight");
    each("fcprojb", "mlp.c_proj.bias");
    m.rename("lnfw", "transformer.ln_f.weight");
    m.rename("lnfb", "transformer.ln_f.bias");
    return m;
}

/// Lets the two elements of a head that are turned together stand side by side.
/// @param dims  Of the tensor: 2, or 1 for a bias.
inline expression adjacent(expression of, std::int64_t heads, int dims) {
    of = split_dim(std::move(of), 0, {heads, 2, -1});
    of = permute(std::move(of), dims == 1 ? index_vector{0, 2, 1} : index_vector{0, 2, 1, 3});
    return merge_dims(std::move(of), 0, {heads, -1, 2});
}

/// The fused weight, or bias, of attention.
inline expression qkv(const attention_layout& how, const std::string& kind, int dims) {
    std::string const layer = "model.layers.{i}.self_attn.";
    auto q = stored(layer + "q_proj." + kind), k = stored(layer + "k_proj." + kind);
    if (how.adjacent_rotary) {
        q = adjacent(std::move(q), how.heads, dims);
        k = adjacent(std::move(k), how.kv_heads, dims);
    }
    auto const v = stored(layer + "v_proj." + kind);
    auto const queries = how.heads / how.kv_heads;
    return how.grouped ? interleave(0, how.kv_heads, {q, k, v}, {queries, 1, 1})
                       : concat(0, {q, k, v}, {queries, 1, 1});
}
/// What scales the elements of each head before they are turned: it is in their order.
inline expression head_norm(const attention_layout& how, const std::string& name) {
    return how.adjacent_rotary ? adjacent(stored(name), 1, 1) : stored(name);
}
inline void check_heads(const attention_layout& how) {
    if (how.kv_heads <= 0 || how.heads <= 0 || how.heads % how.kv_heads != 0)
        throw error(errc::invalid_argument,
                    {.expected = "attention_layout: heads that are a multiple of kv_heads",
                     .found = std::to_string(how.heads) + " and " + std::to_string(how.kv_heads)});
}
inline mapping with_attention(const attention_layout& how) {
    check_heads(how);
    mapping m;
    std::string const fused = "model.layers.{i}.self_attn.qkv_proj.";
    m.set(fused + "weight", qkv(how, "weight", 2));
    m.set_optional(fused + "bias", qkv(how, "bias", 1));
    for (auto const* of : {"q_norm.weight", "k_norm.weight"})
        if (auto const name = std::string("model.layers.{i}.self_attn.") + of; how.adjacent_rotary)
            m.set_optional(name, head_norm(how, name));
    return m;
}
inline expression gate_up(const std::string& gate, const std::string& up) {
    return concat(0, {stored(gate), stored(up)});
}

CAIRN_DECL mapping llama(const attention_layout& attention) {
    auto m = with_attention(attention);
    std::string const mlp = "model.layers.{i}.mlp.";
    m.set(mlp + "gate_up_proj.weight", gate_up(mlp + "gate_proj.weight", mlp + "up_proj.weight"));
    return m;
}
CAIRN_DECL mapping mixtral(const attention_layout& attention) {
    auto m = with_attention(attention);
    std::string const layer = "model.layers.{i}.", of = layer + "block_sparse_moe.";
    auto const expert = of + "experts.{e}.";
    m.set(layer + "mlp.experts.gate_up_proj",
          stack("e", gate_up(expert + "w1.weight", expert + "w3.weight")));
    m.set(layer + "mlp.experts.down_proj", stack("e", stored(expert + "w2.weight")));
    m.rename(layer + "mlp.gate.weight", of + "gate.weight");
    return m;
}
CAIRN_DECL mapping qwen_moe(const attention_layout& attention) {
    auto m = with_attention(attention);
    // Some layers may have no experts.
    std::string const mlp = "model.layers.{i}.mlp.", expert = mlp + "experts.{e}.";
    m.set_optional(mlp + "gate_up_proj.weight",
                   gate_up(mlp + "gate_proj.weight", mlp + "up_proj.weight"));
    m.set_optional(mlp + "experts.gate_up_proj",
                   stack("e", gate_up(expert + "gate_proj.weight", expert + "up_proj.weight")));
    m.set_optional(mlp + "experts.down_proj", stack("e", stored(expert + "down_proj.weight")));
    return m;
}

/// Lines with Megatron-Core's names.
class megatron_lines {
public:
    explicit megatron_lines(const megatron_layout& how) : how_(how) {
        how_.attention.grouped = true;
        check_heads(how_.attention);
        lines.rename("embedding.word_embeddings.weight", "model.embed_tokens.weight")
            .rename("decoder.final_layernorm.weight", "model.norm.weight")
            .set_optional("output_layer.weight", stored("lm_head.weight"));
        std::string const of = "self_attention.", theirs = "model.layers.{i}.self_attn.";
        of_layer(of + "linear_qkv.layer_norm_weight", layer("input_layernorm.weight"));
        of_layer(of + "linear_qkv.weight", qkv(how_.attention, "weight", 2));
        of_layer(of + "linear_qkv.bias", qkv(how_.attention, "bias", 1), true);
        of_layer(of + "q_layernorm.weight", head_norm(how_.attention, theirs + "q_norm.weight"),
                 true);
        of_layer(of + "k_layernorm.weight", head_norm(how_.attention, theirs + "k_norm.weight"),
                 true);
        of_layer(of + "linear_proj.weight", stored(theirs + "o_proj.weight"));
    }
    static expression layer(const std::string& name) { return stored("model.layers.{i}." + name); }
    void of_layer(const std::string& name, expression e, bool optional = false) {
        auto const whole = (how_.stacked_layers ? "decoder.layers." : "decoder.layers.{i}.") + name;
        if (how_.stacked_layers) e = stack("i", std::move(e));
        if (optional)
            lines.set_optional(whole, std::move(e));
        else
            lines.set(whole, std::move(e));
    }
    /// @param of  Where the experts are, e.g. `mlp.`.
    void experts(const std::string& of, const char* gate, const char* up, const char* down) {
        of_layer("pre_mlp_layernorm.weight", layer("post_attention_layernorm.weight"));
        of_layer("mlp.router.weight", layer(of + "gate.weight"));
        auto const one = [&](const char* name) {
            return layer(of + "experts.{e}." + name + ".weight");
        };
        std::string const all = "mlp.experts.experts.";
        of_layer(all + "linear_fc1.weight", stack("e", concat(0, {one(gate), one(up)})));
        of_layer(all + "linear_fc2.weight", stack("e", one(down)));
    }

    mapping lines{};

private:
    megatron_layout how_;
};

CAIRN_DECL mapping megatron_llama(const megatron_layout& how) {
    megatron_lines m(how);
    using lines = megatron_lines;
    m.of_layer("mlp.linear_fc1.layer_norm_weight", lines::layer("post_attention_layernorm.weight"));
    m.of_layer("mlp.linear_fc1.weight", concat(0, {lines::layer("mlp.gate_proj.weight"),
                                                   lines::layer("mlp.up_proj.weight")}));
    m.of_layer("mlp.linear_fc2.weight", lines::layer("mlp.down_proj.weight"));
    return m.lines;
}
CAIRN_DECL mapping megatron_mixtral(const megatron_layout& how) {
    megatron_lines m(how);
    m.experts("block_sparse_moe.", "w1", "w3", "w2");
    return m.lines;
}
CAIRN_DECL mapping megatron_qwen_moe(const megatron_layout& how) {
    megatron_lines m(how);
    m.experts("mlp.", "gate_proj", "up_proj", "down_proj");
    return m.lines;
}

}  // namespace cairn::map

#endif
