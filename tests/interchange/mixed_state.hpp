// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_INTERCHANGE_MIXED_STATE_HPP
#define CAIRN_TEST_INTERCHANGE_MIXED_STATE_HPP

#include <cairn/cairn.hpp>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace mixed {

/// Every byte of every tensor is a function of its name and place, so that both sides of an
/// exchange can make it or check it alone.
inline std::byte content(const std::string& fqn, std::uint64_t at) {
    std::uint64_t h = 1469598103934665603ULL;
    for (char c : fqn) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    h = (h ^ at) * 1099511628211ULL;
    h ^= h >> 29;
    return static_cast<std::byte>((h * 1099511628211ULL) >> 40);
}

struct tensor_spec {
    std::string fqn;
    cairn::dtype type;
    cairn::index_vector shape;
    /// 0 replicated, 1 rows, 2 columns, 3 flat range, 4 grid, 5 all on rank 0 and a box without
    /// rows on the others, 6 the left half on rank 0 (of a tensor without rows)
    int layout;
};

inline std::vector<tensor_spec> tensors() {
    using cairn::dtype;
    std::vector<tensor_spec> out;
    for (int i = 0; i < cairn::dtype_count; ++i) {
        auto const d = static_cast<dtype>(i);
        if (d == dtype::boolean) continue;           // bytes other than 0 and 1 are no bools
        if (d == dtype::float4_e2m1fn_x2) continue;  // PyTorch can do nothing with it
        out.push_back({"kinds." + std::string(cairn::name_of(d)), d, {7, 5}, i % 4});
    }
    out.push_back({"model.rows", dtype::float32, {13, 4}, 1});
    out.push_back({"model.columns", dtype::float32, {3, 11}, 2});
    out.push_back({"model.flat", dtype::bfloat16, {5, 3, 4}, 3});
    out.push_back({"model.grid", dtype::float64, {6, 10}, 4});
    out.push_back({"model.few_rows", dtype::int32, {2, 9}, 1});
    out.push_back({"model.empty", dtype::float32, {0, 3}, 0});
    out.push_back({"model.on_the_first", dtype::float32, {5, 4}, 5});
    out.push_back({"model.no_rows", dtype::float32, {0, 6}, 6});
    out.push_back({"model.scalar", dtype::float32, {}, 0});
    out.push_back({"model.large", dtype::float32, {700, 300}, 1});
    return out;
}

inline cairn::value objects() {
    using cairn::value;
    return value::dict(
        {{"step", 12345},
         {"huge", cairn::big_int(std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1})},
         {"ratio", 1.5},
         {"name", "h\xc3\xa9llo"},
         {"none", nullptr},
         {"flag", true},
         {"raw", value::bytes_t{std::byte{0}, std::byte{0xff}}},
         {"pair", value::tuple({1, value::tuple({2.5, "x"})})},
         {"list", value::list({1, 2, 3})},
         {"groups",
          value::list({value::dict({{"lr", 0.1}, {"betas", value::tuple({0.9, 0.999})}})})}});
}

/// One rank's part of the mixed state: owns its memory, hands out sharded views.
class state {
public:
    state(int rank, int ranks, bool filled) : extra_(objects()) {
        if (!filled) extra_ = blank(extra_);
        for (auto const& t : tensors()) add(t, rank, ranks, filled);
    }
    cairn::state_dict state_dict() {
        cairn::state_dict sd;
        for (auto& p : pieces_) sd[p.spec.fqn] = p.view;
        sd["extra"] = std::ref(extra_);
        return sd;
    }
    void load_state_dict(const cairn::state_dict&) {}

    /// Names of what differs from what `filled` would hold.
    std::vector<std::string> differences() const {
        std::vector<std::string> out;
        for (auto const& p : pieces_)
            if (p.memory != expected(p)) out.push_back(p.spec.fqn);
        if (!(extra_ == objects())) out.push_back("extra");
        return out;
    }

private:
    struct piece {
        tensor_spec spec;
        std::vector<cairn::box> boxes;
        std::vector<std::byte> memory;
        cairn::sharded_view view;
    };

    static cairn::value blank(const cairn::value& v) {
        // The same structure with other leaves: a load must replace every one.
        if (auto const* d = v.get_if<cairn::value::dict_t>()) {
            cairn::value::dict_t out;
            for (auto const& [k, x] : d->items) out.items.emplace_back(k, blank(x));
            return out;
        }
        if (auto const* l = v.get_if<cairn::value::list_t>()) {
            cairn::value::list_t out;
            bool nested = false;
            for (auto const& x : *l) {
                out.push_back(blank(x));
                nested |= x.is<cairn::value::dict_t>();
            }
            if (nested) return out;
        }
        return "not loaded";
    }

    static std::vector<cairn::box> boxes(const tensor_spec& t, int rank, int ranks) {
        using namespace cairn;
        auto const line = device_mesh::line(ranks);
        switch (t.layout) {
            case 1: return boxes_of(t.shape, line, {shard_along{0}}, rank);
            case 2: return boxes_of(t.shape, line, {shard_along{1}}, rank);
            case 3: {
                auto const n = t.shape.product();
                return boxes_of_flat_range(t.shape, n * rank / ranks, n * (rank + 1) / ranks);
            }
            case 4:
                if (ranks % 2 == 0)
                    return boxes_of(t.shape, device_mesh::grid({2, ranks / 2}),
                                    {shard_along{0}, shard_along{1}}, rank);
                return boxes_of(t.shape, line, {shard_along{1}}, rank);
            case 5:
                if (rank != 0) return {box({0, 0}, {0, 4})};
                return {box::whole(t.shape)};
            case 6:
                if (rank != 0) return {};
                return {box({0, 0}, {0, 3})};
            default: return {box::whole(t.shape)};
        }
    }

    static std::vector<std::byte> expected(const piece& p) {
        std::vector<std::byte> out;
        auto const strides = cairn::row_major_strides(p.spec.shape);
        auto const element = cairn::size_of(p.spec.type);
        for (auto const& b : p.boxes) {
            cairn::index_vector at = b.offsets;
            for (std::int64_t n = b.volume(); n > 0; --n) {
                std::int64_t flat = 0;
                for (std::size_t d = 0; d < at.size(); ++d) flat += at[d] * strides[d];
                for (std::size_t k = 0; k < element; ++k)
                    out.push_back(
                        content(p.spec.fqn, static_cast<std::uint64_t>(flat) * element + k));
                for (std::size_t d = at.size(); d-- > 0;) {
                    if (++at[d] < b.end(d)) break;
                    at[d] = b.offsets[d];
                }
            }
        }
        return out;
    }

    void add(const tensor_spec& t, int rank, int ranks, bool filled) {
        pieces_.push_back({t, boxes(t, rank, ranks), {}, {t.shape, t.type, {}}});
        auto& p = pieces_.back();
        auto const full = expected(p);
        p.memory = filled ? full : std::vector<std::byte>(full.size(), std::byte{0xee});
        auto* at = p.memory.data();
        for (auto const& b : p.boxes) {
            p.view.shards.emplace_back(b, cairn::tensor_view(t.type, b.shape, at));
            at += static_cast<std::uint64_t>(b.volume()) * cairn::size_of(t.type);
        }
    }

    std::deque<piece> pieces_;
    cairn::value extra_;
};

}  // namespace mixed

#endif
