// SPDX-License-Identifier: Apache-2.0
// State that this program keeps in another form than PyTorch:
//     own_forms together|apart LOAD SAVE [LEVEL]
// loads a checkpoint, with the tied weight as one memory in one process or as copies on two
// pipeline stages, and saves it again, compressed if there is a level. Steps and batches are
// integers, the vocabulary is padded.
#include <cairn/cairn.hpp>
#include <cairn/mapping/mapping.hpp>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::int64_t words = 6, padded_words = 8, width = 4;

/// A table of words, with room for more.
struct table {
    std::vector<float> memory = std::vector<float>(padded_words * width, -1);
    cairn::sharded_view view() {
        return cairn::flat_shards({padded_words, width}, 0, padded_words * width, memory.data(),
                                  cairn::dtype::float32);
    }
};
struct model {
    bool first, last;  // the stages that this rank has
    table embed{}, head{};
    std::vector<float> bias = std::vector<float>(words), mean = bias, variance = bias;
    int batches = 0;

    bool tied() const { return first && last; }
};
struct adam {
    struct slot {
        std::string fqn;
        table m{}, v{};
        std::vector<float> plain_m{}, plain_v{};
        std::int64_t step = 0;
    };
    std::vector<slot> slots{};
    double lr = 9;
    std::pair<double, double> betas{0, 0};

    explicit adam(const model& m) {
        if (m.first) slots.push_back({"embed.weight"});
        if (m.last && !m.tied()) slots.push_back({"head.weight"});
        if (m.last) slots.push_back({"head.bias"});
        for (auto& s : slots)
            if (s.fqn == "head.bias") s.plain_m = s.plain_v = std::vector<float>(words);
    }
};

}  // namespace

template <>
struct cairn::model_traits<model> {
    static void visit(model& m, auto& v) {
        if (m.first) v.parameter("embed.weight", m.embed.view());
        if (m.last) {
            v.parameter("head.weight", m.tied() ? m.embed.view() : m.head.view());
            v.parameter("head.bias", m.bias);
            v.buffer("norm.running_mean", m.mean);
            v.buffer("norm.running_var", m.variance);
            v.buffer("norm.num_batches_tracked", converted<std::int64_t>(m.batches));
        }
        if (!m.first) v.elsewhere("embed");
        if (!m.last)
            for (auto const* name : {"head", "norm"}) v.elsewhere(name);
        if (!m.tied()) v.tied("head.weight", "embed.weight");
    }
};
template <>
struct cairn::optimizer_traits<adam> {
    static void visit(adam& o, auto& v) {
        v.group();
        v.hyperparameter("lr", o.lr);
        v.hyperparameter("betas", o.betas);
        v.hyperparameter("eps", 1e-8);
        v.hyperparameter("weight_decay", 0);
        for (auto const* no :
             {"amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay"})
            v.hyperparameter(no, value(false));
        for (auto const* how : {"foreach", "fused"}) v.hyperparameter(how, value());
        for (auto& s : o.slots) {
            auto const step = converted<float>(s.step);
            if (s.plain_m.empty())
                v.parameter(s.fqn,
                            {{"step", step}, {"exp_avg", s.m.view()}, {"exp_avg_sq", s.v.view()}});
            else
                v.parameter(s.fqn,
                            {{"step", step}, {"exp_avg", s.plain_m}, {"exp_avg_sq", s.plain_v}});
        }
    }
};

namespace {

/// The stored tables have no room for more.
cairn::mapping without_padding() {
    using namespace cairn::map;
    cairn::mapping m;
    for (std::string const name : {"model.{table}.weight", "optim.state.{table}.weight.exp_avg",
                                   "optim.state.{table}.weight.exp_avg_sq"})
        m.set(name, pad(stored(name, {.shape = {words, -1}}), {padded_words, -1}, -1));
    return m;
}

struct random_state {
    std::uint64_t s[2];
};

void turn(const std::string& load, const std::string& save, std::optional<int> level, bool first,
          bool last, auto& me) {
    model m{first, last};
    adam o(m);
    cairn::state_dict_options const flat{.flatten_optimizer_state_dict = true};
    auto [ms, os] = cairn::get_state_dict(m, o, flat);
    random_state random{{static_cast<std::uint64_t>(me.rank()), 7}};
    std::vector<std::int16_t> cache(static_cast<std::size_t>(me.rank()) + 1, std::int16_t{5});
    cairn::state_dict all{{"model", ms}, {"optim", os}};
    auto const names = without_padding();
    cairn::load(all, load, me, names);
    cairn::set_state_dict(m, o, ms, os, flat);
    all["random"] = cairn::per_rank(cairn::as_bytes(random));
    all["cache"] = cairn::per_rank(cache);
    cairn::torch_writer_options options;
    options.zstd_level = level;
    cairn::save(all, save, me, names, cairn::torch_writer(cairn::file_store(), options));
    for (auto const* t : {&m.embed, &m.head})
        for (auto i = words * width; i < padded_words * width; ++i)
            if (t->memory[static_cast<std::size_t>(i)] != -1)
                throw std::runtime_error("padding is not what the mapping says");
    if (me.rank() == 0) std::printf("step %d, lr %g\n", static_cast<int>(o.slots[0].step), o.lr);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4 && argc != 5) return 2;
    std::optional<int> level;
    if (argc == 5) level = std::stoi(argv[4]);
    bool const apart = std::string(argv[1]) == "apart";
    try {
        cairn::run_ranks(apart ? 2 : 1, [&](auto& me) {
            turn(argv[2], argv[3], level, me.rank() == 0, !apart || me.rank() == 1, me);
        });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
