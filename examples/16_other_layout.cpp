// SPDX-License-Identifier: Apache-2.0
// Published weights have q, k and v apart, and linear layers transposed; the trainer has one matrix
// for q, k and v, of which each rank has some columns. The trainer loads them as they are, and
// exports what was published.
#include <cairn/cairn.hpp>
#include <cairn/comm/launched_ranks.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t width = 12, layers = 2;

/// What becomes of the names and shapes: the trainer's names, made of the stored ones.
cairn::mapping layout() {
    using namespace cairn::map;
    cairn::mapping m;
    std::string const theirs = "model.layers.{i}.attn.";
    m.set("blocks.{i}.qkv",
          concat(0, {transpose(stored(theirs + "q")), transpose(stored(theirs + "k")),
                     transpose(stored(theirs + "v"))}));
    m.rename("blocks.{i}.norm", "model.layers.{i}.norm");
    return m;
}

/// Writes weights as somebody might publish them: element (i, j) of the n-th matrix is
/// 1000 n + 100 i + j.
void publish(const std::string& place, cairn::any_communicator& ranks) {
    std::vector<std::vector<float>> memory;
    cairn::state_dict weights;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
        auto const name = "model.layers." + std::to_string(layer) + ".";
        for (auto const* part : {"q", "k", "v"}) {
            auto const n = static_cast<std::int64_t>(memory.size());
            auto& all = memory.emplace_back();
            for (std::int64_t i = 0; i < width; ++i)
                for (std::int64_t j = 0; j < width; ++j)
                    all.push_back(static_cast<float>(1000 * n + 100 * i + j));
            weights[name + "attn." + part] =
                cairn::tensor_view(cairn::dtype::float32, {width, width}, all.data());
        }
        weights[name + "norm"] = std::vector<float>(width, 1);
    }
    cairn::save(weights, place, ranks, cairn::safetensors_writer(cairn::file_store()));
}

}  // namespace

int main() {
    std::atomic<int> wrong{0}, loaded_by{0};
    cairn::run_launched_ranks(2, [&](cairn::any_communicator& ranks) {
        publish("ckpt/published", ranks);
        auto columns = cairn::box::whole({3 * width, width});
        columns.offsets[1] = width * ranks.rank() / ranks.size();
        columns.shape[1] = width * (ranks.rank() + 1) / ranks.size() - columns.offsets[1];
        std::vector<std::vector<float>> memory(
            layers, std::vector<float>(static_cast<std::size_t>(columns.volume())));
        std::vector<std::vector<float>> norms(layers, std::vector<float>(width));
        cairn::state_dict state;
        for (std::size_t layer = 0; layer < layers; ++layer) {
            cairn::sharded_view qkv{{3 * width, width}, cairn::dtype::float32, {}};
            qkv.shards.emplace_back(
                columns,
                cairn::tensor_view(cairn::dtype::float32, columns.shape, memory[layer].data()));
            auto const name = "blocks." + std::to_string(layer) + ".";
            state[name + "qkv"] = qkv;
            state[name + "norm"] = std::span<float>(norms[layer]);
        }
        cairn::load(state, "ckpt/published", ranks, layout());
        for (std::int64_t layer = 0; layer < layers; ++layer) {
            std::size_t at = 0;
            for (std::int64_t i = 0; i < 3 * width; ++i)
                for (auto j = columns.offsets[1]; j < columns.end(1); ++j) {
                    auto const n = 3 * layer + i / width;
                    auto const expected = 1000 * n + 100 * j + i % width;  // transposed
                    wrong += memory[static_cast<std::size_t>(layer)][at++] !=
                             static_cast<float>(expected);
                }
        }
        cairn::save(state, "ckpt/exported", ranks, layout(),
                    cairn::safetensors_writer(cairn::file_store()));
        loaded_by = ranks.size();
    });
    std::printf("q, k and v as one matrix on %d ranks: %d elements wrong\n", loaded_by.load(),
                wrong.load());
    return wrong != 0;
}
