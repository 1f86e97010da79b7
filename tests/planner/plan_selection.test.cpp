// SPDX-License-Identifier: Apache-2.0
// What of its local plan a rank carries out arrives as it was sent, or is refused.
#include <cairn/planner/detail/plan_selection.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(plan_selection)

namespace {

namespace impl = cairn::detail;
using positions = std::vector<std::uint32_t>;

std::vector<std::byte> sent(const impl::plan_selection& s) {
    impl::wire_writer w;
    impl::put(w, s);
    return w.take();
}
impl::plan_selection received(const std::vector<std::byte>& message, std::size_t items) {
    impl::wire_reader r(message);
    auto s = impl::get_selection(r, items);
    BOOST_TEST(r.left() == 0u);
    return s;
}
/// Each item is tied to a name of its own.
cairn::save_plan plan_of(std::size_t items) {
    cairn::save_plan p;
    for (std::size_t k = 0; k < items; ++k) {
        auto& i = p.items.emplace_back();
        i.fqn = "t" + std::to_string(k);
        i.tied_to = "first" + std::to_string(k);
        p.paths.emplace_back(i.fqn, cairn::key_path{cairn::path_element(i.fqn)});
    }
    return p;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_selection_arrives_as_it_was_sent) {
    std::mt19937 random(7);
    for (std::size_t const items : {0U, 1U, 2U, 9U, 300U, 70'000U}) {
        auto const local = plan_of(items);
        for (unsigned const one_in : {1U, 2U, 3U, 200U, 1'000'000U}) {
            impl::plan_selection s;
            cairn::save_plan expected;
            expected.paths = local.paths;
            for (std::uint32_t k = 0; k < items; ++k) {
                if (random() % one_in == 0) {
                    s.dropped.push_back(k);
                    continue;
                }
                auto& i = expected.items.emplace_back(local.items[k]);
                if (random() % one_in != 0) continue;
                s.untied.push_back(k);
                i.tied_to.clear();
            }
            auto const again = received(sent(s), items);
            BOOST_TEST((again == s));
            BOOST_TEST((impl::selected(local, again) == expected));
        }
    }
}

/// The usual answer, of any size of plan: a state that is sharded over all ranks.
BOOST_AUTO_TEST_CASE(a_selection_of_everything_is_two_bytes) {
    BOOST_TEST(sent({}).size() == 2u);
    BOOST_TEST((impl::selected(plan_of(3), {}) == plan_of(3)));
}

BOOST_AUTO_TEST_CASE(a_selection_does_not_go_beyond_the_plan) {
    auto const refuses = [](const std::vector<std::byte>& message, std::size_t items) {
        impl::wire_reader r(message);
        BOOST_CHECK_EXCEPTION((void)impl::get_selection(r, items), cairn::error,
                              [](const cairn::error& e) {
                                  return e.code() == make_error_code(cairn::errc::corrupt);
                              });
    };
    for (auto const& s : {impl::plan_selection{{0, 3}, {}}, impl::plan_selection{{}, {1, 3}}}) {
        BOOST_TEST((received(sent(s), 4) == s));
        refuses(sent(s), 3);
        refuses(sent(s), 0);
    }
    // A position that would be small again in 32 or 64 bits.
    for (auto const distance : {std::uint64_t{1} << 32, UINT64_MAX - 1, UINT64_MAX}) {
        impl::wire_writer w;
        w.varint(2);
        w.varint(1);
        w.varint(distance);
        w.varint(0);
        refuses(w.take(), 4);
    }
    auto cut = sent({{0, 3}, {1}});
    cut.pop_back();
    refuses(cut, 4);
    // More of them than there are bytes.
    impl::wire_writer w;
    w.varint(1'000'000);
    refuses(w.take(), 2'000'000);
}

BOOST_AUTO_TEST_SUITE_END()
