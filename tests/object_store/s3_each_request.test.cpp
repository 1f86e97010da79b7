// SPDX-License-Identifier: Apache-2.0
// Each request of a save, a load, a removal, a search and a collection fails in each way: what was
// there stands, or what was to be there does, and nothing else. A sample of all cases; all of them
// with CAIRN_ALL_FAULTS in the environment, which take some hours: =1/4 to =4/4 is a quarter of
// them, for processes side by side.
#include "s3_place.hpp"
#include "support/error_codes.hpp"
#include "support/on_threads.hpp"
#include "support/s3/server.hpp"
#include "support/sanitized.hpp"

#include <cairn/catalog/detail/removal.hpp>
#include <cairn/catalog/garbage.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/load.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/detail/checkpoint_files.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_each_request)

using cairn::errc;
using s3_server::effect;
using s3_server::fault;
using s3_server::kind;
using s3_tests::bucket;
using support::is;
namespace faults = s3_server::faults;

namespace {

constexpr int ranks = 2;
constexpr std::size_t elements = std::size_t{9} << 18;  // 9 MiB: two parts
constexpr std::size_t few = 9;

/// How long a fault lasts: for one request, which may be tried again; for one that is not; or from
/// that request on, for each of the operation.
enum class lasts { once, once_without_retries, to_the_end };
const char* name_of(lasts l) {
    constexpr const char* names[] = {"once", "once, without retries", "to the end"};
    return names[static_cast<int>(l)];
}

/// A server, and stores at it that know nothing of each other.
struct world {
    world() { server.add_bucket(bucket); }

    cairn::s3_options options() const {
        auto o = s3_tests::options_at(server);
        o.prefix = "run";
        o.signed_payloads = false;
        o.connect_timeout = o.stall_timeout = std::chrono::seconds(1);
        return o;
    }
    cairn::s3_store store() const { return cairn::s3_store(options()); }
    /// The one that meets the fault.
    cairn::s3_store store(lasts l) const {
        auto o = options();
        if (l != lasts::once) o.retry_for = std::chrono::milliseconds(0);
        return cairn::s3_store(std::move(o));
    }

    s3_server::server server{s3_server::options()};
};

/// The ranks' states, which differ: the first one's file is sent in parts.
struct rank_state {
    rank_state(float v, int rank, std::size_t n) : w(rank == 0 ? n : 5, v) {
        dict = {{"w" + std::to_string(rank), w}};
    }
    std::vector<float> w;
    cairn::state_dict dict{};
};
template <class F>
std::vector<std::exception_ptr> try_on_ranks(F&& f) {
    cairn::thread_group group(ranks);
    std::vector<cairn::thread_group::member> members;
    for (int r = 0; r < ranks; ++r) members.push_back(group.rank(r));
    return support::try_on_threads(ranks,
                                   [&](int r) { f(members[static_cast<std::size_t>(r)], r); });
}

enum class outcome { done, failed, unknown };

/// What all ranks say together.
outcome outcome_of(const std::vector<std::exception_ptr>& all) {
    std::size_t failed = 0, unknown = 0;
    for (auto const& e : all) {
        if (!e) continue;
        try {
            std::rethrow_exception(e);
        } catch (const cairn::error& x) {
            BOOST_TEST_MESSAGE("  " << x.what());
            is(x, errc::outcome_unknown) ? ++unknown : ++failed;
        }
    }
    if (failed == 0 && unknown == 0) return outcome::done;
    BOOST_CHECK_MESSAGE(unknown != 0 || failed == all.size(), "ranks disagree");
    return unknown != 0 ? outcome::unknown : outcome::failed;
}
outcome save(cairn::s3_store s, const std::string& id, float v, std::size_t n) {
    return outcome_of(try_on_ranks([&](auto& me, int r) {
        rank_state state(v, r, n);
        (void)cairn::save(state.dict, id, me, s);
    }));
}
/// What a checkpoint holds: one value everywhere. @return Nothing if it is not there.
std::optional<float> value_of(cairn::s3_store s, const std::string& id, std::size_t n,
                              outcome* how = nullptr) {
    std::vector<float> found(ranks, -1);
    auto const failures = try_on_ranks([&](auto& me, int r) {
        rank_state state(0, r, n);
        (void)cairn::load(state.dict, id, me, s);
        auto const v = state.w.front();
        BOOST_CHECK_MESSAGE(std::ranges::all_of(state.w, [&](float x) { return x == v; }),
                            "a mixture was loaded");
        found[static_cast<std::size_t>(r)] = v;
    });
    if (how != nullptr) {
        *how = outcome_of(failures);
        if (*how != outcome::done) return {};
    } else {
        for (auto const& e : failures) {
            if (!e) continue;
            BOOST_CHECK_EXCEPTION(std::rethrow_exception(e), cairn::error, is(errc::not_found));
            return {};
        }
    }
    BOOST_CHECK_MESSAGE(found[0] == found[1], "ranks have loaded different checkpoints");
    return found[0];
}

/// What is tried.
struct operation {
    const char* name;
    std::function<void(world&)> prepare;
    std::function<outcome(cairn::s3_store)> run;
    /// Called when all is well again, before the collection and after it.
    std::function<void(world&, outcome, bool collected)> check;
};

/// A part that an upload lacks cannot be sent again.
std::vector<fault> transient() {
    auto all = faults::transient();
    for (auto& f : all)
        if (f.code == "NoSuchUpload") f.only = {kind::complete_upload, kind::abort_upload};
    return all;
}
bool is_same(const fault& a, const fault& b) {
    return a.name() == b.name() && a.only == b.only;
}
/// All that may go wrong with one request.
std::vector<fault> all_faults() {
    auto all = transient();
    for (auto& f : std::vector<fault>{
             faults::answer(503, "SlowDown", effect::done), faults::conflict(effect::done),
             faults::precondition_failed(effect::none), faults::precondition_failed(effect::done),
             faults::no_such_upload(effect::none), faults::no_such_upload(effect::done),
             faults::entity_too_small(), faults::wrong_byte(), faults::wrong_etag(),
             faults::old_listing(4), faults::no_range(), faults::answer(400, "BadDigest"),
             faults::answer(403, "AccessDenied"), faults::answer(200, ""),
             faults::answer(200, "", effect::done),
             faults::stall(std::chrono::seconds(4), effect::none),
             faults::stall(std::chrono::seconds(4), effect::done),
             faults::drip(std::chrono::milliseconds(20))})
        all.push_back(std::move(f));
    return all;
}
bool is_slow(const fault& f) {
    return f.what == fault::way::stall || f.what == fault::way::drip;
}
/// Whether a try after it succeeds, and what is there shows how the first one has ended.
bool passes(const fault& f) {
    auto const t = transient();
    return std::ranges::any_of(t, [&](auto const& x) { return is_same(x, f); }) || is_slow(f);
}
struct trial {
    fault what;
    lasts how_long = lasts::once;
    std::size_t nth = 0;  ///< Of the requests that it can happen to.
};

std::vector<trial> all_trials(const operation& op) {
    world w;
    op.prepare(w);
    auto const before = w.server.count();
    (void)op.run(w.store());
    auto log = w.server.log();
    log.erase(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(before));
    BOOST_TEST_MESSAGE(op.name << ": " << log.size() << " requests");
    std::vector<trial> all;
    for (auto const& f : all_faults()) {
        auto const n = static_cast<std::size_t>(
            std::ranges::count_if(log, [&](auto const& e) { return f.applies_to(e.is); }));
        for (auto const l : {lasts::once, lasts::once_without_retries, lasts::to_the_end})
            for (std::size_t i = 0; i < n; ++i) all.push_back({f, l, i});
    }
    return all;
}

void try_one(const operation& op, const trial& t) {
    world w;
    op.prepare(w);
    // It is over when the operation is.
    auto const on = std::make_shared<std::atomic<bool>>(true);
    auto const seen = std::make_shared<std::atomic<std::size_t>>(0);
    w.server.fail_each(t.what, [on, seen, &t](auto const& r) {
        if (!*on || !t.what.applies_to(r.what())) return false;
        auto const n = (*seen)++;
        return t.how_long == lasts::to_the_end ? n >= t.nth : n == t.nth;
    });
    auto const how = op.run(w.store(t.how_long));
    *on = false;
    if (t.how_long == lasts::once && passes(t.what))
        BOOST_CHECK_MESSAGE(how == outcome::done, "what may pass made it fail");
    op.check(w, how, false);
    // Those that were begun by others, or are of nobody, are given up after a day.
    w.server.age(std::chrono::hours(25));
    auto s = w.store();
    auto const report = cairn::collect_garbage(s);
    BOOST_TEST(report.problems == 0u);
    for (auto const& l : report.lines) BOOST_TEST_MESSAGE("  " << l);
    op.check(w, how, true);
    BOOST_TEST(w.server.uploads(bucket).empty());
    auto const again = cairn::collect_garbage(s);
    BOOST_TEST(again.lines.empty());
}

/// @param most  So many of them, unless all are asked for.
void try_all(const operation& op, std::size_t most) {
    auto const all = all_trials(op);
    auto const* const asked = std::getenv("CAIRN_ALL_FAULTS");
    bool const whole = asked != nullptr;
    std::size_t first = 1, step = 1;
    if (whole && std::sscanf(asked, "%zu/%zu", &first, &step) != 2) first = step = 1;
    BOOST_REQUIRE((first > 0 && first <= step));
    auto const n = whole ? all.size() : std::min(all.size(), most);
    std::size_t slow = 0;
    for (std::size_t k = first - 1; k < n; k += step) {
        auto const& t = all[k * all.size() / n];
        if (!whole && is_slow(t.what) && (t.how_long == lasts::to_the_end || slow++ > 2)) continue;
        BOOST_TEST_CONTEXT(op.name << ": " << t.what.name() << ", " << name_of(t.how_long)
                                   << ", request " << t.nth)
        try_one(op, t);
    }
    BOOST_TEST_MESSAGE(op.name << ": " << n / step << " of " << all.size() << " cases");
}
std::size_t keys_below(world& w, const std::string& place) {
    auto const keys = w.server.keys(bucket);
    return static_cast<std::size_t>(std::ranges::count_if(
        keys, [&](auto const& k) { return k.starts_with("run/" + place + "/"); }));
}
constexpr std::size_t of_a_checkpoint = ranks + 1;

constexpr std::size_t usual(std::size_t n) {
    return std::max<std::size_t>(1, n / static_cast<std::size_t>(support::stride_if_sanitized(11)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_a_save_over_a_checkpoint) {
    operation op;
    op.name = "a save over a checkpoint";
    op.prepare = [](world& w) {
        BOOST_REQUIRE((save(w.store(), "step_1", 1, elements) == outcome::done));
    };
    op.run = [](cairn::s3_store s) { return save(s, "step_1", 2, elements); };
    op.check = [](world& w, outcome how, bool collected) {
        auto const v = value_of(w.store(), "step_1", elements).value_or(-1);
        BOOST_TEST((v == 1 || v == 2));
        if (how == outcome::done) BOOST_TEST(v == 2);
        if (how == outcome::failed) BOOST_TEST(v == 1);
        if (!collected) return;
        BOOST_TEST(keys_below(w, "step_1") == of_a_checkpoint);
        BOOST_TEST(w.server.keys(bucket).size() == of_a_checkpoint);
    };
    try_all(op, usual(40));
}

BOOST_AUTO_TEST_CASE(of_a_first_save) {
    operation op;
    op.name = "a first save";
    op.prepare = [](world&) {};
    op.run = [](cairn::s3_store s) { return save(s, "step_1", 2, elements); };
    op.check = [](world& w, outcome how, bool collected) {
        auto const v = value_of(w.store(), "step_1", elements);
        if (v) BOOST_TEST(*v == 2);
        if (how == outcome::done) BOOST_TEST(v.has_value());
        if (how == outcome::failed) BOOST_TEST(!v);
        if (collected) BOOST_TEST(w.server.keys(bucket).size() == (v ? of_a_checkpoint : 0));
    };
    try_all(op, usual(24));
}

BOOST_AUTO_TEST_CASE(of_a_load) {
    operation op;
    op.name = "a load";
    op.prepare = [](world& w) {
        BOOST_REQUIRE((save(w.store(), "step_1", 1, elements) == outcome::done));
    };
    op.run = [](cairn::s3_store s) {
        outcome how{};
        if (auto const v = value_of(s, "step_1", elements, &how)) BOOST_TEST(*v == 1);
        return how;
    };
    op.check = [](world& w, outcome, bool collected) {
        BOOST_TEST(value_of(w.store(), "step_1", elements).value_or(-1) == 1);
        if (collected) BOOST_TEST(w.server.keys(bucket).size() == of_a_checkpoint);
    };
    try_all(op, usual(24));
}

/// Saves as a run does, with a record.
void save_steps(cairn::s3_store s, std::vector<std::int64_t> steps, cairn::retention keep = {}) {
    auto const failures = try_on_ranks([&](auto& me, int r) {
        cairn::checkpointer_options o;
        o.keep = keep;
        cairn::checkpointer c(me, s, o);
        for (auto const step : steps) {
            rank_state state(static_cast<float>(step), r, few);
            (void)c.save_now(step, state.dict);
        }
        (void)c.wait();
    });
    support::rethrow_first(failures);
}

BOOST_AUTO_TEST_CASE(of_a_removal) {
    operation op;
    op.name = "a removal";
    op.prepare = [](world& w) { save_steps(w.store(), {1, 2}); };
    op.run = [](cairn::s3_store s) {
        return outcome_of(support::try_on_threads(1, [&](int) {
            auto place = s.at("step_1");
            auto const id = cairn::detail::read_checkpoint_files(place).save_id;
            std::vector<std::string> warnings;
            (void)cairn::detail::remove_checkpoint(cairn::any_store(s), "step_1", id, warnings);
        }));
    };
    op.check = [](world& w, outcome, bool collected) {
        auto const v = value_of(w.store(), "step_1", few);
        if (v) BOOST_TEST(*v == 1);
        BOOST_TEST(value_of(w.store(), "step_2", few).value_or(-1) == 2);
        if (!collected) return;
        BOOST_TEST(keys_below(w, "step_1") == (v ? of_a_checkpoint : 0));
        BOOST_TEST(keys_below(w, "step_2") == of_a_checkpoint);
    };
    try_all(op, usual(20));
}

BOOST_AUTO_TEST_CASE(of_a_search) {
    operation op;
    op.name = "a search for the latest one";
    op.prepare = [](world& w) { save_steps(w.store(), {1, 2}); };
    op.run = [](cairn::s3_store s) {
        return outcome_of(support::try_on_threads(
            1, [&](int) { BOOST_TEST(cairn::latest(s).value_or("none") == "step_2"); }));
    };
    op.check = [](world& w, outcome, bool) {
        auto s = w.store();
        BOOST_TEST(cairn::latest(s).value_or("none") == "step_2");
    };
    try_all(op, usual(20));
}

/// A save that was killed while it wrote has left an intent, a finished file, and an upload.
BOOST_AUTO_TEST_CASE(of_a_collection) {
    operation op;
    op.name = "a collection";
    op.prepare = [](world& w) {
        BOOST_REQUIRE((save(w.store(), "step_1", 1, few) == outcome::done));
        s3_tests::leave_killed_save(w.store().at("step_2"), "run/step_2/", w.options());
    };
    op.run = [](cairn::s3_store s) {
        return outcome_of(
            support::try_on_threads(1, [&](int) { (void)cairn::collect_garbage(s); }));
    };
    op.check = [](world& w, outcome, bool collected) {
        BOOST_TEST(value_of(w.store(), "step_1", few).value_or(-1) == 1);
        if (collected) BOOST_TEST(w.server.keys(bucket).size() == of_a_checkpoint);
    };
    try_all(op, usual(20));
}

BOOST_AUTO_TEST_SUITE_END()
