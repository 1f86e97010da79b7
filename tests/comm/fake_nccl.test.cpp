// SPDX-License-Identifier: Apache-2.0
// The fake of CUDA and NCCL itself: it hangs, fails and tells where they would.
#include "support/fake_nccl.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(fake_of_nccl)

using support::fake_nccl;
using support::fake_world;
using state = cairn::nccl_status::state;

namespace {

/// One rank by hand, on the calling thread.
struct rank {
    explicit rank(fake_world& w, int r) : comm(w.comm(r)) {
        here();
        fake_nccl::create(stream);
        fake_nccl::create(event);
        fake_nccl::allocate_device(device, 4096);
        fake_nccl::allocate_pinned(host, 4096);
    }
    rank& here() {
        fake_nccl::set_device(comm->device);
        return *this;
    }
    /// Until the stream has done what it was asked so far.
    void wait() {
        fake_nccl::record(event, stream);
        while (fake_nccl::query(event).is != state::ok) std::this_thread::yield();
    }
    bool waits() { return fake_nccl::record(event, stream).is == state::ok && still_waits(); }
    bool still_waits() { return fake_nccl::query(event).is == state::running; }
    cairn::nccl_status failure() {
        for (;;) {
            auto s = fake_nccl::async_error(comm);
            if (s.is != state::ok) return s;
            std::this_thread::yield();
        }
    }
    cairn::nccl_status broadcast(std::size_t n, int root = 0) {
        return here(), fake_nccl::broadcast(device, n, root, comm, stream);
    }
    cairn::nccl_status all_gather(std::size_t n) {
        return here(), fake_nccl::all_gather(device + n * static_cast<std::size_t>(comm->rank),
                                             device, n, comm, stream);
    }

    fake_nccl::comm comm;
    fake_nccl::stream stream{};
    fake_nccl::event event{};
    fake_nccl::device_pointer device{};
    std::byte* host = nullptr;
};

bool told(fake_world& w, const std::string& what) {
    auto const rules = w.broken_rules();
    return std::any_of(rules.begin(), rules.end(),
                       [&](auto const& r) { return r.find(what) != std::string::npos; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_arrive_when_all_have_come) {
    fake_world w(2);
    rank zero(w, 0), one(w, 1);
    std::memset(zero.host, 7, 100);
    zero.here();
    fake_nccl::to_device(zero.device, zero.host, 100, zero.stream);
    zero.broadcast(100);
    BOOST_TEST(zero.waits());
    one.broadcast(100);
    fake_nccl::to_host(one.host, one.device, 100, one.stream);
    one.wait();
    BOOST_TEST(std::all_of(one.host, one.host + 100, [](auto b) { return b == std::byte{7}; }));
    BOOST_TEST(w.broken_rules().empty());
}

BOOST_AUTO_TEST_CASE(different_collectives_are_an_error_later_and_a_hang) {
    using call = std::function<cairn::nccl_status(rank&)>;
    call const four = [](rank& r) { return r.broadcast(4); };
    for (call const& other : {call([](rank& r) { return r.broadcast(5); }),
                              call([](rank& r) { return r.broadcast(4, 1); }),
                              call([](rank& r) { return r.all_gather(4); })}) {
        fake_world w(2);
        rank zero(w, 0), one(w, 1);
        BOOST_TEST((four(zero).is == state::ok && other(one).is == state::ok));
        BOOST_TEST((zero.failure().is == state::failed && one.failure().is == state::failed));
        BOOST_TEST(told(w, "different collectives"));
        BOOST_TEST((zero.here().waits() && one.here().waits()));
        fake_nccl::abort(zero.comm);
        zero.here().wait();
        BOOST_TEST(one.here().still_waits());
    }
}

BOOST_AUTO_TEST_CASE(operations_of_a_communicator_run_in_the_order_of_their_launches) {
    fake_world w(2);
    rank zero(w, 0), one(w, 1);
    // The second stream waits for the first: its operation was launched later.
    fake_nccl::stream second{};
    zero.here();
    fake_nccl::create(second);
    fake_nccl::event reached{};
    fake_nccl::create(reached);
    zero.broadcast(4);
    zero.here();
    fake_nccl::broadcast(zero.device, 8, 0, zero.comm, second);
    fake_nccl::record(reached, second);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    BOOST_TEST((fake_nccl::query(reached).is == state::running));
    one.broadcast(4);
    one.broadcast(8);
    one.wait();
    zero.here().wait();
    while (fake_nccl::query(reached).is != state::ok) std::this_thread::yield();
    BOOST_TEST(w.broken_rules().empty());
}

BOOST_AUTO_TEST_CASE(memory_has_its_place) {
    fake_world w(2);
    rank zero(w, 0), one(w, 1);
    std::vector<std::byte> pageable(16);
    zero.here();
    fake_nccl::to_device(zero.device, pageable.data(), 16, zero.stream);
    fake_nccl::to_device(one.device, zero.host, 16, zero.stream);
    fake_nccl::to_device(zero.device + 4090, zero.host, 16, zero.stream);
    zero.wait();
    BOOST_TEST(told(w, "not pinned"));
    BOOST_TEST(w.broken_rules().size() == 3u);
    // Another thread's device.
    one.here();
    fake_nccl::broadcast(zero.device, 4, 0, zero.comm, zero.stream);
    BOOST_TEST(told(w, "another device"));
}

BOOST_AUTO_TEST_CASE(handles_end_with_an_abort) {
    fake_world w(1);
    rank zero(w, 0);
    fake_nccl::abort(zero.comm);
    BOOST_TEST((zero.broadcast(4).is == state::failed));
    BOOST_TEST(told(w, "a launch on an aborted communicator"));
    fake_nccl::abort(zero.comm);
    BOOST_TEST(told(w, "an abort of an aborted"));
}

BOOST_AUTO_TEST_CASE(a_launch_that_does_not_block_is_made_later) {
    fake_world w(1, {.blocking = false});
    rank zero(w, 0);
    BOOST_TEST((zero.broadcast(4).is == state::running));
    BOOST_TEST((zero.broadcast(4).is == state::failed));
    BOOST_TEST(told(w, "has not been made yet"));
    while (fake_nccl::async_error(zero.comm).is == state::running) {
    }
    BOOST_TEST((zero.broadcast(4).is == state::running));
}

BOOST_AUTO_TEST_SUITE_END()
