// SPDX-License-Identifier: Apache-2.0
// What async_save promises: two completions, lanes, cancellation, no error lost.
#include "support/dying_store.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/comm/thread_group.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(background)

namespace asio = boost::asio;

namespace {

/// Where the ranks stand in the middle of a write until they are let go on.
struct gate {
    std::mutex m{};
    std::condition_variable changed{};
    int waiting = 0;
    bool open = false;

    void pass() {
        std::unique_lock lock(m);
        ++waiting;
        changed.notify_all();
        changed.wait_for(lock, std::chrono::seconds(60), [&] { return open; });
    }
    bool wait_for(int n) {
        std::unique_lock lock(m);
        return changed.wait_for(lock, std::chrono::seconds(60), [&] { return waiting >= n; });
    }
    void let_go() {
        std::lock_guard const lock(m);
        open = true;
        changed.notify_all();
    }
};

/// A store whose writes stand at a gate, once for each file.
template <class Store>
class gated_store {
public:
    gated_store(Store s, std::shared_ptr<gate> g)
        : store_(std::move(s)), gate_(std::move(g)) {}
    gated_store at(const std::string& id) const { return {store_.at(id), gate_}; }
    auto create(std::string_view n, std::uint64_t size) {
        auto h = store_.create(n, size);
        gate_->pass();
        return h;
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        store_.publish(n, b, std::move(m));
    }
    auto open(std::string_view n) { return store_.open(n); }
    cairn::object_tag tag(std::string_view n) { return store_.tag(n); }
    std::vector<cairn::object_info> list() { return store_.list(); }
    void remove(std::string_view n) { store_.remove(n); }
    void sync() { store_.sync(); }
    std::string describe(std::string_view n) { return store_.describe(n); }

private:
    Store store_;
    std::shared_ptr<gate> gate_;
};

struct ranks_of_three {
    cairn::thread_group group{3};
    std::vector<cairn::thread_group::member> members{};
    std::vector<std::vector<float>> rows{};
    std::vector<cairn::state_dict> dicts{};

    explicit ranks_of_three(float v) : rows(3, std::vector<float>(2, v)) {
        for (int r = 0; r < 3; ++r) {
            members.push_back(group.rank(r));
            dicts.push_back(
                {{"w", cairn::shard_by_mesh(
                           cairn::tensor_view(cairn::dtype::f32, {1, 2},
                                              rows[static_cast<std::size_t>(r)].data()),
                           {3, 2}, cairn::device_mesh::line(3), {cairn::shard_along{0}}, r)}});
        }
    }
    /// All ranks save: their handles, once everything is staged.
    template <class Store>
    std::vector<cairn::pending_save> save(Store store) {
        std::vector<std::future<cairn::pending_save>> staged;
        for (std::size_t r = 0; r < 3; ++r)
            staged.push_back(
                cairn::async_save(dicts[r], "c", members[r], Store(store), asio::use_future));
        std::vector<cairn::pending_save> all;
        for (auto& s : staged) all.push_back(s.get());
        return all;
    }
};

std::string code_of(const std::exception_ptr& e) {
    if (!e) return "none";
    try {
        std::rethrow_exception(e);
    } catch (const cairn::error& x) {
        return x.code().message();
    } catch (...) {
        return "another type";
    }
}

std::string outcome_of(cairn::pending_save& p) {
    try {
        (void)p.wait();
        return "none";
    } catch (...) {
        return code_of(std::current_exception());
    }
}

std::string const cancelled = cairn::make_error_code(cairn::errc::cancelled).message();

float first_of(cairn::memory_store& base) {
    auto const w = support::load_whole(base, "c");
    float first = 0;
    std::memcpy(&first, w.tensors.at("w").bytes.data(), sizeof first);
    return first;
}

}  // namespace

/// The handler runs where nobody catches what it throws. First in this file: Asio's own threads do
/// not survive a fork.
BOOST_AUTO_TEST_CASE(a_handler_that_throws_does_not_end_the_program) {
    auto const how = support::in_process([] {
        (void)!::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
        cairn::memory_store store;
        cairn::state_dict sd{{"a", 1}, {"a.b", cairn::state_dict{{"c", 1}}}};
        std::vector<float> w(2);
        sd["w"] = w;
        cairn::save_options o;
        o.storage.payload_alignment = 1;  // refused
        std::promise<void> called;
        cairn::async_save(sd, "c", o, store,
                          [&](std::exception_ptr e, const cairn::pending_save&) {
                              called.set_value();
                              if (e) std::rethrow_exception(e);
                          });
        called.get_future().wait_for(std::chrono::seconds(30));
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // would it have ended by then
    });
    BOOST_TEST((how == support::ended::well));
}

/// `exit` while files are written: the process waits, and the checkpoint is complete.
BOOST_AUTO_TEST_CASE(exit_waits_for_a_save) {
    support::scratch const at;
    auto const how = support::in_process([&] {
        std::vector<float> w(1 << 20, 7.0f);
        cairn::state_dict sd{{"w", w}};
        auto slow = std::make_shared<gate>();
        auto* p = new cairn::pending_save(  // never destroyed
            cairn::async_save(sd, "c", gated_store(cairn::file_store(at.dir), slow),
                              asio::use_future)
                .get());
        (void)p;
        std::thread([slow] {
            slow->wait_for(1);
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            slow->let_go();
        }).detach();
        std::exit(0);
    });
    BOOST_TEST((how == support::ended::well));
    std::vector<float> w(1 << 20);
    cairn::state_dict sd{{"w", w}};
    (void)cairn::load(sd, "c", cairn::file_store(at.dir));
    BOOST_TEST(w.back() == 7.0f);
}

/// Staged means that tensors may change: what is saved is what they were before.
BOOST_AUTO_TEST_CASE(tensors_may_change_once_staged) {
    cairn::memory_store base;
    auto const g = std::make_shared<gate>();
    ranks_of_three now(2);
    auto saves = now.save(gated_store(base, g));
    BOOST_REQUIRE(g->wait_for(3));  // nothing is written yet
    for (auto const& p : saves) BOOST_TEST(!p.ready());
    for (auto& r : now.rows) std::fill(r.begin(), r.end(), 99.0f);
    now.dicts.clear();  // nor is the state needed any more
    now.rows.clear();
    g->let_go();
    for (auto& p : saves) BOOST_TEST(outcome_of(p) == "none");
    for (auto const& p : saves) BOOST_TEST(!p);
    BOOST_TEST(first_of(base) == 2.0f);
}

/// Tied tensors are one copy and one item; views that are not dense, or not row-major, keep their
/// content.
BOOST_AUTO_TEST_CASE(what_is_staged_is_what_a_blocking_save_writes) {
    std::vector<float> block(64);
    std::iota(block.begin(), block.end(), 1.0f);
    float scalar = 3;
    std::vector<float> none;
    cairn::state_dict sd{
        {"tied", cairn::tensor_view(cairn::dtype::f32, {8, 8}, block.data())},
        {"to", cairn::tensor_view(cairn::dtype::f32, {8, 8}, block.data())},
        {"transposed", cairn::tensor_view(cairn::dtype::f32, {8, 8}, {1, 8}, block.data())},
        {"gaps", cairn::tensor_view(cairn::dtype::f32, {4, 3}, {16, 2}, block.data())},
        {"reversed", cairn::tensor_view(cairn::dtype::f32, {64}, {-1}, block.data() + 63)},
        {"repeated", cairn::tensor_view(cairn::dtype::f32, {5, 8}, {0, 1}, block.data())},
        {"scalar", cairn::tensor_view(cairn::dtype::f32, cairn::index_vector{}, &scalar)},
        {"empty", none},
        {"step", 7}};
    cairn::memory_store store;
    (void)cairn::save(sd, "a", store);
    auto pending = cairn::async_save(sd, "b", store, asio::use_future).get();
    std::fill(block.begin(), block.end(), 0.0f);
    (void)pending.wait();
    auto const a = support::load_whole(store, "a"), b = support::load_whole(store, "b");
    BOOST_TEST(a.tensors.size() == 8u);
    for (auto const& [fqn, t] : a.tensors) {
        BOOST_TEST((b.tensors.at(fqn).bytes == t.bytes), fqn);
        BOOST_TEST((b.tensors.at(fqn).shape == t.shape), fqn);
    }
    auto const size_of_all = [&](const char* id) {
        std::uint64_t n = 0;
        for (auto const& o : store.at(id).list())
            if (o.name.find("distcp") != o.name.npos) n += o.size;
        return n;
    };
    BOOST_TEST(size_of_all("a") == size_of_all("b"));
}

/// The communicator is free again once the save is staged; saves that overlap do not mix.
BOOST_AUTO_TEST_CASE(saves_have_lanes_of_their_own) {
    cairn::memory_store base;
    auto const g = std::make_shared<gate>();
    ranks_of_three first(1), second(2);
    auto slow = first.save(gated_store(base, g));
    BOOST_REQUIRE(g->wait_for(3));
    std::vector<std::future<void>> others;  // over the very same group
    for (std::size_t r = 0; r < 3; ++r)
        others.push_back(std::async(std::launch::async, [&, r] {
            (void)cairn::save(second.dicts[r], "other", first.members[r], base);
            auto p = cairn::async_save(second.dicts[r], "third", first.members[r], base,
                                       asio::use_future)
                         .get();
            (void)p.wait();
        }));
    for (auto& o : others) o.get();
    for (auto const& p : slow) BOOST_TEST(!p.ready());
    g->let_go();
    for (auto& p : slow) BOOST_TEST(outcome_of(p) == "none");
    BOOST_TEST(first_of(base) == 1.0f);
}

/// Cancelling while files are written: all ranks are told the same, the old checkpoint stays, no
/// file is left, and the group remains usable.
BOOST_AUTO_TEST_CASE(cancelling_while_ranks_write_is_cancelled_on_all) {
    for (std::size_t by : {0u, 1u, 2u}) {
        cairn::memory_store base;
        ranks_of_three old(1), now(2);
        for (auto& p : old.save(base)) BOOST_TEST(outcome_of(p) == "none");
        auto const g = std::make_shared<gate>();
        auto saves = now.save(gated_store(base, g));
        BOOST_REQUIRE(g->wait_for(3));
        saves[by].cancel();
        g->let_go();
        for (auto& p : saves) BOOST_TEST(outcome_of(p) == cancelled);
        BOOST_TEST(base.at("c").list().size() == 4u);  // the old checkpoint, and no file more
        BOOST_TEST(first_of(base) == 1.0f);
        for (auto& p : now.save(base)) BOOST_TEST(outcome_of(p) == "none");
        BOOST_TEST(first_of(base) == 2.0f);
        BOOST_TEST(base.at("c").list().size() == 4u);
    }
}

/// What is cancelled before it is staged is told to the ranks that come late.
BOOST_AUTO_TEST_CASE(cancelling_before_all_ranks_have_come) {
    cairn::memory_store base;
    ranks_of_three now(2);
    asio::io_context io;
    asio::cancellation_signal signal;
    std::exception_ptr told;
    cairn::async_save(now.dicts[0], "c", now.members[0], base,
                      asio::bind_cancellation_slot(
                          signal.slot(),
                          asio::bind_executor(
                              io, [&](std::exception_ptr e, const cairn::pending_save& p) {
                                  told = std::move(e);
                                  BOOST_TEST(!p);
                              })));
    asio::post(io, [&] { signal.emit(asio::cancellation_type::terminal); });
    io.run();  // at once, although the others have not come
    BOOST_TEST(code_of(told) == cancelled);
    now.dicts[0] = cairn::state_dict();
    now.rows[0].clear();  // nothing of the state is used any more
    std::vector<std::future<cairn::pending_save>> late;
    for (std::size_t r : {1u, 2u})
        late.push_back(
            cairn::async_save(now.dicts[r], "c", now.members[r], base, asio::use_future));
    for (auto& l : late) {
        try {
            (void)l.get();
            BOOST_ERROR("saved");
        } catch (...) {
            BOOST_TEST(code_of(std::current_exception()) == cancelled);
        }
    }
    BOOST_TEST(base.at("c").list().empty());
    ranks_of_three again(3);
    again.members = std::move(now.members);  // the same group
    for (auto& p : again.save(base)) BOOST_TEST(outcome_of(p) == "none");
}

/// Emitting and completing on one strand: nothing else may touch the slot.
BOOST_AUTO_TEST_CASE(a_slot_is_touched_only_where_the_handler_runs) {
    std::vector<float> w(256, 1.0f);
    cairn::state_dict sd{{"w", w}};
    cairn::memory_store store;
    asio::io_context io(1);
    for (int i = 0; i < 50; ++i) {
        asio::cancellation_signal signal;
        bool done = false;
        cairn::async_save(
            sd, "c", store,
            asio::bind_cancellation_slot(
                signal.slot(),
                asio::bind_executor(io, [&](std::exception_ptr, cairn::pending_save p) {
                    done = true;
                    if (p) p.cancel();
                })));
        while (!done) {
            asio::post(io, [&] {
                if (!done) signal.emit(asio::cancellation_type::total);
            });
            io.restart();
            io.run_one();
        }
        io.restart();
        io.poll();
    }
}

BOOST_AUTO_TEST_CASE(a_wait_can_be_cancelled_and_repeated) {
    cairn::memory_store base;
    auto const g = std::make_shared<gate>();
    std::vector<float> w(4, 1.0f);
    cairn::state_dict sd{{"w", w}};
    auto pending = cairn::async_save(sd, "c", gated_store(base, g), asio::use_future).get();
    BOOST_REQUIRE(g->wait_for(1));
    asio::io_context io;
    asio::cancellation_signal signal;
    int waits = 0;
    auto const wait = [&](auto f) {
        pending.async_wait(asio::bind_cancellation_slot(
            signal.slot(), asio::bind_executor(io, [&, f](std::exception_ptr e,
                                                          const cairn::save_report& r) {
                ++waits;
                f(e, r);
            })));
    };
    wait([](const std::exception_ptr& e, const cairn::save_report&) {
        try {
            std::rethrow_exception(e);
        } catch (const boost::system::system_error& x) {
            BOOST_TEST((x.code() == asio::error::operation_aborted));
        }
    });
    // One wait at a time.
    wait([](const std::exception_ptr& e, const cairn::save_report&) {
        BOOST_TEST(code_of(e) == make_error_code(cairn::errc::invalid_argument).message());
    });
    signal.emit(asio::cancellation_type::total);
    io.run();
    BOOST_TEST(waits == 2);
    BOOST_TEST(!pending.ready());
    wait([](const std::exception_ptr& e, const cairn::save_report& r) {
        BOOST_TEST(!e);
        BOOST_TEST(r.bytes_written > 0u);
    });
    g->let_go();
    io.restart();
    io.run();
    BOOST_TEST(waits == 3);
}

/// Without its handle a save goes on; its error goes where it is looked for.
BOOST_AUTO_TEST_CASE(a_dropped_handle_loses_neither_the_save_nor_its_error) {
    cairn::memory_store base;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    {
        auto const g = std::make_shared<gate>();
        (void)cairn::async_save(sd, "c", gated_store(base, g), asio::use_future).get();
        g->let_go();
        auto const by = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (base.at("c").tag(".metadata").text.empty() &&
               std::chrono::steady_clock::now() < by)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        BOOST_TEST(first_of(base) == 5.0f);
    }
    std::promise<std::string> unclaimed;
    cairn::save_options o;
    o.on_unclaimed_error = [&](const std::exception_ptr& e) { unclaimed.set_value(code_of(e)); };
    auto const g = std::make_shared<gate>();
    auto pending = cairn::async_save(sd, "d", o, gated_store(base, g), asio::use_future).get();
    pending.cancel();
    pending = {};
    g->let_go();
    auto told = unclaimed.get_future();
    BOOST_REQUIRE((told.wait_for(std::chrono::seconds(30)) == std::future_status::ready));
    BOOST_TEST(told.get() == cancelled);
}

/// A part that is borrowed is not used once the handle is gone.
BOOST_AUTO_TEST_CASE(a_handle_that_borrows_waits) {
    cairn::memory_store base;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    auto const g = std::make_shared<gate>();
    cairn::torch_writer writer(gated_store(base, g));
    auto pending = cairn::async_save(sd, "c", writer, asio::use_future).get();
    BOOST_REQUIRE(g->wait_for(1));
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        g->let_go();
    });
    pending = {};
    BOOST_TEST(first_of(base) == 5.0f);
    later.join();
}

/// Many ranks, one thread: the user's own io_context carries all of them.
BOOST_AUTO_TEST_CASE(one_thread_serves_many_ranks) {
    constexpr int ranks = 64;
    cairn::memory_store store;
    cairn::thread_group group(ranks);
    asio::io_context io(1);
    std::vector<cairn::thread_group::member> members;
    std::vector<std::vector<float>> rows(ranks, std::vector<float>(2));
    std::vector<cairn::state_dict> dicts(ranks);
    int saved = 0, loaded = 0;
    for (int r = 0; r < ranks; ++r) {
        auto const at = static_cast<std::size_t>(r);
        members.push_back(group.rank(r));
        rows[at] = {float(r), float(-r)};
        dicts[at] = {{"w", cairn::shard_by_mesh(
                               cairn::tensor_view(cairn::dtype::f32, {1, 2}, rows[at].data()),
                               {ranks, 2}, cairn::device_mesh::line(ranks), {cairn::shard_along{0}},
                               r)}};
    }
    std::set<std::thread::id> threads;
    auto const load = [&](std::size_t r) {
        rows[r] = {0, 0};
        cairn::async_load(dicts[r], "c", members[r], store, io.get_executor(),
                          asio::bind_executor(io, [&, r](std::exception_ptr e,
                                                         const cairn::load_report&) {
                              BOOST_TEST(!e);
                              BOOST_TEST(rows[r][0] == float(r));
                              ++loaded;
                          }));
    };
    std::vector<cairn::pending_save> pending(ranks);
    for (std::size_t r = 0; r < ranks; ++r)
        cairn::async_save(
            dicts[r], "c", members[r], store, io.get_executor(),
            asio::bind_executor(io, [&, r](std::exception_ptr e, cairn::pending_save p) {
                BOOST_REQUIRE(!e);
                threads.insert(std::this_thread::get_id());
                pending[r] = std::move(p);
                pending[r].async_wait(asio::bind_executor(
                    io, [&](std::exception_ptr failed, const cairn::save_report&) {
                        BOOST_TEST(!failed);
                        if (++saved == ranks)
                            for (std::size_t k = 0; k < ranks; ++k) load(k);
                    }));
            }));
    io.run();
    BOOST_TEST(saved == ranks);
    BOOST_TEST(loaded == ranks);
    BOOST_TEST(threads.size() == 1u);
}

/// An executor whose context ends early: an error, no crash, and the other ranks do not wait.
BOOST_AUTO_TEST_CASE(a_context_that_ends_early_is_an_error) {
    cairn::memory_store base;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    std::promise<std::string> told;
    std::string staged;
    {
        asio::io_context io(1);
        cairn::async_save(sd, "c", base, io.get_executor(),
                          [&](std::exception_ptr e, const cairn::pending_save&) {
                              told.set_value(code_of(e));
                          });
        io.run_one();
    }
    auto f = told.get_future();
    BOOST_REQUIRE((f.wait_for(std::chrono::seconds(30)) == std::future_status::ready));
    BOOST_TEST(f.get() == make_error_code(cairn::errc::abandoned).message());
    BOOST_TEST(base.at("c").tag(".metadata").text.empty());
}

BOOST_AUTO_TEST_SUITE_END()
