// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_CONTENT_HPP
#define CAIRN_TEST_SIMULATION_CONTENT_HPP

#include "support/whole.hpp"

#include <cairn/object_store/memory.hpp>
#include <cairn/state/state_dict.hpp>
#include <cairn/tensor/sharded_tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace simulation {

/// What a simulation finds wrong.
struct wrong : std::runtime_error {
    using std::runtime_error::runtime_error;
};
inline void require(bool ok, const std::string& what) {
    if (!ok) throw wrong(what);
}

/// What one rank saves: a row of a sharded tensor, a replica, and a value, all of one version. Rows
/// move to other ranks with every third version: the others can be saved by the same plan.
struct content {
    content(int rank, int ranks, int version, int columns = 4)
        : row(static_cast<std::size_t>(columns)), replica(16, static_cast<float>(version)),
          step(version) {
        auto const which = (rank + version / 3) % ranks;
        for (std::size_t i = 0; i < row.size(); ++i)
            row[i] = static_cast<float>(version * 1000 + which * columns + static_cast<int>(i));
        state["rows"] = cairn::sharded_view{
            {ranks, columns},
            cairn::dtype::f32,
            {cairn::shard(cairn::box({which, 0}, {1, columns}),
                          cairn::tensor_view(cairn::dtype::f32, {1, columns}, row.data()))}};
        state["replica"] = replica;
        state["step"] = std::ref(step);
    }
    content(content&&) = delete;

    /// What is staged may change at once.
    void spoil() {
        std::fill(row.begin(), row.end(), -1.0f);
        std::fill(replica.begin(), replica.end(), -1.0f);
    }

    std::vector<float> row;
    std::vector<float> replica;
    int step;
    cairn::state_dict state{};
};

/// What one rank loads of that: its share of the columns.
struct columns {
    columns(int rank, int ranks, int saved_by)
        : rows(saved_by), from(4 * rank / ranks), to(4 * (rank + 1) / ranks),
          values(static_cast<std::size_t>(saved_by * std::max(1, to - from))) {
        cairn::sharded_view share{{rows, 4}, cairn::dtype::f32, {}};
        if (to > from) {
            auto const shape = cairn::index_vector{rows, to - from};
            share.shards.emplace_back(cairn::box({0, from}, shape),
                                      cairn::tensor_view(cairn::dtype::f32, shape, values.data()));
        }
        state["rows"] = share;
        state["replica"] = replica;
        state["step"] = std::ref(step);
    }
    columns(columns&&) = delete;

    bool untouched() const {
        auto const zero = [](float x) { return x == 0; };
        return step == 0 && std::all_of(replica.begin(), replica.end(), zero) &&
               std::all_of(values.begin(), values.end(), zero);
    }
    void require_version(int version) const {
        auto const whole = static_cast<float>(version);
        require(step == version, "a value of another version");
        require(std::all_of(replica.begin(), replica.end(), [&](float x) { return x == whole; }),
                "a replica of another version");
        for (int i = 0; i < rows; ++i)
            for (int k = from; k < to; ++k)
                require(values[static_cast<std::size_t>(i * (to - from) + k - from)] ==
                            static_cast<float>(version * 1000 + i * 4 + k),
                        "an element of another version");
    }

    int rows;
    int from, to;
    std::vector<float> values;
    std::vector<float> replica = std::vector<float>(16);
    int step = 0;
    cairn::state_dict state{};
};

/// The version of what has that id, in any format: every element of it is that version's.
inline int version_of(const cairn::memory_store& base, const std::string& id, int saved_by) {
    auto const w = support::load_whole(base, id);
    float replica = 0;
    std::memcpy(&replica, w.tensors.at("replica").bytes.data(), sizeof replica);
    auto const version = static_cast<int>(replica);
    require(support::only_number(w.tensors.at("replica")) == replica, "a replica of two versions");
    auto const& rows = w.tensors.at("rows");
    require(rows.shape == cairn::index_vector{saved_by, 4}, "rows of another shape");
    for (int i = 0; i < saved_by * 4; ++i) {
        float x = 0;
        std::memcpy(&x, rows.bytes.data() + static_cast<std::size_t>(i) * sizeof x, sizeof x);
        require(x == static_cast<float>(version * 1000 + i), "a checkpoint of two versions");
    }
    return version;
}
/// The version that stands at a place. 0: none.
inline int standing(const cairn::memory_store& base, const std::string& place, int saved_by) {
    if (base.at(place).tag(".metadata").text.empty()) return 0;
    return version_of(base, place, saved_by);
}

/// The same at "c".
inline int standing(const cairn::memory_store& base, int saved_by) {
    return standing(base, "c", saved_by);
}

}  // namespace simulation

#endif
