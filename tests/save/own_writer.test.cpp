// SPDX-License-Identifier: Apache-2.0
// A format of the user's own whose calls throw anything around the commit: what was committed
// stays and is a success, what was not is gone, and in doubt nothing is removed.
#include "archetype/storage_reader.hpp"
#include "archetype/storage_writer.hpp"
#include "support/fault_store.hpp"
#include "support/meddling_group.hpp"

#include <cairn/cairn.hpp>
#include <cairn/testing/detail/probe.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(own_writer)

namespace {

namespace arch = cairn::archetype;
using cairn::testing::detail::call;
using cairn::testing::detail::watcher;
using support::told;

constexpr int ranks = 3;
constexpr std::chrono::seconds hang{30};  // no test waits for it, if all is well

struct ended {
    std::vector<told> all;
    std::vector<std::string> warnings;  ///< The coordinator's.
};

ended save(const std::shared_ptr<arch::shelf>& at, float v, watcher& w) {
    ended out;
    out.all = support::on_ranks_that_stay(ranks, [&](cairn::thread_group::member& me, int rank) {
        std::vector<float> rows(2, v);
        cairn::state_dict sd{
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {1, 2}, rows.data()),
                                       {ranks, 2}, cairn::device_mesh::line(ranks),
                                       {cairn::shard_along{0}}, rank)}};
        cairn::save_options o;
        o.exchange_timeout = hang;
        cairn::testing::detail::probed_writer<arch::storage_writer> writer(arch::storage_writer(at),
                                                                           rank, w);
        auto report = cairn::save(sd, "c", o, me, writer);
        if (rank == 0) out.warnings = std::move(report.warnings);
    });
    return out;
}
/// The value of the checkpoint that stands there; less than 0 where it is not whole.
float standing(const std::shared_ptr<arch::shelf>& at) {
    std::vector<float> w(2 * ranks);
    cairn::state_dict sd{{"w", cairn::tensor_view(cairn::dtype::f32, {ranks, 2}, w.data())}};
    arch::storage_reader reader(at);
    cairn::load(sd, "c", reader);
    return std::all_of(w.begin(), w.end(), [&](float x) { return x == w[0]; }) ? w[0] : -1;
}
bool mentions(const std::vector<std::string>& warnings, const std::string& what) {
    return std::any_of(warnings.begin(), warnings.end(),
                       [&](auto const& w) { return w.find(what) != w.npos; });
}

/// A place with the checkpoint 1; the save of 2 in it is what `f` watches.
template <class F>
void each_kind(F&& f) {
    for (auto const what : support::all_thrown) {
        BOOST_TEST_CONTEXT(name_of(what)) {
            auto const at = std::make_shared<arch::shelf>();
            watcher w;
            BOOST_REQUIRE(save(at, 1, w).all[0].ok());
            f(at, w, what);
            w.before = w.after = [](call, int) {};
            auto const again = save(at, 3, w);
            for (auto const& t : again.all) BOOST_TEST(t.ok(), support::words(again.all));
            BOOST_TEST(standing(at) == 3.0f);
            BOOST_TEST(at->names("c").size() == std::size_t{ranks}, "something is left");
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_finish_that_commits_and_then_fails_is_a_success_with_a_warning) {
    each_kind([](auto const& at, watcher& w, support::thrown what) {
        w.after = [=](call c, int) {
            if (c == call::finish) support::throw_it(what, "finish");
        };
        auto const e = save(at, 2, w);
        for (auto const& t : e.all) BOOST_TEST(t.ok(), support::words(e.all));
        BOOST_TEST(standing(at) == 2.0f);
        BOOST_TEST(mentions(e.warnings, "committed, although it failed"));
    });
}

/// E.g. because it has tried again, and found its own checkpoint there.
BOOST_AUTO_TEST_CASE(a_finish_that_commits_and_then_finds_another_save_is_a_success) {
    for (bool const commits : {true, false}) {
        auto const at = std::make_shared<arch::shelf>();
        watcher w;
        BOOST_REQUIRE(save(at, 1, w).all[0].ok());
        (commits ? w.after : w.before) = [](call c, int) {
            if (c == call::finish) throw cairn::error(cairn::errc::concurrent_save, {});
        };
        auto const e = save(at, 2, w);
        for (auto const& t : e.all)
            BOOST_TEST((commits ? t.ok() : t.is(cairn::errc::concurrent_save)),
                       support::words(e.all));
        BOOST_TEST(standing(at) == (commits ? 2.0f : 1.0f));
        BOOST_TEST(mentions(e.warnings, "committed, although it failed") == commits);
        BOOST_TEST(at->names("c").size() == std::size_t{ranks}, "something is left");
    }
}

BOOST_AUTO_TEST_CASE(a_finish_that_fails_before_it_commits_leaves_nothing) {
    each_kind([](auto const& at, watcher& w, support::thrown what) {
        w.before = [=](call c, int) {
            if (c == call::finish) support::throw_it(what, "finish");
        };
        auto const e = save(at, 2, w);
        for (auto const& t : e.all) {
            BOOST_REQUIRE(t.e);
            BOOST_TEST(!t.is(cairn::errc::outcome_unknown), support::words(e.all));
            BOOST_TEST(t.e->context().rank == 0);
        }
        BOOST_TEST(standing(at) == 1.0f);
        BOOST_TEST(at->names("c").size() == std::size_t{ranks}, "something is left");
    });
}

/// Neither the failure of one nor of the other says anything about what has happened.
BOOST_AUTO_TEST_CASE(a_commit_that_nobody_can_ask_about_removes_nothing) {
    for (bool has_happened : {true, false}) {
        each_kind([=](auto const& at, watcher& w, support::thrown what) {
            std::atomic<int> removing{0};
            auto const fails = [=](call c, int) {
                if (c == call::finish) support::throw_it(what, "finish");
            };
            if (has_happened) w.after = fails;
            w.before = [&, what](call c, int) {
                if (c == call::finish && !has_happened) support::throw_it(what, "finish");
                if (c == call::committed) support::throw_it(what, "committed");
                if (c == call::abandon || c == call::sweep) ++removing;
            };
            auto const e = save(at, 2, w);
            for (auto const& t : e.all)
                BOOST_TEST(t.is(cairn::errc::outcome_unknown), support::words(e.all));
            BOOST_TEST(removing == 0);
            BOOST_TEST(standing(at) == (has_happened ? 2.0f : 1.0f));
        });
    }
}

BOOST_AUTO_TEST_CASE(a_sweep_that_fails_is_a_warning) {
    for (bool afterwards : {false, true}) {
        each_kind([=](auto const& at, watcher& w, support::thrown what) {
            (afterwards ? w.after : w.before) = [=](call c, int) {
                if (c == call::sweep) support::throw_it(what, "sweep");
            };
            auto const e = save(at, 2, w);
            for (auto const& t : e.all) BOOST_TEST(t.ok(), support::words(e.all));
            BOOST_TEST(standing(at) == 2.0f);
            BOOST_TEST(mentions(e.warnings, "files that are no longer needed may be left"));
        });
    }
}

BOOST_AUTO_TEST_CASE(the_sweep_removes_what_was_replaced_after_the_verdict) {
    auto const at = std::make_shared<arch::shelf>();
    watcher w;
    BOOST_REQUIRE(save(at, 1, w).all[0].ok());
    std::atomic<int> sweeps{0};
    w.before = [&](call c, int rank) {
        if (c != call::sweep) return;
        BOOST_TEST(rank == 0);
        BOOST_TEST(at->names("c").size() == 2u * ranks);
        ++sweeps;
    };
    for (auto const& t : save(at, 2, w).all) BOOST_TEST(t.ok());
    BOOST_TEST(sweeps == 1);
    BOOST_TEST(standing(at) == 2.0f);
    BOOST_TEST(at->names("c").size() == std::size_t{ranks});
}

/// What could not be removed after a failure does not hide the failure.
BOOST_AUTO_TEST_CASE(a_sweep_that_fails_after_a_failure_changes_nothing) {
    each_kind([](auto const& at, watcher& w, support::thrown what) {
        w.before = [=](call c, int rank) {
            if (c == call::write && rank == 1) support::throw_it(what, "write");
            if (c == call::sweep) support::throw_it(what, "sweep");
        };
        auto const e = save(at, 2, w);
        for (auto const& t : e.all) {
            BOOST_REQUIRE(t.e);
            BOOST_TEST(t.e->failures().size() == 1u);
            BOOST_TEST(t.e->context().rank == 1);
        }
        BOOST_TEST(standing(at) == 1.0f);
    });
}

namespace {

/// Says nothing of its last item.
struct forgetful_writer : arch::storage_writer {
    using arch::storage_writer::storage_writer;
    void write_data(arch::const_lvalue<cairn::save_plan> plan,
                    arch::const_lvalue<std::span<const cairn::item_data>> data,
                    cairn::completion<cairn::write_results>&& done) {
        using results = cairn::write_results;
        auto const to = std::make_shared<cairn::completion<results>>(std::move(done));
        arch::storage_writer::write_data(
            plan, data,
            cairn::completion<results>([to](std::exception_ptr e, std::optional<results> r) {
                if (e) return to->fail(std::move(e));
                r->items.pop_back();
                (*to)(std::move(*r));
            }));
    }
};
static_assert(cairn::StorageWriter<forgetful_writer>);

}  // namespace

BOOST_AUTO_TEST_CASE(what_no_writer_says_it_has_written_is_not_committed) {
    auto const at = std::make_shared<arch::shelf>();
    watcher w;
    BOOST_REQUIRE(save(at, 1, w).all[0].ok());
    for (bool const tensor : {true, false}) {
        auto const all = support::on_ranks_that_stay(ranks, [&](auto& me, int rank) {
            std::vector<float> rows(2, 2);
            cairn::state_dict sd;
            if (tensor || rank != 1)
                sd["w" + std::to_string(rank)] =
                    cairn::tensor_view(cairn::dtype::f32, {2}, rows.data());
            else
                sd["step"] = 7;
            cairn::save_options o;
            o.exchange_timeout = hang;
            forgetful_writer forgetful(at);
            arch::storage_writer writer(at);
            if (rank == 1)
                cairn::save(sd, "c", o, me, forgetful);
            else
                cairn::save(sd, "c", o, me, writer);
        });
        for (auto const& t : all) {
            BOOST_REQUIRE(t.e);
            BOOST_TEST(t.is(cairn::errc::invalid_plan), support::words(all));
            auto const* const name = tensor ? "'w1'" : "'step'";
            BOOST_TEST(std::string(t.e->what()).find(name) != std::string::npos, t.e->what());
        }
        BOOST_TEST(standing(at) == 1.0f);
    }
}

BOOST_AUTO_TEST_SUITE_END()
