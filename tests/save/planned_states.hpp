// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SAVE_PLANNED_STATES_HPP
#define CAIRN_TEST_SAVE_PLANNED_STATES_HPP

#include "support/meddling_group.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

/// States of which only the layout is given: what their tensors contain follows from the step.
namespace planned_states {

/// A tensor, and which boxes of it each rank holds.
struct tensor {
    cairn::index_vector shape{};
    std::vector<std::vector<cairn::box>> held{};  ///< By rank.
    cairn::dtype type = cairn::dtype::float32;
    std::string tied_to{};  ///< Is the memory of that tensor.
};
struct layout {
    int ranks = 3;
    std::map<std::string, tensor> tensors{};
    /// `step` is saved under these names, plus this number.
    std::map<std::string, int> values{};
};

/// Rows of a tensor of two columns.
inline cairn::box rows(std::int64_t first, std::int64_t n) {
    return {{first, 0}, {n, 2}};
}
/// A tensor that is sharded by rows, one that all ranks hold, and two values.
inline layout usual(int ranks = 3) {
    layout l;
    l.ranks = ranks;
    tensor sharded{{2 * ranks, 2}};
    tensor replica{{5, 2}};
    for (int r = 0; r < ranks; ++r) {
        sharded.held.push_back({rows(2 * r, 2)});
        replica.held.push_back({rows(0, 5)});
    }
    l.tensors = {{"net.sharded", sharded}, {"net.replica", replica}};
    l.values = {{"step", 0}, {"epoch", 7}};
    return l;
}

/// What an element of a tensor is.
inline float element(const std::string& name, const layout& l, std::int64_t position, int step) {
    auto const& tied = l.tensors.at(name).tied_to;
    auto const& of = tied.empty() ? name : tied;
    return static_cast<float>(static_cast<std::int64_t>(of.size()) * 1000 + position) +
           static_cast<float>(step) * 0.25f;
}

/// What one rank holds.
struct rank_memory {
    std::deque<std::vector<float>> pieces{};
    std::deque<std::vector<double>> doubles{};
    std::deque<int> values{};
    cairn::state_dict state{};

    rank_memory(const layout& l, int rank, int step) {
        std::map<std::string, cairn::sharded_view> made;
        for (auto const& [name, t] : l.tensors) {
            if (!t.tied_to.empty()) continue;
            cairn::sharded_view v{t.shape, t.type, {}};
            for (auto const& b : t.held.at(static_cast<std::size_t>(rank)))
                v.shards.push_back(cairn::shard(b, filled(l, name, t, b, step)));
            made.emplace(name, v);
        }
        for (auto const& [name, t] : l.tensors)
            if (!t.tied_to.empty()) made.emplace(name, made.at(t.tied_to));
        for (auto const& [name, v] : made) state[name] = v;
        for (auto const& [name, more] : l.values) {
            values.push_back(step + more);
            state[name] = std::ref(values.back());
        }
    }

private:
    cairn::tensor_view filled(const layout& l, const std::string& name, const tensor& t,
                              const cairn::box& b, int step) {
        auto const fill = [&](auto& memory) {
            for (std::int64_t i = 0; i < b.volume(); ++i)
                memory.push_back(element(name, l, 2 * b.offsets[0] + i, step));
            return cairn::tensor_view(t.type, b.shape, memory.data());
        };
        return t.type == cairn::dtype::float64 ? fill(doubles.emplace_back())
                                               : fill(pieces.emplace_back());
    }
};

/// Whether the checkpoint holds this layout as it was at that step.
template <class Store>
void check_stored(const Store& store, const std::string& id, const layout& l, int step) {
    auto const whole = support::load_whole(store, id);
    BOOST_TEST(whole.tensors.size() == l.tensors.size());
    BOOST_TEST(whole.objects.size() == l.values.size());
    std::size_t wrong = 0;
    for (auto const& [name, t] : l.tensors) {
        auto const& found = whole.tensors.at(name);
        BOOST_TEST((found.shape == t.shape && found.type == t.type), name);
        for (std::int64_t i = 0; i < t.shape.product(); ++i) {
            auto const at = static_cast<std::size_t>(i);
            double v = 0;
            if (t.type == cairn::dtype::float64) {
                std::memcpy(&v, found.bytes.data() + at * sizeof v, sizeof v);
            } else {
                float f = 0;
                std::memcpy(&f, found.bytes.data() + at * sizeof f, sizeof f);
                v = f;
            }
            wrong += v != element(name, l, i, step);
        }
    }
    BOOST_TEST(wrong == 0u, wrong << " elements of other content");
    for (auto const& [name, more] : l.values)
        BOOST_TEST((whole.objects.at(name) == cairn::value(std::int64_t{step + more})), name);
}

}  // namespace planned_states

#endif
