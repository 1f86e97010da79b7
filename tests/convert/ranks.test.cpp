// SPDX-License-Identifier: Apache-2.0
// What ranks of a conversion tell each other.
#include "support/error_codes.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(convert_ranks)

namespace {

using support::is;

/// A writer that tells itself something from its local to its global step.
class telling_writer : public cairn::torch_writer {
public:
    using torch_writer::torch_writer;
    cairn::save_plan prepare_local_save_plan(cairn::save_plan plan) {
        plan = torch_writer::prepare_local_save_plan(std::move(plan));
        plan.storage_data += "mine";
        return plan;
    }
    std::vector<cairn::save_plan> prepare_global_save_plan(std::vector<cairn::save_plan> plans) {
        for (auto const& p : plans) BOOST_TEST(p.storage_data == "mine");
        return torch_writer::prepare_global_save_plan(std::move(plans));
    }
};

}  // namespace

/// Files of two saves can be there at the same time, e.g. of a mirror that removes nothing.
BOOST_AUTO_TEST_CASE(ranks_that_find_two_saves_at_the_source_convert_neither) {
    std::vector<float> w(64);
    cairn::memory_store one, two, to;
    for (auto* s : {&one, &two})
        (void)cairn::save(cairn::state_dict{{"w", w}}, "c", cairn::solo(), *s);
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        BOOST_CHECK_EXCEPTION((void)cairn::convert({me.rank() == 0 ? one : two, "c"}, "d", me, to),
                              cairn::error, is(cairn::errc::concurrent_save));
    });
    BOOST_TEST(to.at("d").list().empty());
}

/// Of tensors that are not cut each rank plans every other one.
BOOST_AUTO_TEST_CASE(ranks_with_other_options_convert_nothing) {
    std::vector<float> a(4), b(4), c(4);
    cairn::memory_store from, to;
    (void)cairn::save(cairn::state_dict{{"a", a}, {"b", b}, {"c", c}}, "c", cairn::solo(), from);
    auto const refused = [&](const cairn::convert_options& other) {
        cairn::convert_options usual;
        usual.dim = 1;
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            BOOST_CHECK_EXCEPTION(
                (void)cairn::convert({from, "c"}, "d", me.rank() == 0 ? usual : other, me, to),
                cairn::error, is(cairn::errc::invalid_argument));
        });
        BOOST_TEST(to.at("d").list().empty());
    };
    cairn::convert_options o;
    refused(o);  // dim
    o.dim = 1;
    o.wants = [](std::string_view fqn) { return fqn != "a"; };
    refused(o);
    o.wants = {};
    o.floats_as = cairn::dtype::bfloat16;
    refused(o);
}

BOOST_AUTO_TEST_CASE(a_conversion_leaves_what_a_writer_tells_itself_alone) {
    std::vector<float> w(64, 7);
    cairn::memory_store from, to;
    (void)cairn::save(cairn::state_dict{{"w", w}}, "c", cairn::solo(), from);
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        (void)cairn::convert({from, "c"}, "d", me, telling_writer(to));
    });
    BOOST_TEST(support::load_whole(to, "d").tensors.count("w") == 1u);
}

BOOST_AUTO_TEST_CASE(the_coordinator_of_a_conversion_announces_that_it_reads_if_asked) {
    std::vector<float> w(64);
    cairn::memory_store store;
    (void)cairn::save(cairn::state_dict{{"w", w}}, "from", store);
    auto const notices = [&] {
        auto const all = store.at("from").list();
        return std::count_if(all.begin(), all.end(),
                             [](auto const& o) { return o.name.starts_with(".reading."); });
    };
    for (bool const asked : {false, true}) {
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            std::ptrdiff_t seen = 0;
            cairn::convert_options o;
            o.announce = asked;
            o.wants = [&](std::string_view) {
                seen = std::max(seen, notices());
                return true;
            };
            if (me.rank() == 0) {
                cairn::check_conversion({store, "from"}, o);
                BOOST_TEST(seen == 0);  // it writes nothing
            }
            (void)cairn::convert({store, "from"}, "to", o, me, store);
            BOOST_TEST(seen <= 1);
            if (me.rank() == 0) BOOST_TEST(seen == (asked ? 1 : 0));
        });
        BOOST_TEST(notices() == 0);
    }
}

BOOST_AUTO_TEST_SUITE_END()
