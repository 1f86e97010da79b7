// SPDX-License-Identifier: Apache-2.0
// Loads what transformers stored in a trainer's layout, and exports it again.
//
//     layouts MAPPING SOURCE FUSED BACK
//
// FUSED has the tensors of the state as they are; BACK those that the mapping makes of them.
#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>
#include <cairn/mapping/ready.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <exception>
#include <iostream>
#include <map>
#include <string>

namespace {

cairn::mapping named(const std::string& name) {
    namespace map = cairn::map;
    // As layouts.py makes its models.
    map::attention_layout const plain{.heads = 4, .kv_heads = 2};
    auto grouped = plain, adjacent = plain;
    grouped.grouped = true;
    adjacent.adjacent_rotary = adjacent.grouped = true;
    std::map<std::string, cairn::mapping> const all{
        {"gpt2", map::gpt2()},
        {"llm_c", map::llm_c(40, 32)},
        {"llama", map::llama(plain)},
        {"grouped", map::llama(grouped)},
        {"adjacent", map::llama(adjacent)},
        {"mixtral", map::mixtral(plain)},
        {"qwen_moe", map::qwen_moe(plain)},
        {"adjacent_moe", map::qwen_moe(adjacent)},
        {"megatron_llama", map::megatron_llama({plain})},
        {"megatron_layers", map::megatron_llama({plain, false})},
        {"megatron_mixtral", map::megatron_mixtral({plain})},
        {"megatron_qwen_moe", map::megatron_qwen_moe({plain})},
    };
    return all.at(name);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) {
        std::cerr << "usage: layouts MAPPING SOURCE FUSED BACK\n";
        return 2;
    }
    try {
        auto const how = named(argv[1]);
        auto const writer = [] { return cairn::safetensors_writer(cairn::file_store()); };
        // Whole tensors, then shards: each rank of a conversion has some rows.
        auto state = cairn::load_tree(argv[2], {}, how);
        cairn::save(state, argv[3], writer());
        cairn::save(state, argv[4], how, writer());
        cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
            cairn::convert(argv[2], std::string(argv[3]) + "_converted", me, writer(), how);
            cairn::convert_options back;
            back.map_back = true;
            cairn::convert(argv[3], std::string(argv[4]) + "_converted", back, me, writer(), how);
        });
    } catch (const std::exception& e) {
        std::cerr << "layouts: " << e.what() << '\n';
        return 1;
    }
}
