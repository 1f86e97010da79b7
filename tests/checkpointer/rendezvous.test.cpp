// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other: nothing is lost on the way, and nothing that cannot be is believed.
#include <cairn/checkpointer/detail/rendezvous.hpp>
#include <cairn/error.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_rendezvous)

using namespace cairn::detail;

rank_report some_report() {
    auto const failure =
        cairn::error(cairn::errc::io, {.file = "a file", .found = "no disk"}).as_failure(3);
    return {checkpointer_call::save_now,
            std::numeric_limits<std::int64_t>::min(),
            earlier_save::failed,
            true,
            std::uint64_t{1} << 63,
            12'345'678'901,
            {failure},
            earlier_save::writing,
            {failure, failure}};
}

BOOST_AUTO_TEST_CASE(reports_and_answers_survive_encoding) {
    auto const r = decode_rank_report(encode(some_report()));
    BOOST_TEST((r.call == checkpointer_call::save_now));
    BOOST_TEST(r.step == std::numeric_limits<std::int64_t>::min());
    BOOST_TEST((r.earlier == earlier_save::failed));
    BOOST_TEST(r.heeds_signals);
    BOOST_TEST(r.signals == std::uint64_t{1} << 63);
    BOOST_TEST(r.stall == 12'345'678'901);
    BOOST_REQUIRE(r.failures.size() == 1u);
    BOOST_TEST(r.failures[0].where.file == "a file");
    BOOST_TEST((r.upload == earlier_save::writing));
    BOOST_TEST(r.upload_failures.size() == 2u);

    rendezvous_answer a;
    a.decided = {checkpoint_schedule::action::fail, true, true};
    a.overlapped = true;
    a.signals = 5;
    a.next = 77;
    a.failures = r.failures;
    a.upload = true;
    a.uploaded = earlier_save::completed;
    a.upload_failures = r.upload_failures;
    a.removed = {"a save", "another"};
    auto const b = decode_rendezvous_answer(encode(a));
    BOOST_TEST((b.decided.what == checkpoint_schedule::action::fail));
    BOOST_TEST((b.decided.settled && b.decided.postponed));
    BOOST_TEST(b.overlapped);
    BOOST_TEST(b.signals == 5u);
    BOOST_TEST(b.next == 77);
    BOOST_TEST(b.failures.size() == 1u);
    BOOST_TEST(b.upload);
    BOOST_TEST((b.uploaded == earlier_save::completed));
    BOOST_TEST(b.upload_failures.size() == 2u);
    BOOST_TEST((b.removed == a.removed));
    BOOST_TEST(decode_rendezvous_answer(encode(rendezvous_answer())).next ==
               checkpoint_schedule::next_call);
}

BOOST_AUTO_TEST_CASE(what_is_cut_or_has_no_meaning_is_refused) {
    auto whole = encode(some_report());
    for (std::size_t n = 0; n < whole.size(); ++n)
        BOOST_CHECK_THROW((void)decode_rank_report(std::span(whole).first(n)), cairn::error);
    whole[0] = std::byte{200};
    BOOST_CHECK_THROW((void)decode_rank_report(whole), cairn::error);
    auto answer = encode(rendezvous_answer());
    for (std::size_t n = 0; n < answer.size(); ++n)
        BOOST_CHECK_THROW((void)decode_rendezvous_answer(std::span(answer).first(n)), cairn::error);
    answer[0] = std::byte{4};
    BOOST_CHECK_THROW((void)decode_rendezvous_answer(answer), cairn::error);
}

BOOST_AUTO_TEST_CASE(the_slowest_rank_counts_and_failures_are_folded) {
    std::vector<rank_report> all(4);
    BOOST_TEST((join_reports(all, 2).earlier == earlier_save::none));
    all[0].earlier = earlier_save::completed;
    BOOST_TEST((join_reports(all, 2).earlier == earlier_save::completed));
    for (std::size_t const r : {std::size_t{1}, std::size_t{3}}) {
        all[r] = some_report();
        all[r].call = all[0].call;
        all[r].step = all[0].step;
    }
    auto joint = join_reports(all, 2);
    BOOST_TEST((joint.earlier == earlier_save::failed));
    BOOST_TEST(joint.failures.size() == 1u);
    BOOST_TEST(joint.heeds_signals);
    all[2].earlier = earlier_save::writing;
    all[2].signals = 1;
    joint = join_reports(all, 0);
    BOOST_TEST((joint.earlier == earlier_save::writing));
    BOOST_TEST(joint.signals == ((std::uint64_t{1} << 63) | 1u));
    BOOST_TEST(joint.stall == some_report().stall);
}

BOOST_AUTO_TEST_CASE(each_call_is_named_where_ranks_differ) {
    using enum checkpointer_call;
    for (auto const& [call, name] :
         {std::pair(maybe_save, "maybe_save of step 4"), std::pair(save_now, "save_now of step 4"),
          std::pair(wait, "wait"), std::pair(load, "load"), std::pair(plan, "plan")}) {
        std::vector<rank_report> all(3);
        all[0].step = 9;
        all[1] = all[0];
        all[2].call = call;
        all[2].step = 4;
        try {
            (void)join_reports(all, 1);
            BOOST_TEST(false);
        } catch (const cairn::error& e) {
            BOOST_TEST(std::string(e.what()).find(name) != std::string::npos, e.what());
            BOOST_TEST(e.failures().size() == 1u);
            BOOST_TEST(e.failures()[0].where.rank == 2);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
