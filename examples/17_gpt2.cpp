// SPDX-License-Identifier: Apache-2.0
// GPT-2's published weights, whose linear layers are inputs × outputs, in two trainers' layouts:
// llm.c's, where all parameters are one array and each kind has one tensor for all layers, and
// a tensor-parallel one's, of which each rank has some rows of outputs × inputs.
//
//     17_gpt2 [DIRECTORY]     what save_pretrained() wrote for GPT2LMHeadModel, or a small model
//
// llm.c's is exported again, to ckpt/gpt2_exported, as transformers loads it.
#include <cairn/cairn.hpp>
#include <cairn/comm/launched_ranks.hpp>
#include <cairn/mapping/ready.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace {

struct config {
    std::int64_t positions = 16, vocabulary = 50, layers = 2, width = 8;
    std::int64_t padded() const { return (vocabulary + 127) / 128 * 128; }  // as llm.c has it
};

/// The sizes of a stored model are those of its tensors.
config config_of(const std::string& place) {
    auto const stored = cairn::checkpoint_reader(cairn::file_store(place)).read_metadata();
    auto const shape = [&](const char* name) -> const cairn::index_vector& {
        return std::get<cairn::tensor_metadata>(stored.entries.at(name)).shape;
    };
    auto const words = shape("transformer.wte.weight"), places = shape("transformer.wpe.weight");
    config c{places[0], words[0], 0, words[1]};
    while (stored.entries.contains("transformer.h." + std::to_string(c.layers) + ".ln_1.weight"))
        ++c.layers;
    return c;
}

using named_shapes = std::vector<std::pair<std::string, cairn::index_vector>>;

/// The tensors of llm.c's `ParameterTensors`, in their order.
named_shapes parameter_tensors(const config& c) {
    auto const l = c.layers, w = c.width;
    return {{"wte", {c.padded(), w}},
            {"wpe", {c.positions, w}},
            {"ln1w", {l, w}},
            {"ln1b", {l, w}},
            {"qkvw", {l, 3 * w, w}},
            {"qkvb", {l, 3 * w}},
            {"attprojw", {l, w, w}},
            {"attprojb", {l, w}},
            {"ln2w", {l, w}},
            {"ln2b", {l, w}},
            {"fcw", {l, 4 * w, w}},
            {"fcb", {l, 4 * w}},
            {"fcprojw", {l, w, 4 * w}},
            {"fcprojb", {l, w}},
            {"lnfw", {w}},
            {"lnfb", {w}}};
}

/// llm.c's `GPT2`: all parameters are one array.
struct llm_c_model {
    explicit llm_c_model(const config& of) : c(of) {
        std::int64_t n = 0;
        for (auto const& [name, shape] : parameter_tensors(c))
            n += cairn::box::whole(shape).volume();
        params_memory.resize(static_cast<std::size_t>(n));
        auto* at = params_memory.data();
        for (auto const& [name, shape] : parameter_tensors(c)) {
            state[name] = cairn::tensor_view(cairn::dtype::float32, shape, at);
            if (name == "qkvw") qkvw = at;
            at += cairn::box::whole(shape).volume();
        }
    }
    cairn::mapping layout() const { return cairn::map::llm_c(c.padded(), c.vocabulary); }

    config c;
    std::vector<float> params_memory;
    const float* qkvw = nullptr;
    cairn::state_dict state;
};

/// What nobody published: a model whose parameters are numbers in turn.
void publish(const std::string& place, cairn::any_communicator& ranks) {
    llm_c_model model{config()};
    std::iota(model.params_memory.begin(), model.params_memory.end(), 0.0f);
    cairn::save(model.state, place, ranks, model.layout(),
                cairn::safetensors_writer(cairn::file_store()));
}

/// A rank's rows of the weights that make q, k and v, each outputs × inputs.
struct tensor_parallel_model {
    tensor_parallel_model(const config& c, int rank, int ranks)
        : rows(cairn::box::whole({3 * c.width, c.width})) {
        rows.offsets[0] = 3 * c.width * rank / ranks;
        rows.shape[0] = 3 * c.width * (rank + 1) / ranks - rows.offsets[0];
        for (std::int64_t layer = 0; layer < c.layers; ++layer) {
            auto& mine = c_attn.emplace_back(static_cast<std::size_t>(rows.volume()));
            cairn::sharded_view whole{{3 * c.width, c.width}, cairn::dtype::float32, {}};
            whole.shards.emplace_back(
                rows, cairn::tensor_view(cairn::dtype::float32, rows.shape, mine.data()));
            state["transformer.h." + std::to_string(layer) + ".attn.c_attn.weight"] = whole;
        }
    }
    cairn::box rows;
    std::vector<std::vector<float>> c_attn;  // of each layer
    cairn::state_dict state;
};

}  // namespace

int main(int argc, char** argv) {
    std::atomic<std::size_t> wrong{0}, compared{0};
    cairn::run_launched_ranks(2, [&](cairn::any_communicator& ranks) {
        std::string const place = argc > 1 ? argv[1] : "ckpt/gpt2";
        if (argc == 1) publish(place, ranks);
        auto const c = config_of(place);

        llm_c_model whole(c);
        cairn::load(whole.state, place, ranks, whole.layout());
        tensor_parallel_model part(c, ranks.rank(), ranks.size());
        cairn::load(part.state, place, ranks, cairn::map::gpt2());

        auto const* theirs = whole.qkvw + part.rows.offsets[0] * c.width;
        for (auto const& mine : part.c_attn) {
            for (std::size_t i = 0; i < mine.size(); ++i) wrong += mine[i] != theirs[i];
            compared += mine.size();
            theirs += 3 * c.width * c.width;
        }
        cairn::save(whole.state, "ckpt/gpt2_exported", ranks, whole.layout(),
                    cairn::safetensors_writer(cairn::file_store()));
    });
    std::printf(
        "llm.c's q, k and v beside those of tensor-parallel ranks: of %zu elements %zu differ\n",
        compared.load(), wrong.load());
    return wrong != 0 || compared == 0;
}
