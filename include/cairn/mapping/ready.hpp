// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_READY_HPP
#define CAIRN_MAPPING_READY_HPP

#include <cairn/detail/config.hpp>
#include <cairn/mapping/mapping.hpp>

#include <cstdint>

/// Mappings of models as `transformers` stores them, to layouts that trainers keep. Names that they
/// do not mention stay what they are; add lines of your own before or after.
namespace cairn::map {

/// GPT-2, whose linear layers are stored transposed (`Conv1D`: inputs × outputs): in the state they
/// are outputs × inputs. Names stay.
CAIRN_DECL mapping gpt2();

/// GPT-2 as llm.c keeps it: `wte`, `wpe`, and one tensor for all layers of each kind, e.g. `qkvw`
/// of shape (layers, 3 × width, width), `lnfw`, `lnfb`.
/// @param padded_vocabulary  Rows of `wte`; 0: as stored. Added rows are 0.
/// @param vocabulary         Rows that are stored; needed if it is padded.
CAIRN_DECL mapping llm_c(std::int64_t padded_vocabulary = 0, std::int64_t vocabulary = 0);

/// How a trainer keeps the weights of attention.
struct attention_layout {
    std::int64_t heads = 0;     ///< Of the queries.
    std::int64_t kv_heads = 0;  ///< Of keys, and of values.
    /// The fused weight has, for each head of keys, its queries, the key and the value, as
    /// Megatron's; otherwise all queries, all keys, all values.
    bool grouped = false;
    /// Rotary embeddings turn elements 2j and 2j + 1 of a head, as in Meta's own code; otherwise j
    /// and j + half, as in `transformers`. Norms of heads (`q_norm`, `k_norm`, of the length of one
    /// head) have the same order.
    bool adjacent_rotary = false;
};

/// Llama, Mistral, Qwen2: `self_attn.{q,k,v}_proj` are one `self_attn.qkv_proj` (with their
/// biases), and `mlp.{gate,up}_proj` are one `mlp.gate_up_proj`, gate first.
/// @throws error errc::invalid_argument if heads are not a multiple of a positive kv_heads
CAIRN_DECL mapping llama(const attention_layout& attention);
/// Mixtral: as @ref llama, and all experts of a layer are `mlp.experts.gate_up_proj` of shape
/// (experts, 2 × inner, width) and `mlp.experts.down_proj`; the router is `mlp.gate.weight`.
CAIRN_DECL mapping mixtral(const attention_layout& attention);
/// Qwen2-MoE and Qwen3-MoE: likewise.
CAIRN_DECL mapping qwen_moe(const attention_layout& attention);

/// How Megatron-Core keeps a model.
struct megatron_layout {
    attention_layout attention{};  ///< Always grouped.
    /// A tensor has a first dimension for all layers, as in Megatron's distributed checkpoints of
    /// models whose layers are alike: `decoder.layers.mlp.linear_fc2.weight`. Otherwise each layer
    /// has its own: `decoder.layers.7.mlp.linear_fc2.weight`.
    bool stacked_layers = true;
};

/// Llama, Mistral, Qwen2, Qwen3 under the names of Megatron-Core's `GPTModel` with the layers of
/// Transformer Engine: `linear_qkv` has, for each head of keys, its queries, the key and the value;
/// `linear_fc1` is gate and up, one after the other, as in distributed checkpoints; norms before
/// them are `layer_norm_weight`. A rank's own `linear_fc1` is two boxes of the whole, its part of
/// gate and its part of up.
///
/// Backwards (see `convert_options::map_back`) it makes of a distributed checkpoint of Megatron's
/// what `transformers` loads.
/// @throws error errc::invalid_argument as @ref llama
CAIRN_DECL mapping megatron_llama(const megatron_layout& how);
/// Mixtral: all layers have experts, `mlp.experts.experts.linear_fc1.weight` of shape (layers,
/// experts, 2 × inner, width); the norm before them is `pre_mlp_layernorm`.
CAIRN_DECL mapping megatron_mixtral(const megatron_layout& how);
/// Qwen2-MoE and Qwen3-MoE whose layers all have experts, without a shared one: likewise.
CAIRN_DECL mapping megatron_qwen_moe(const megatron_layout& how);

}  // namespace cairn::map

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/ready.ipp>
#endif

#endif
