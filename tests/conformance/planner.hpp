// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CONFORMANCE_PLANNER_HPP
#define CAIRN_TEST_CONFORMANCE_PLANNER_HPP

#include "sample_state.hpp"

#include <cairn/metadata/coverage.hpp>
#include <cairn/planner/concepts.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/state/flatten.hpp>
#include <cairn/tensor/layout.hpp>

#include <boost/test/unit_test.hpp>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// What a SavePlanner and a LoadPlanner promise beyond their syntax, in terms of any planner that
/// saves and loads the whole state under the names it has. Call them from a Boost.Test case of
/// your own:
///
///     BOOST_AUTO_TEST_CASE(my_planner_keeps_its_word) {
///         cairn::conformance::check_save_planner([] { return my_planner(); });
///         cairn::conformance::check_load_planner([] { return my_planner(); });
///     }
namespace cairn::conformance {
namespace detail {

/// The states of all ranks, flattened.
struct flat_ranks {
    flat_ranks(int ranks, int seed) {
        for (int r = 0; r < ranks; ++r) {
            states.push_back(std::make_unique<sample_state>(r, ranks, seed));
            auto dict = states.back()->state_dict();
            flat.push_back(std::make_unique<flattened>(flatten(dict)));
        }
    }
    std::vector<std::unique_ptr<sample_state>> states{};
    std::vector<std::unique_ptr<flattened>> flat{};
};

/// The row-major bytes behind a view.
inline std::vector<std::byte> bytes_of(const const_tensor_view& v) {
    std::vector<std::byte> out(static_cast<std::size_t>(v.bytes()));
    copy_elements(v, {v.type, v.shape, out.data()});
    return out;
}

using box_key = std::tuple<std::string, index_vector, index_vector>;

/// What a save leaves for a load: metadata, and the content of each chunk and object.
struct saved_content {
    metadata meta{};
    std::map<box_key, std::vector<std::byte>> chunks{};
    std::map<std::string, value> objects{};
};

/// Drives one planner per rank through a save, as the verb does, and checks each step.
template <class Make>
saved_content plan_a_save(Make& make, flat_ranks& all) {
    auto const n = all.flat.size();
    std::vector<decltype(make())> planners;
    std::vector<save_plan> plans;
    for (std::size_t r = 0; r < n; ++r) {
        planners.push_back(make());
        flat_state const& state = all.flat[r]->leaves;
        planners[r].set_up_save(state, static_cast<int>(r), r == 0);
        // Plans travel: what a rank learns is what survives that.
        plans.push_back(
            cairn::decode_save_plan(cairn::encode_save_plan(planners[r].create_local_save_plan())));
    }
    auto [global, meta] = planners[0].create_global_save_plan(std::move(plans));
    saved_content out;
    out.meta = std::move(meta);
    BOOST_REQUIRE(global.size() == n);

    for (std::size_t r = 0; r < n; ++r) {
        auto const plan = planners[r].finish_save_plan(
            cairn::decode_save_plan(cairn::encode_save_plan(global[r])));
        for (auto const& item : plan.items) {
            item_data const data = planners[r].resolve_data(item);
            BOOST_TEST_CONTEXT("rank " << r << ", '" << item.fqn << "'") {
                if (item.kind == item_kind::value) {
                    BOOST_REQUIRE(std::holds_alternative<const value*>(data));
                    BOOST_TEST(out.meta.value(item.fqn) != nullptr);
                    // Each object once.
                    BOOST_TEST(out.objects.emplace(item.fqn, *std::get<const value*>(data)).second);
                    continue;
                }
                BOOST_REQUIRE(std::holds_alternative<const_tensor_view>(data));
                auto const& v = std::get<const_tensor_view>(data);
                BOOST_TEST((v.type == item.type && v.shape == item.region.shape));
                auto const* t = out.meta.tensor(item.fqn);
                BOOST_REQUIRE(t != nullptr);
                BOOST_TEST((t->type == item.type && t->shape == item.global_shape));
                // Each chunk once.
                BOOST_TEST(out.chunks
                               .emplace(box_key(item.fqn, item.region.offsets, item.region.shape),
                                        bytes_of(v))
                               .second);
            }
        }
    }
    return out;
}

/// The metadata names every chunk that is written, nothing else, and they make whole tensors.
inline void check_metadata_of(const saved_content& s) {
    std::size_t chunks = 0, objects = 0;
    for (auto const& [fqn, entry] : s.meta.entries) {
        BOOST_TEST_CONTEXT("'" << fqn << "'") {
            auto const* t = std::get_if<tensor_metadata>(&entry);
            if (t == nullptr) {
                BOOST_TEST(s.objects.count(fqn) == 1u);
                ++objects;
                continue;
            }
            std::vector<box> boxes;
            for (auto const& c : t->chunks) {
                boxes.push_back(c.region);
                BOOST_TEST(s.chunks.count(box_key(fqn, c.region.offsets, c.region.shape)) == 1u);
            }
            BOOST_CHECK_NO_THROW(check_coverage(fqn, t->shape, boxes));
            chunks += boxes.size();
        }
    }
    BOOST_TEST(chunks == s.chunks.size());
    BOOST_TEST(objects == s.objects.size());
}

/// Drives one planner per rank through a load of that content.
template <class Make>
void plan_a_load(Make& make, const saved_content& s, flat_ranks& all) {
    auto const n = all.flat.size();
    std::vector<decltype(make())> planners;
    std::vector<load_plan> plans;
    for (std::size_t r = 0; r < n; ++r) {
        planners.push_back(make());
        planners[r].set_up_load(all.flat[r]->leaves, s.meta, static_cast<int>(r), r == 0);
        plans.push_back(
            cairn::decode_load_plan(cairn::encode_load_plan(planners[r].create_local_load_plan())));
    }
    auto const global = planners[0].create_global_load_plan(std::move(plans));
    BOOST_REQUIRE(global.size() == n);
    std::vector<load_plan> finished;
    for (std::size_t r = 0; r < n; ++r)
        finished.push_back(planners[r].finish_load_plan(
            cairn::decode_load_plan(cairn::encode_load_plan(global[r]))));
    // Up to here nothing of the user's has changed.
    for (auto const& state : all.states) BOOST_TEST(state->wiped());

    for (std::size_t r = 0; r < n; ++r) {
        for (auto const& item : finished[r].items) {
            BOOST_TEST_CONTEXT("rank " << r << ", '" << item.fqn << "'") {
                if (item.kind == item_kind::value) {
                    planners[r].load_value(item, value(s.objects.at(item.fqn)));
                    continue;
                }
                auto const* t = s.meta.tensor(item.fqn);
                BOOST_REQUIRE((t != nullptr && item.chunk < t->chunks.size()));
                auto const& where = t->chunks[item.chunk].region;
                BOOST_TEST(contains(box::whole(where.shape), box(item.source_offsets, item.shape)));
                tensor_view const window = planners[r].resolve_tensor(item);
                BOOST_TEST((window.shape == item.shape && window.type == t->type));
                auto const& stored = s.chunks.at(box_key(item.fqn, where.offsets, where.shape));
                const_tensor_view from(t->type, where.shape, stored.data());
                for (std::size_t d = 0; d < item.shape.size(); ++d)
                    from.data += item.source_offsets[d] * from.strides[d] *
                                 static_cast<std::int64_t>(size_of(t->type));
                from.shape = item.shape;
                copy_elements(from, window);
                planners[r].commit_tensor(item, window);
            }
        }
    }
}

}  // namespace detail

/// Every chunk and object is written by exactly one rank, what is written is what the state holds
/// (items fit their data), and the metadata names it all and nothing else.
/// @param make  Returns a new planner at each call.
template <class Make>
    requires SavePlanner<decltype(std::declval<Make&>()())>
void check_save_planner(Make make) {
    for (int ranks : {1, 3, 9}) {
        BOOST_TEST_CONTEXT("a save of " << ranks << " ranks") {
            detail::flat_ranks all(ranks, 5);
            auto const saved = detail::plan_a_save(make, all);
            detail::check_metadata_of(saved);
            detail::flat_ranks const one(1, 5);
            std::size_t names = 0;
            for (auto const& leaf : one.flat[0]->leaves)
                names += saved.meta.entries.count(leaf.fqn);
            BOOST_TEST(names == one.flat[0]->leaves.size());  // nothing is forgotten
        }
    }
}

/// What three ranks saved is loaded by other numbers of ranks: items lie in their chunks, windows
/// fit their items, nothing changes before the windows are asked for, and every byte arrives.
/// @param make       Returns a new LoadPlanner at each call.
/// @param make_save  Returns a new SavePlanner whose names `make`'s planners know.
template <class Make, class MakeSave>
    requires LoadPlanner<decltype(std::declval<Make&>()())>
void check_load_planner(Make make, MakeSave make_save) {
    detail::flat_ranks source(3, 6);
    auto const saved = detail::plan_a_save(make_save, source);
    for (int ranks : {1, 2, 3, 9}) {
        BOOST_TEST_CONTEXT("a load of " << ranks << " ranks") {
            detail::flat_ranks all(ranks, 0);
            for (auto& s : all.states) s->wipe();
            detail::plan_a_load(make, saved, all);
            for (auto const& s : all.states) BOOST_TEST(s->difference(6) == "");
        }
    }
}
template <class Make>
void check_load_planner(Make make) {
    check_load_planner(make, make);
}

}  // namespace cairn::conformance

#endif
