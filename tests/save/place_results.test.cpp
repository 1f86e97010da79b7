// SPDX-License-Identifier: Apache-2.0
// The locations that ranks report arrive where they belong, whether a rank has carried out what the
// coordinator had planned or has changed it, and in whatever order.
#include <cairn/planner/detail/plan_table.hpp>
#include <cairn/planner/plan_codec.hpp>
#include <cairn/planner/results_codec.hpp>
#include <cairn/save/detail/place_results.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(place_results)

namespace {

namespace impl = cairn::detail;
constexpr std::uint32_t tensors = 40;
constexpr int ranks = 3;

/// Two rows of each tensor, and a value that all ranks have.
cairn::save_plan plan_of(int rank) {
    cairn::save_plan p;
    for (std::uint32_t n = 0; n < tensors; ++n) {
        auto& i = p.items.emplace_back();
        i.fqn = "t" + std::to_string(n);
        i.kind = cairn::item_kind::shard;
        i.global_shape = {2 * ranks, 3};
        i.region = cairn::box({2 * rank, 0}, {2, 3});
    }
    p.items.emplace_back().fqn = "step";
    return p;
}
/// Where a rank has written its items; `unusual` has the strides of a transposed tensor.
cairn::write_results results_of(int rank, std::size_t items, bool unusual) {
    cairn::write_results r;
    auto const file = "file" + std::to_string(rank);
    for (std::uint32_t k = 0; k < items; ++k) {
        cairn::storage_location at{file, 100 * k, 100, {}, {}};
        if (k < tensors)
            at.layout = cairn::item_layout{
                64, 24, k, k + 1,
                unusual && k % 3 == 0 ? cairn::index_vector{1, 2} : cairn::index_vector{3, 1}};
        r.items.push_back({k, at});
    }
    r.file_sizes[file] = 100 * items;
    return r;
}

struct joined {
    joined() {
        for (int r = 0; r < ranks; ++r) {
            plans.push_back(plan_of(r));
            encoded.push_back(cairn::encode_save_plan(plans.back()));
        }
        for (auto const& e : encoded) table.add(e, std::array{impl::value_numbers{}});
        table.number_items();
        table.assign(cairn::replica_writer::least_loaded);
        table.check();
        for (std::size_t r = 0; r < ranks; ++r) {
            auto const s = table.selection_of(r);
            plans[r] = impl::selected(plans[r], s);
        }
    }
    std::vector<cairn::save_plan> plans{};
    std::vector<std::vector<std::byte>> encoded{};
    impl::plan_table table{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(results_find_their_items_whether_ranks_have_changed_their_plans_or_not) {
    joined const j;
    for (unsigned changed = 0; changed < 1U << ranks; ++changed)
        for (unsigned unusual = 0; unusual < 1U << ranks; ++unusual)
            for (bool const twice : {false, true}) {
                auto m = j.table.make_metadata();
                impl::result_placer placer(m);
                std::array order{2, 0, 1};
                for (auto const rank : order) {
                    auto const r = static_cast<std::size_t>(rank);
                    auto plan = j.plans[r];
                    auto all = results_of(rank, plan.items.size(), (unusual >> r & 1U) != 0);
                    bool const other = (changed >> r & 1U) != 0;
                    auto const place = [&](const cairn::write_results& some) {
                        auto const b = cairn::encode_write_results(some);
                        if (other)
                            placer.place(plan, b, rank);
                        else
                            placer.place(j.table, b, rank);
                    };
                    // What comes last counts.
                    if (twice) place(results_of(rank, plan.items.size(), (unusual >> r & 1U) == 0));
                    if (other) {
                        std::reverse(plan.items.begin(), plan.items.end());
                        for (auto& i : all.items)
                            i.item = static_cast<std::uint32_t>(plan.items.size()) - 1 - i.item;
                        std::reverse(all.items.begin(), all.items.end());
                    }
                    place(all);
                }
                placer.check_all_placed();
                BOOST_TEST(m.file_sizes.size() == std::size_t{ranks});
                bool as_reported = true;
                for (int rank = 0; rank < ranks; ++rank) {
                    auto const r = static_cast<std::size_t>(rank);
                    auto const& items = j.plans[r].items;
                    auto const told = results_of(rank, items.size(), (unusual >> r & 1U) != 0);
                    for (std::size_t k = 0; k < items.size(); ++k) {
                        auto const& at = told.items[k].at;
                        if (items[k].kind == cairn::item_kind::value)
                            as_reported = as_reported && m.value(items[k].fqn)->at == at;
                        else
                            as_reported = as_reported && m.tensor(items[k].fqn)->chunks[r] ==
                                                             cairn::chunk{items[k].region, at};
                    }
                }
                BOOST_TEST(as_reported, changed << " changed, " << unusual << " unusual");
            }
}

BOOST_AUTO_TEST_CASE(results_that_lack_an_item_or_have_one_more_are_refused) {
    joined const j;
    auto const invalid = [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::invalid_plan);
    };
    for (bool const changed : {false, true}) {
        auto m = j.table.make_metadata();
        impl::result_placer placer(m);
        for (int rank = 0; rank < ranks; ++rank) {
            auto const& plan = j.plans[static_cast<std::size_t>(rank)];
            auto all = results_of(rank, plan.items.size(), false);
            if (rank == 1) all.items.erase(all.items.begin() + 7);
            auto const place = [&] {
                auto const b = cairn::encode_write_results(all);
                if (changed)
                    placer.place(plan, b, rank);
                else
                    placer.place(j.table, b, rank);
            };
            place();
            all.items.front().item = static_cast<std::uint32_t>(plan.items.size());
            BOOST_CHECK_EXCEPTION(place(), cairn::error, invalid);
        }
        BOOST_CHECK_EXCEPTION(placer.check_all_placed(), cairn::error, invalid);
    }
}

BOOST_AUTO_TEST_SUITE_END()
