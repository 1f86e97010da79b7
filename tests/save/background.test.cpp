// SPDX-License-Identifier: Apache-2.0
// What async_save promises: two completions, lanes, one thread for many ranks.
#include "background_ranks.hpp"
#include "support/dying_store.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/load.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(background)

using namespace background_ranks;

/// The handler runs where nobody catches what it throws.
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
        cairn::async_save(sd, "c", o, store, [&](std::exception_ptr e, const cairn::pending_save&) {
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
        dicts[at] = {
            {"w", cairn::shard_by_mesh(
                      cairn::tensor_view(cairn::dtype::f32, {1, 2}, rows[at].data()), {ranks, 2},
                      cairn::device_mesh::line(ranks), {cairn::shard_along{0}}, r)}};
    }
    std::set<std::thread::id> threads;
    auto const load = [&](std::size_t r) {
        rows[r] = {0, 0};
        cairn::async_load(
            dicts[r], "c", members[r], store, io.get_executor(),
            asio::bind_executor(io, [&, r](std::exception_ptr e, const cairn::load_report&) {
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

/// The second save copies to the memory of the first, whose pages are present.
BOOST_AUTO_TEST_CASE(an_arena_keeps_the_memory_of_copies) {
    std::vector<float> w(1 << 18, 1.0f), tail(1000, 2.0f);
    cairn::state_dict sd{{"w", w}, {"tail", tail}};
    cairn::memory_store store;
    cairn::staging_arena arena;
    auto const save = [&](const char* id) {
        (void)cairn::async_save(sd, id, store, arena, asio::use_future).get().wait();
        return arena.stats();
    };
    auto const first = save("a");
    BOOST_TEST(first.bytes_mapped >= sizeof(float) << 18);
    BOOST_TEST(first.bytes_in_use == 0u);
    w.assign(w.size(), 3.0f);
    auto const second = save("b");
    BOOST_TEST(second.bytes_mapped == first.bytes_mapped);
    BOOST_TEST(second.page_faults == first.page_faults);
    BOOST_TEST(second.peak_in_use == first.peak_in_use);
    auto const a = support::load_whole(store, "a"), b = support::load_whole(store, "b");
    BOOST_TEST((a.tensors.at("tail").bytes == b.tensors.at("tail").bytes));
    w.assign(w.size(), 0.0f);
    (void)cairn::load(sd, "b", store);
    BOOST_TEST(w.back() == 3.0f);
}

BOOST_AUTO_TEST_CASE(a_relative_id_is_that_of_the_directory_in_which_the_call_was_made) {
    namespace fs = std::filesystem;
    support::scratch const first, second;
    auto const before = fs::current_path();
    std::vector<float> w(1 << 18, 7.0f), back(1 << 18);
    cairn::state_dict sd{{"w", w}}, target{{"w", back}};
    fs::current_path(first.dir);
    auto saving = cairn::async_save(sd, "c", cairn::solo(), asio::use_future);
    fs::current_path(second.dir);
    (void)saving.get().wait();
    fs::current_path(first.dir);
    auto loading = cairn::async_load(target, "c", cairn::solo(), asio::use_future);
    fs::current_path(second.dir);
    BOOST_CHECK_NO_THROW((void)loading.get());
    fs::current_path(before);
    BOOST_TEST(fs::exists(first.dir / "c" / ".metadata"));
    BOOST_TEST(fs::is_empty(second.dir));
    BOOST_TEST((back == w));
}

BOOST_AUTO_TEST_SUITE_END()
