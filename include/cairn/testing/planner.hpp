// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTING_PLANNER_HPP
#define CAIRN_TESTING_PLANNER_HPP

#include <cairn/metadata/coverage.hpp>
#include <cairn/planner/concepts.hpp>
#include <cairn/planner/erased_planner.hpp>
#include <cairn/planner/global_plan.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/state/flatten.hpp>
#include <cairn/tensor/layout.hpp>
#include <cairn/testing/detail/run_check.hpp>
#include <cairn/testing/detail/sample_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// Checks the semantics of a SavePlanner and a LoadPlanner that save and load the whole state under
/// its own names, for models of your own. Needs no test framework.
namespace cairn::testing {
namespace detail {

/// The states of all ranks, flattened. 'again' is the memory of 'rows', and the last rank has a
/// tensor that no other rank has.
struct flat_ranks {
    flat_ranks(int ranks, int seed) : last(3, seed) {
        for (int r = 0; r < ranks; ++r) {
            states.push_back(std::make_unique<sample_state>(r, ranks, seed));
            auto dict = states.back()->state_dict();
            node const rows = dict["rows"];
            dict["again"] = rows;
            if (r + 1 == ranks) dict["last"] = tensor_view(dtype::int32, {3}, last.data());
            flat.push_back(std::make_unique<flattened>(flatten(dict)));
        }
    }
    std::vector<std::unique_ptr<sample_state>> states{};
    std::vector<std::unique_ptr<flattened>> flat{};
    std::vector<std::int32_t> last;
};

/// Returns the bytes of a view's elements, row-major.
inline std::vector<std::byte> bytes_of(const const_tensor_view& v) {
    std::vector<std::byte> out(static_cast<std::size_t>(v.bytes()));
    copy_elements(v, {v.type, v.shape, out.data()});
    return out;
}

using box_key = std::tuple<std::string, index_vector, index_vector>;

/// The result of a save: metadata, and the content of each chunk and value.
struct saved_content {
    metadata meta{};
    std::map<box_key, std::vector<std::byte>> chunks{};
    std::map<std::string, value> values{};
};

inline std::string rank_and_name(std::size_t rank, const std::string& fqn) {
    return "rank " + std::to_string(rank) + ", '" + fqn + "': ";
}

/// Takes the data that a planner returns for an item of its plan, and checks that it matches the
/// item.
inline void take_item(saved_content& to, const write_item& item, const item_data& data,
                      const std::string& where) {
    if (item.kind == item_kind::value) {
        auto const* const v = std::get_if<const value*>(&data);
        expect(v != nullptr && *v != nullptr, where + "resolve_data returns no value");
        expect(to.meta.value(item.fqn) != nullptr, where + "the metadata does not name this value");
        expect(to.values.emplace(item.fqn, **v).second, where + "a value is written twice");
        return;
    }
    auto const* const v = std::get_if<const_tensor_view>(&data);
    expect(v != nullptr, where + "resolve_data returns no tensor");
    expect(v->type == item.type && v->shape == item.region.shape,
           where + "resolve_data returns another dtype or shape than the item's");
    auto const* const t = to.meta.tensor(item.fqn);
    expect(t != nullptr, where + "the metadata does not name this tensor");
    expect(t->type == item.type && t->shape == item.global_shape,
           where + "the metadata has another dtype or shape than the item's");
    expect(
        to.chunks.emplace(box_key(item.fqn, item.region.offsets, item.region.shape), bytes_of(*v))
            .second,
        where + "a chunk is written twice");
}

/// Drives one planner per rank through a save, as the verb does, and checks each step.
template <class Make>
saved_content plan_a_save(Make& make, flat_ranks& all) {
    auto const n = all.flat.size();
    std::vector<std::remove_cvref_t<decltype(make())>> planners;
    std::vector<save_plan> plans;
    // Plans are sent between ranks: a rank knows what the encoding preserves.
    auto const sent = [](const save_plan& p) { return decode_save_plan(encode_save_plan(p)); };
    for (std::size_t r = 0; r < n; ++r) {
        planners.push_back(make());
        (void)cairn::detail::save_planner_ref(planners[r]).needs_memory_spaces();
        flat_state const& state = all.flat[r]->leaves;
        planners[r].set_up_save(state, static_cast<int>(r), r == 0);
        plans.push_back(sent(planners[r].create_local_save_plan()));
    }
    auto const joins = cairn::detail::save_planner_ref(planners[0]).joins();
    auto const local = plans;
    auto [global, meta] = planners[0].create_global_save_plan(std::move(plans));
    if (joins) {
        auto const joined = dedup_save_plans(local, *joins == replica_writer::lowest_rank);
        expect(global == joined && meta == create_global_metadata(joined),
               "create_global_save_plan does not plan as default_planner, although joins says so");
    }
    saved_content out;
    out.meta = std::move(meta);
    // A location for each chunk: tied weights are stored twice.
    for (auto& [fqn, entry] : out.meta.entries)
        if (auto* const t = std::get_if<tensor_metadata>(&entry))
            t->chunks.edit_each([&, n = &fqn](chunk& c) { c.at.file = *n; });
    expect(global.size() == n, "create_global_save_plan returns " + std::to_string(global.size()) +
                                   " plans for " + std::to_string(n) + " ranks");
    for (std::size_t r = 0; r < n; ++r) {
        auto const plan = planners[r].finish_save_plan(sent(global[r]));
        for (auto const& item : plan.items)
            take_item(out, item, planners[r].resolve_data(item), rank_and_name(r, item.fqn));
    }
    return out;
}

/// Checks that the metadata names every chunk that is written and nothing else, and that they make
/// whole tensors.
inline void expect_whole(const saved_content& s) {
    std::size_t chunks = 0, values = 0;
    for (auto const& [fqn, entry] : s.meta.entries) {
        auto const* const t = std::get_if<tensor_metadata>(&entry);
        if (t == nullptr) {
            expect(s.values.count(fqn) == 1, "no rank writes the value '" + fqn + "'");
            ++values;
            continue;
        }
        std::vector<box> boxes;
        for (auto const& c : t->chunks) {
            boxes.push_back(c.region);
            expect(s.chunks.count(box_key(fqn, c.region.offsets, c.region.shape)) == 1,
                   "no rank writes a chunk of '" + fqn + "' that the metadata names");
        }
        check_coverage(fqn, t->shape, boxes);
        chunks += boxes.size();
    }
    expect(chunks == s.chunks.size(), "chunks are written that the metadata does not name");
    expect(values == s.values.size(), "values are written that the metadata does not name");
}

/// Gives a planner the content that an item of its plan asks for.
template <class Planner>
void deliver(Planner& p, const read_item& item, const saved_content& s, const std::string& where) {
    if (item.kind == item_kind::value) {
        auto const stored = s.values.find(item.fqn);
        expect(stored != s.values.end(), where + "an item for a value that is not stored");
        return p.load_value(item, value(stored->second));
    }
    auto const* const t = s.meta.tensor(item.fqn);
    expect(t != nullptr && item.chunk < t->chunks.size(),
           where + "an item for a chunk that is not stored");
    auto const region = t->chunks[item.chunk].region;
    expect(contains(box::whole(region.shape), box(item.source_offsets, item.shape)),
           where + "an item that reaches beyond its chunk");
    tensor_view const window = p.resolve_tensor(item);
    expect(window.shape == item.shape, where + "a window of another shape than its item");
    auto const& stored = s.chunks.at(box_key(item.fqn, region.offsets, region.shape));
    const_tensor_view from(t->type, region.shape, stored.data());
    for (std::size_t d = 0; d < item.shape.size(); ++d)
        from.data +=
            item.source_offsets[d] * from.strides[d] * static_cast<std::int64_t>(size_of(t->type));
    from.shape = item.shape;
    // The state has the dtypes that are stored: nothing is converted.
    expect(window.type == t->type, where + "a window of another dtype than the state's");
    copy_elements(from, window);
    p.commit_tensor(item, window);
}

/// Checks that the weight that is stored twice and read once, 'again' or 'rows', is a tie of stored
/// boxes.
inline void check_ties(const load_plan& plan, const std::vector<stored_tie>& ties,
                       const metadata& m, std::size_t rank) {
    auto const reads = [&](const std::string& fqn) {
        return std::any_of(plan.items.begin(), plan.items.end(),
                           [&](const read_item& i) { return i.fqn == fqn; });
    };
    for (auto const& tie : ties) {
        auto const where = rank_and_name(rank, tie.fqn);
        auto const *const a = m.tensor(tie.fqn), *const b = m.tensor(tie.read);
        expect(a != nullptr && b != nullptr, where + "a tie of a tensor that is not stored");
        expect(!reads(tie.fqn) && reads(tie.read),
               where + "a tie of which not exactly one tensor is read");
        for (auto const& [x, y] : tie.chunks)
            expect(x < a->chunks.size() && y < b->chunks.size() &&
                       a->chunks.region(x) == b->chunks.region(y),
                   where + "a tie of two chunks that are not the same box");
    }
    std::string const unread = reads("rows") ? "again" : "rows";
    expect(reads("rows") == reads("again") ||
               std::any_of(ties.begin(), ties.end(),
                           [&](const stored_tie& t) { return t.fqn == unread; }),
           rank_and_name(rank, unread) + "it is not read, and ties does not say so");
}

/// Drives one planner per rank through a load of that content.
/// @param stay  Items stay on the ranks whose planners let them.
/// @return The global plan, with them.
template <class Make>
std::vector<load_plan> plan_a_load(Make& make, const saved_content& s, flat_ranks& all, bool stay) {
    auto const n = all.flat.size();
    using P = std::remove_cvref_t<decltype(make())>;
    std::vector<P> planners;
    std::vector<load_plan> plans;
    auto const sent = [](const load_plan& p) { return decode_load_plan(encode_load_plan(p)); };
    for (std::size_t r = 0; r < n; ++r) {
        planners.push_back(make());
        cairn::detail::load_planner_ref more(planners[r]);
        (void)more.needs_memory_spaces();
        stay = more.items_stay_local() && stay;
        planners[r].set_up_load(all.flat[r]->leaves, s.meta, static_cast<int>(r), r == 0);
        plans.push_back(sent(planners[r].create_local_load_plan()));
        if (TyingLoadPlanner<P>) check_ties(plans[r], more.ties(), s.meta, r);
    }
    auto const local = plans;
    if (stay)
        for (auto& p : plans) p = {{}, {}, std::move(p.storage_data), std::move(p.planner_data)};
    auto global = planners[0].create_global_load_plan(std::move(plans));
    expect(global.size() == n, "create_global_load_plan returns " + std::to_string(global.size()) +
                                   " plans for " + std::to_string(n) + " ranks");
    for (std::size_t r = 0; r < n && stay; ++r) {
        expect(global[r].items.empty() && global[r].no_items.empty(),
               "rank " + std::to_string(r) + ": items are added, although they stay local");
        global[r].items = local[r].items;
        global[r].no_items = local[r].no_items;
    }
    std::vector<load_plan> finished;
    for (std::size_t r = 0; r < n; ++r)
        finished.push_back(planners[r].finish_load_plan(sent(global[r])));
    for (auto const& state : all.states)
        expect(state->wiped(), "the state changes before all plans are finished");

    for (std::size_t r = 0; r < n; ++r) {
        for (auto const& item : finished[r].items)
            deliver(planners[r], item, s, rank_and_name(r, item.fqn));
        (void)planners[r].finish_load();
    }
    return global;
}

}  // namespace detail

/// Runs all checks of a SavePlanner: every chunk and value is written by exactly one rank, what is
/// written is what the state holds (items match their data), and the metadata names all of it and
/// nothing else. A @ref JoiningSavePlanner plans as `default_planner` does.
/// @param make  Returns a new planner at each call.
/// @return Descriptions of the failures; empty if there are none.
template <class Make>
    requires SavePlanner<std::remove_cvref_t<decltype(std::declval<Make&>()())>>
std::vector<std::string> save_planner_suite(Make make) {
    std::vector<std::string> failures;
    for (int ranks : {1, 3, 9})
        detail::run_check(failures, "a save of " + std::to_string(ranks) + " ranks", [&] {
            detail::flat_ranks all(ranks, 5);
            auto const saved = detail::plan_a_save(make, all);
            detail::expect_whole(saved);
            detail::flat_ranks const one(1, 5);
            for (auto const& leaf : one.flat[0]->leaves)
                detail::expect(saved.meta.entries.count(leaf.fqn) == 1,
                               "'" + leaf.fqn + "' is not saved");
        });
    return failures;
}

/// Runs all checks of a LoadPlanner. What three ranks saved is loaded by other numbers of ranks:
/// items lie in their chunks, windows fit their items, nothing changes before the windows are asked
/// for, and every byte arrives. A @ref TyingLoadPlanner names the weights that it reads under one
/// of two names; the items of a @ref LocalLoadPlanner may stay on their rank.
/// @param make       Returns a new LoadPlanner at each call.
/// @param make_save  Returns a new SavePlanner whose names `make`'s planners know.
template <class Make, class MakeSave>
    requires LoadPlanner<std::remove_cvref_t<decltype(std::declval<Make&>()())>>
std::vector<std::string> load_planner_suite(Make make, MakeSave make_save) {
    std::vector<std::string> failures;
    for (int ranks : {1, 2, 3, 9})
        detail::run_check(failures, "a load of " + std::to_string(ranks) + " ranks", [&] {
            detail::flat_ranks source(3, 6);
            auto const saved = detail::plan_a_save(make_save, source);
            std::vector<load_plan> global;
            for (bool const stay : {false, true}) {
                auto planner = make();
                if (stay && !cairn::detail::load_planner_ref(planner).items_stay_local()) break;
                detail::flat_ranks all(ranks, 0);
                for (auto& s : all.states) s->wipe();
                auto const before =
                    std::exchange(global, detail::plan_a_load(make, saved, all, stay));
                detail::expect(!stay || global == before,
                               "the global plan differs if items stay local");
                for (std::size_t r = 0; r < all.states.size(); ++r) {
                    auto wrong = all.states[r]->difference(6);
                    if (all.last != source.last) wrong += "last";
                    detail::expect(wrong.empty(),
                                   "rank " + std::to_string(r) + ": not as it was saved: " + wrong);
                }
            }
        });
    return failures;
}
/// Overload for a planner of both directions.
template <class Make>
std::vector<std::string> load_planner_suite(Make make) {
    return load_planner_suite(make, make);
}

}  // namespace cairn::testing

#endif
