// SPDX-License-Identifier: Apache-2.0
// The state of GPT-2 124M and Adam, by torch's names and shapes; every element is known.
#ifndef CAIRN_BENCHMARKS_GPT2_STATE_HPP
#define CAIRN_BENCHMARKS_GPT2_STATE_HPP

#include "layouts.hpp"

#include <cairn/cairn.hpp>

#include <boost/align/aligned_allocator.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpt2 {

/// Optimizers count alike for all parameters.
inline std::uint32_t seed_of(const std::string& fqn) {
    std::uint32_t h = 2166136261u;
    for (char const c : fqn.ends_with(".step") ? std::string(".step") : fqn)
        h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
    return h;
}
/// The value of an element: a function of name and index, every bit of it.
inline float content(std::uint32_t seed, std::uint64_t index) {
    auto const bits = (seed ^ static_cast<std::uint32_t>(index)) * 2654435761u;
    return static_cast<float>(static_cast<std::int32_t>(bits >> 8)) * 1e-6f;
}

/// Which part of everything a state has, and how it is cut for ranks.
struct extract {
    bool weights = false;           ///< Nothing of the optimizer.
    bool values = true;             ///< What is no tensor, as far as there is any.
    bool columns = false;           ///< Otherwise rows. What has one dimension is cut along that.
    std::string layout = "stored";  ///< See `layout_of`.
};

/// What one rank holds of everything, or of an extract: its shards, or all of it.
class state {
public:
    state(int rank, int ranks, bool filled, const extract& what = {})
        : rank_(rank), ranks_(ranks), what_(what) {
        auto const all = layout_of(what.layout);
        made_by = all.made_by;
        for (auto const& p : all.parameters) {
            add("model." + p.name, p.shape, filled);
            if (what.weights) continue;
            auto const s = "optim.state." + p.name;
            add(s + ".exp_avg", p.shape, filled);
            add(s + ".exp_avg_sq", p.shape, filled);
            // Counts of parameters that become one would have to become one, too.
            if (what.layout == "stored") add(s + ".step", {}, filled);
            names_.push_back(cairn::value(p.name));
        }
        using cairn::value;
        groups_ = value::list({value::dict({{"lr", 6e-4},
                                            {"betas", value::tuple({0.9, 0.95})},
                                            {"eps", 1e-8},
                                            {"weight_decay", 0.1},
                                            {"params", value::list(names_)}})});
    }
    cairn::state_dict state_dict() {
        cairn::state_dict sd;
        for (auto& t : tensors_) sd[t.fqn] = t.view;
        if (!has_values()) return sd;
        sd["optim.param_groups"] = std::ref(groups_);
        sd["step"] = std::ref(step);
        return sd;
    }
    void load_state_dict(const cairn::state_dict&) {}

    std::uint64_t bytes() const {
        std::uint64_t n = 0;
        for (auto const& t : tensors_) n += t.memory.size() * sizeof(float);
        return n;
    }
    /// All that this rank holds, but for less than a kilobyte of single numbers: what would be
    /// stored after them one behind the other would not be aligned as it is in memory, which makes
    /// the kernel's copies slower by a fifth.
    std::vector<std::span<std::byte>> memory() {
        std::vector<std::span<std::byte>> all;
        for (auto& t : tensors_)
            if (t.memory.size() > 1) all.push_back(std::as_writable_bytes(std::span(t.memory)));
        return all;
    }
    /// What this rank holds of each tensor.
    std::vector<cairn::tensor_view> views() const {
        std::vector<cairn::tensor_view> all;
        for (auto const& t : tensors_) all.push_back(t.view.shards.front().target_view());
        return all;
    }
    /// Copies all elements, tensor by tensor, with memcpy.
    void copy_to(std::byte* to) const {
        for (auto const& t : tensors_) {
            std::memcpy(to, t.memory.data(), t.memory.size() * sizeof(float));
            to += t.memory.size() * sizeof(float);
        }
    }
    /// How many elements are not what they should be.
    /// @param all  Otherwise those of `memory`.
    std::uint64_t wrong(bool all = true) const {
        std::uint64_t n = 0;
        for (auto const& t : tensors_) {
            if (!all && t.memory.size() <= 1) continue;
            auto const seed = seed_of(t.fqn);
            t.for_each([&](std::size_t i, std::uint64_t index) {
                float const want = content(seed, index);
                n += std::memcmp(&want, &t.memory[i], sizeof want) != 0;
            });
        }
        return n + (all && has_values() && step != 12345);
    }
    std::int64_t step = 0;
    std::optional<cairn::mapping> made_by{};  ///< None: it is what is stored.

private:
    /// Aligned as by the allocators of PyTorch and of CUDA's pinned memory.
    using elements = std::vector<float, boost::alignment::aligned_allocator<float, 64>>;
    struct tensor {
        std::string fqn;
        elements memory;
        // Indices in the whole: of the first element held here, and from row to row.
        std::uint64_t first, stride;
        std::size_t row;  ///< Elements of a row that are held here.
        cairn::sharded_view view;

        /// Calls `f(i, index in the whole)` for each element.
        template <class F>
        void for_each(F&& f) const {
            for (std::size_t at = 0, r = 0; at < memory.size(); at += row, ++r)
                for (std::size_t i = 0; i < row; ++i) f(at + i, first + r * stride + i);
        }
    };

    bool has_values() const { return what_.values && !what_.weights; }

    void add(const std::string& fqn, const cairn::index_vector& shape, bool filled) {
        auto where = cairn::box::whole(shape);
        if (!shape.empty()) {
            auto const mesh = cairn::device_mesh::line(ranks_);
            cairn::shard_along const dim{what_.columns && shape.size() > 1 ? 1 : 0};
            where = boxes_of(shape, mesh, {dim}, rank_).at(0);
        }
        auto const number = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
        std::uint64_t first = 0, stride = 1;
        std::size_t row = 1;
        if (shape.size() > 1) {
            auto const strides = cairn::row_major_strides(shape);
            stride = number(strides[0]);
            row = static_cast<std::size_t>(where.shape[1] * strides[1]);
            first = number(where.offsets[0]) * stride + number(where.offsets[1] * strides[1]);
        } else if (shape.size() == 1) {
            first = number(where.offsets[0]);
        }
        tensors_.push_back(
            {fqn, elements(static_cast<std::size_t>(where.volume())), first, stride, row, {}});
        auto& t = tensors_.back();
        auto const seed = seed_of(fqn);
        if (filled)
            t.for_each(
                [&](std::size_t i, std::uint64_t index) { t.memory[i] = content(seed, index); });
        cairn::tensor_view const v(cairn::dtype::float32, where.shape, t.memory.data());
        t.view = {shape, cairn::dtype::float32, {cairn::shard(where, v)}};
        step = filled ? 12345 : 0;
    }

    int rank_, ranks_;
    extract what_;
    std::deque<tensor> tensors_;
    std::vector<cairn::value> names_;
    cairn::value groups_;
};

}  // namespace gpt2

#endif
