// SPDX-License-Identifier: Apache-2.0
// What async_save promises and does not keep yet: its launcher and save_job are to be replaced by
// one asynchronous core, and these tests then lose their expected failures.
#include "support/dying_store.hpp"
#include "support/whole.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(background)

namespace asio = boost::asio;
namespace utf = boost::unit_test;

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
class gated_store {
public:
    gated_store(cairn::memory_store s, std::shared_ptr<gate> g)
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
    cairn::memory_store store_;
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
    /// All ranks save; each one's future, and a slot to cancel it by.
    template <class Store>
    std::vector<std::future<std::exception_ptr>> save(
        Store store, std::vector<asio::cancellation_signal>& signals) {
        std::vector<std::future<std::exception_ptr>> all;
        for (std::size_t r = 0; r < 3; ++r) {
            auto ended = std::make_shared<std::promise<std::exception_ptr>>();
            all.push_back(ended->get_future());
            cairn::async_save(
                dicts[r], "c", members[r], Store(store),
                asio::bind_cancellation_slot(
                    signals[r].slot(), [ended](std::exception_ptr e, const cairn::save_report&) {
                        ended->set_value(std::move(e));
                    }));
        }
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

/// Cancels rank `by` while all ranks write.
/// @return What each rank was told.
std::vector<std::string> cancel_while_writing(cairn::memory_store base, std::size_t by) {
    std::vector<asio::cancellation_signal> signals(3);
    ranks_of_three old(1), now(2);
    for (auto& f : old.save(base, signals)) BOOST_TEST(code_of(f.get()) == "none");
    auto const g = std::make_shared<gate>();
    auto futures = now.save(gated_store(base, g), signals);
    BOOST_REQUIRE(g->wait_for(3));
    signals[by].emit(asio::cancellation_type::terminal);
    g->let_go();
    std::vector<std::string> told;
    for (auto& f : futures) told.push_back(code_of(f.get()));
    return told;
}

}  // namespace

/// The handler runs where nobody catches what it throws. First in this file: Asio's own threads do
/// not survive a fork.
BOOST_AUTO_TEST_CASE(a_handler_that_throws_does_not_end_the_program, *utf::expected_failures(1)) {
    auto const how = support::in_process([] {
        (void)!::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
        cairn::memory_store store;
        cairn::state_dict sd{{"a", 1}, {"a.b", cairn::state_dict{{"c", 1}}}};
        std::vector<float> w(2);
        sd["w"] = w;
        cairn::save_options o;
        o.storage.payload_alignment = 1;  // refused
        std::promise<void> called;
        cairn::async_save(sd, "c", o, store, [&](std::exception_ptr e, const cairn::save_report&) {
            called.set_value();
            if (e) std::rethrow_exception(e);
        });
        called.get_future().wait_for(std::chrono::seconds(30));
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // would it have ended by then
    });
    BOOST_TEST((how == support::ended::well));
}

/// What is kept today: no rank succeeds, and what stood there stands.
BOOST_AUTO_TEST_CASE(cancelling_while_ranks_write_keeps_the_old_checkpoint) {
    for (std::size_t by : {0u, 1u}) {
        cairn::memory_store base;
        for (auto const& t : cancel_while_writing(base, by)) BOOST_TEST(t != "none");
        auto const w = support::load_whole(base, "c");
        float first = 0;
        std::memcpy(&first, w.tensors.at("w").bytes.data(), sizeof first);
        BOOST_TEST(first == 1.0f);
        std::vector<asio::cancellation_signal> signals(3);
        ranks_of_three again(3);
        for (auto& f : again.save(base, signals)) BOOST_TEST(code_of(f.get()) == "none");
        BOOST_TEST(base.at("c").list().size() == 4u);
    }
}

/// A rank that has sent its results cannot know yet that the save was cancelled: cancellation has
/// to travel as a result does.
BOOST_AUTO_TEST_CASE(cancelling_while_ranks_write_is_cancelled_on_all, *utf::expected_failures(8)) {
    auto const cancelled = cairn::make_error_code(cairn::errc::cancelled).message();
    for (std::size_t by : {0u, 1u}) {
        cairn::memory_store base;
        for (auto const& t : cancel_while_writing(base, by)) BOOST_TEST(t == cancelled);
        BOOST_TEST(base.at("c").list().size() == 4u);  // the old checkpoint, and no file more
    }
}

BOOST_AUTO_TEST_SUITE_END()
