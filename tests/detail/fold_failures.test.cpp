// SPDX-License-Identifier: Apache-2.0
// What all ranks are told of each other's failures: no more than anybody reads.
#include <cairn/detail/failures.hpp>
#include <cairn/detail/fold_failures.hpp>
#include <cairn/detail/utf8.hpp>

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(fold_failures)

namespace {

using cairn::errc;
using cairn::rank_failure;
using ranges = std::vector<cairn::rank_range>;
using cairn::detail::failure_folder;

rank_failure failure(int rank, std::string tensor, errc code = errc::missing_key) {
    return cairn::error(code, {.fqn = std::move(tensor)}).as_failure(rank);
}
bool has(const std::string& s, const std::string& part) {
    return s.find(part) != s.npos;
}

/// Counts the bytes that one rank sends to others.
template <class C>
struct counting {
    C* inner;
    std::atomic<std::size_t>* bytes;

    int rank() const { return inner->rank(); }
    int size() const { return inner->size(); }
    void gather(cairn::message m, int root, cairn::deadline d,
                cairn::completion<std::vector<cairn::message>> done) {
        *bytes += m.size();
        inner->gather(std::move(m), root, d, std::move(done));
    }
    void scatter(std::vector<cairn::message> ms, int root, cairn::deadline d,
                 cairn::completion<cairn::message> done) {
        for (auto const& m : ms) *bytes += m.size();
        inner->scatter(std::move(ms), root, d, std::move(done));
    }
    void broadcast(cairn::message m, int root, cairn::deadline d,
                   cairn::completion<cairn::message> done) {
        *bytes += m.size();
        inner->broadcast(std::move(m), root, d, std::move(done));
    }
    void all_gather(cairn::message m, cairn::deadline d,
                    cairn::completion<std::vector<cairn::message>> done) {
        *bytes += m.size();
        inner->all_gather(std::move(m), d, std::move(done));
    }
    void share(std::shared_ptr<const cairn::activity> a) { inner->share(std::move(a)); }
    void cancel() noexcept { inner->cancel(); }
};

/// What each of `n` ranks says that wants a key of its own name, and the bytes that rank 0 sent.
template <class Name>
std::pair<std::vector<cairn::error>, std::size_t> mistyped(int n, Name name) {
    cairn::memory_store store;
    cairn::save(cairn::state_dict{{"w", 1}}, "c", store);
    std::vector<cairn::error> said(static_cast<std::size_t>(n), cairn::error(errc::io, {}));
    std::atomic<std::size_t> bytes{0}, others{0};
    cairn::run_ranks(n, [&](cairn::thread_group::member& me) {
        counting<cairn::thread_group::member> comm{&me, me.rank() == 0 ? &bytes : &others};
        int x = 0;
        cairn::state_dict sd{{name(me.rank()), std::ref(x)}};
        try {
            cairn::load(sd, "c", comm, store);
        } catch (const cairn::error& e) {
            said[static_cast<std::size_t>(me.rank())] = e;
        }
    });
    return {said, bytes};
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_that_fail_alike_are_one) {
    failure_folder f;
    for (int r : {0, 1, 2, 3, 5, 7, 8}) f.add(failure(r, "a"));
    f.add(failure(4, "b"));
    f.add(failure(6, "a", errc::shape_mismatch));
    f.add(failure(4, "b"));  // told twice
    auto const all = f.take();
    BOOST_REQUIRE(all.size() == 3u);
    BOOST_TEST((all[0].ranks == ranges{{0, 3}, {5, 5}, {7, 8}}));
    BOOST_TEST(all[0].text == "ranks 0-3, 5, 7-8: 'a': the checkpoint has no such key");
    BOOST_TEST(all[0].where.rank == 0);
    BOOST_TEST(all[0].where.fqn == "a");
    BOOST_TEST(all[0].count() == 7u);
    BOOST_TEST(all[1].text == "rank 4: 'b': the checkpoint has no such key");
    BOOST_TEST(all[1].count() == 1u);
    BOOST_TEST(all[2].text == "rank 6: 'a': shapes differ");

    // Once more, with others: as if all had come at once.
    failure_folder again;
    for (auto const& x : all) again.add(x);
    again.add(failure(4, "a"));
    BOOST_TEST(again.take()[0].text == "ranks 0-5, 7-8: 'a': the checkpoint has no such key");
}

/// Several ranks may tell of one rank that failed.
BOOST_AUTO_TEST_CASE(what_many_say_of_one_rank_is_said_once) {
    failure_folder f;
    for (int r = 0; r < 5; ++r)
        f.add(cairn::error(errc::timed_out, {.rank = 3, .found = "nothing"}).as_failure(r));
    auto const all = f.take();
    BOOST_REQUIRE(all.size() == 1u);
    BOOST_TEST(all[0].text == "rank 3: the deadline passed; nothing");
    BOOST_TEST(all[0].count() == 1u);
}

BOOST_AUTO_TEST_CASE(the_first_of_very_many_kinds_of_failures_are_listed) {
    failure_folder f;
    for (int r = 0; r < 500; ++r) f.add(failure(r, "key" + std::to_string(r)));
    f.add(failure(600, "key7"));  // a known kind still counts to its own
    auto const all = f.take();
    BOOST_REQUIRE(all.size() == failure_folder::most + 1);
    BOOST_TEST((all[7].ranks == ranges{{7, 7}, {600, 600}}));
    BOOST_TEST((all.back().ranks == ranges{{64, 499}}));
    BOOST_TEST(all.back().text == "other failures of ranks 64-499");
    BOOST_TEST((all.back().code == cairn::make_error_code(errc::rank_failed)));
    cairn::error const e(all, false);
    BOOST_TEST(has(e.what(), "'key2'"), e.what());
    BOOST_TEST(has(e.what(), "and 498 more ranks failed"), e.what());
    BOOST_TEST(std::string(e.what()).size() < 400u);
    // Listed again, nothing is lost.
    failure_folder again;
    for (auto const& x : all) again.add(x);
    BOOST_TEST((again.take().back().ranks == ranges{{64, 499}}));
}

BOOST_AUTO_TEST_CASE(long_failures_are_cut_and_fewer_are_listed) {
    std::vector<cairn::detail::outcome> all;
    for (int r = 0; r < 100; ++r) {
        std::string const name(100'000, static_cast<char>('a' + r % 26));
        std::vector<rank_failure> const one{failure(r, name + std::to_string(r))};
        auto const bytes = cairn::detail::encode_outcome(one, {});
        BOOST_TEST(bytes.size() < 6000u);
        all.push_back(cairn::detail::decode_outcome(bytes));
    }
    auto const folded = cairn::detail::collect_failures(all);
    BOOST_TEST(folded.size() < failure_folder::most);
    BOOST_TEST(cairn::detail::encode_outcome(folded, {}).size() < failure_folder::most_bytes * 2);
    std::size_t ranks = 0;
    for (auto const& f : folded) ranks += f.count();
    BOOST_TEST(ranks == 100u);
    BOOST_TEST(has(folded[0].text, "... (100001 bytes)"));
}

BOOST_AUTO_TEST_CASE(a_text_ends_with_a_whole_character) {
    std::string umlauts;
    for (int i = 0; i < 3000; ++i) umlauts += "\xc3\xbc";
    for (std::size_t most : {0u, 1u, 2u, 3u, 1023u, 1024u})
        BOOST_TEST(cairn::detail::find_not_utf8(cairn::detail::shortened(umlauts, most)) ==
                   std::string::npos);
    BOOST_TEST(cairn::detail::shortened("abc", 3) == "abc");
    BOOST_TEST(cairn::detail::shortened("abcd", 3) == "abc... (4 bytes)");
    cairn::error const e(errc::missing_key, {.fqn = umlauts, .found = umlauts});
    BOOST_TEST(std::string(e.what()).size() < 5000u);
    BOOST_TEST(cairn::detail::find_not_utf8(e.what()) == std::string::npos);
    BOOST_TEST(e.context().fqn == umlauts);
}

BOOST_AUTO_TEST_CASE(failures_travel_with_their_ranks) {
    failure_folder f;
    for (int r : {0, 1, 2, 9}) f.add(failure(r, "a"));
    auto const sent = f.take();
    auto const got = cairn::detail::decode_outcome(cairn::detail::encode_outcome(sent, {}));
    BOOST_REQUIRE(got.failures.size() == 1u);
    BOOST_TEST((got.failures[0].ranks == sent[0].ranks));
    BOOST_TEST(got.failures[0].text == sent[0].text);
    for (auto const& bad : {ranges{{-1, 3}}, ranges{{4, 3}}, ranges{{0, INT32_MAX}}}) {
        auto wrong = sent;
        wrong[0].ranks = bad;
        auto const bytes = cairn::detail::encode_outcome(wrong, {});
        BOOST_CHECK_THROW((void)cairn::detail::decode_outcome(bytes), cairn::error);
    }
    using cairn::detail::decode_outcome;
    BOOST_TEST(decode_outcome(cairn::detail::encode_failures_follow()).failures_follow);
    for (auto const& bytes :
         std::vector<std::vector<std::byte>>{{},
                                             {std::byte{1}, std::byte{0}},
                                             {std::byte{2}},
                                             {std::byte{2}, std::byte{3}},
                                             {std::byte{2}, std::byte{1}, std::byte{0}}})
        BOOST_CHECK_THROW((void)decode_outcome(bytes), cairn::error);
}

/// What is sent is not trusted: another version of cairn, or a peer that is none.
BOOST_AUTO_TEST_CASE(what_no_rank_sends_is_refused_or_is_a_failure) {
    using cairn::detail::decode_outcome;
    using cairn::detail::encode_outcome;
    for (int const rank : {INT32_MAX, -2, INT32_MIN}) {
        auto wrong = failure(0, "a");
        wrong.where.rank = rank;
        BOOST_CHECK_THROW((void)decode_outcome(encode_outcome({wrong}, {})), cairn::error);
    }
    for (int const rank : {INT32_MAX - 1, 0, -1}) {
        auto fine = failure(0, "a");
        fine.where.rank = rank;
        auto const got = decode_outcome(encode_outcome({fine}, {}));
        BOOST_TEST(got.failures.at(0).where.rank == rank);
        BOOST_TEST(cairn::detail::collect_failures({got}).size() == 1u);
    }
    // An error that was made of it would be none.
    for (auto const& none : {cairn::error_code(0, cairn::category()), cairn::error_code(),
                             cairn::error_code(0, boost::system::generic_category())}) {
        auto wrong = failure(0, "a");
        wrong.code = none;
        auto const got = decode_outcome(encode_outcome({wrong}, {}));
        BOOST_TEST((got.failures.at(0).code == make_error_code(errc::rank_failed)));
    }
}

/// A key that is mistyped everywhere: what the coordinator says grows with the ranks, not with
/// their square, and every rank says one thing.
BOOST_AUTO_TEST_CASE(failures_of_all_ranks_of_a_load_are_said_once) {
    auto const [few, bytes_of_few] = mistyped(8, [](int) { return "v"; });
    auto const [many, bytes_of_many] = mistyped(96, [](int) { return "v"; });
    for (auto const& e : many) {
        BOOST_TEST(e.failures().size() == 1u);
        BOOST_TEST(has(e.what(), "ranks 0-95: 'v': the checkpoint has no such key"), e.what());
        BOOST_TEST(e.failures()[0].count() == 96u);
        BOOST_TEST((e.code() == cairn::make_error_code(errc::missing_key)));
    }
    BOOST_TEST(bytes_of_many < bytes_of_few + 88 * 100);
}

BOOST_AUTO_TEST_CASE(ranks_that_each_fail_in_their_own_way_are_listed_up_to_a_bound) {
    auto const [many, bytes] = mistyped(96, [](int r) { return "v" + std::to_string(r); });
    for (auto const& e : many) {
        BOOST_TEST(e.failures().size() == failure_folder::most + 1);
        BOOST_TEST((e.failures().back().ranks == ranges{{64, 95}}));
        BOOST_TEST(has(e.what(), "and 93 more ranks failed"), e.what());
        BOOST_TEST(std::string(e.what()).size() < 1000u);
    }
    BOOST_TEST(bytes < failure_folder::most_bytes + 96 * 1000);
}

/// A save's too.
BOOST_AUTO_TEST_CASE(failures_of_all_ranks_of_a_save_are_said_once) {
    cairn::memory_store store;
    std::atomic<int> good{0};
    cairn::run_ranks(20, [&](cairn::thread_group::member& me) {
        cairn::state_dict sd{{"caf\xe9", 1}};
        try {
            cairn::save(sd, "c", me, store);
        } catch (const cairn::error& e) {
            good += e.failures().size() == 1 && has(e.what(), "ranks 0-19: 'caf\\xe9'");
        }
    });
    BOOST_TEST(good == 20);
}

BOOST_AUTO_TEST_SUITE_END()
