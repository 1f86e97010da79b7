// SPDX-License-Identifier: Apache-2.0
// Replicas on devices: how many copies are enqueued at once, and how long they are waited for.
#include "support/fake_gpu/checks.hpp"
#include "support/fake_gpu/tensors.hpp"

#include <cairn/activity.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/memory/any_memory_space.hpp>
#include <cairn/memory/host.hpp>
#include <cairn/save/detail/replica_hash.hpp>
#include <cairn/save/detail/replica_hashes.hpp>
#include <cairn/save/detail/staging.hpp>
#include <cairn/verb/detail/state_devices.hpp>
#include <cairn/verb/detail/surroundings.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(device_replicas)

namespace {

using cairn::any_memory_space;
using cairn::box;
using cairn::detail::hash_replica;
using cairn::detail::replica_hashes;
using cairn::detail::replica_sample;
using cairn::detail::state_devices;
using support::device_tensor;
using support::fake_cuda_memory;
using support::fake_gpu;

/// Whole tensors that two ranks hold, and the plan of one of them.
struct replicas {
    cairn::flat_state state{};
    cairn::save_plan local{};
    std::vector<cairn::detail::held_replica> held{};

    /// @param whole  Whether all of it is hashed.
    void add(const std::string& fqn, const cairn::tensor_view& v, bool whole) {
        auto const number = static_cast<std::uint32_t>(state.size());
        cairn::tensor_leaf t;
        t.type = v.type;
        t.global_shape = v.shape;
        t.shards.emplace_back(box::whole(v.shape), v);
        state.emplace_back();
        state.back().fqn = fqn;
        state.back().what = std::move(t);
        cairn::write_item i;
        i.fqn = fqn;
        i.kind = cairn::item_kind::shard;
        i.type = v.type;
        i.global_shape = v.shape;
        i.region = box::whole(v.shape);
        i.leaf = number;
        local.items.push_back(std::move(i));
        held.push_back({number, 2, whole});
    }
    void begin(replica_hashes& hashes, state_devices& devices, cairn::activity& progress) {
        hashes.begin(held, local, state, "id", devices, progress);
    }
};

std::vector<std::uint64_t> hashes_in(replica_hashes& hashes) {
    auto const told = hashes.take();
    cairn::detail::wire_reader r(told);
    std::vector<std::uint64_t> all(r.count(8));
    for (auto& h : all) h = r.u64();
    return all;
}
/// The hash of what the last kernel has written, or will.
std::uint64_t hash_of(const device_tensor& t, const std::string& fqn, bool whole) {
    auto copy = t.memory;
    return hash_replica(t.on_host(copy),
                        whole ? replica_sample::all()
                              : replica_sample::some("id", fqn, box::whole(t.view.shape),
                                                     static_cast<std::uint64_t>(t.bytes()), 2));
}

/// The host's memory, as a device whose copies have completed when it was asked ten times.
struct slow_memory {
    static constexpr cairn::device_id device{cairn::own_memory_kind(3), 0};
    struct queue : cairn::host_memory::queue {
        explicit queue(std::shared_ptr<int> n) : asked(std::move(n)) {}
        bool reached(event&) { return ++*asked % 10 == 0; }
        std::shared_ptr<int> asked;
    };

    bool serves(cairn::device_id d) const { return d == device; }
    void pin(std::span<std::byte>, cairn::device_id) {}
    void unpin(std::span<std::byte>, cairn::device_id) noexcept {}
    queue open(cairn::device_id) { return queue(std::make_shared<int>(0)); }
};
static_assert(cairn::MemorySpace<slow_memory>);

}  // namespace

/// Training may go on once they are, with its stream ordered after them.
BOOST_AUTO_TEST_CASE(samples_of_several_tensors_are_enqueued_at_once) {
    fake_gpu gpu(3);
    {
        auto* const user = gpu.new_stream();
        device_tensor a(gpu, 0, {1000}), b(gpu, 0, {20, 30}), c(gpu, 0, {7});
        auto const late = a.produce(user, 1, true);
        b.produce(user, 2);
        c.produce(user, 3);
        replicas r;
        r.add("a", a.view, false);
        r.add("b", b.view, false);
        r.add("c", c.view, true);
        state_devices devices;
        devices.add(any_memory_space::own(fake_cuda_memory(user)), true);
        devices.fence(r.state);
        replica_hashes hashes;
        cairn::activity progress;
        r.begin(hashes, devices, progress);
        BOOST_TEST(!hashes.enqueued());
        BOOST_TEST(!hashes.advance());
        BOOST_TEST(hashes.enqueued());
        gpu.let_go(late);
        while (!hashes.advance()) {
        }
        BOOST_TEST(hashes.rounds() == 1u);
        auto const got = hashes_in(hashes);
        BOOST_TEST_REQUIRE(got.size() == 3u);
        BOOST_TEST(got[0] == hash_of(a, "a", false));
        BOOST_TEST(got[1] == hash_of(b, "b", false));
        BOOST_TEST(got[2] == hash_of(c, "c", true));
        hashes.release();
        gpu.synchronize();
    }
    support::check_clean(gpu);
}

/// A round is of one device, whose tensors need not be neighbours in the state.
BOOST_AUTO_TEST_CASE(a_device_takes_as_few_rounds_as_its_tensors_fill) {
    for (bool const gaps : {false, true}) {
        fake_gpu gpu({2, 4});
        {
            support::gpu::stream* const users[] = {gpu.new_stream(0, false),
                                                   gpu.new_stream(1, false)};
            // 3.6 MB: two rounds.
            cairn::index_vector const large{900, 1000}, strides{gaps ? 1100 : 1000, 1};
            device_tensor a(gpu, 0, {7}), b(gpu, 1, large, strides), c(gpu, 0, large, strides),
                d(gpu, 1, {7});
            float first = 0;
            replicas r;
            for (auto* const t : {&a, &b, &c, &d}) {
                t->produce(users[t->view.device.index], first += 1);
                r.add(std::to_string(first), t->view, true);
            }
            state_devices devices;
            devices.add(
                any_memory_space::own(fake_cuda_memory(
                    [&](const cairn::const_tensor_view& t) { return users[t.device.index]; })),
                true);
            devices.fence(r.state);
            replica_hashes hashes;
            cairn::activity progress;
            r.begin(hashes, devices, progress);
            while (!hashes.advance()) {
            }
            BOOST_TEST(hashes.rounds() == 4u);
            auto const got = hashes_in(hashes);
            BOOST_TEST_REQUIRE(got.size() == 4u);
            std::size_t k = 0;
            for (auto const* const t : {&a, &b, &c, &d})
                BOOST_TEST(got[k++] == hash_of(*t, "", true));
            hashes.release();
            gpu.synchronize();
        }
        support::check_clean(gpu);
    }
}

/// Twelve rounds of nine seconds each.
BOOST_AUTO_TEST_CASE(replicas_are_waited_for_as_long_as_their_copies_move) {
    std::vector<float> memory(std::size_t{6} << 20, 3);
    replicas r;
    r.add("w",
          {cairn::dtype::f32,
           {static_cast<std::int64_t>(memory.size())},
           memory.data(),
           slow_memory::device},
          true);
    state_devices devices;
    devices.add(any_memory_space::own(slow_memory()), true);
    devices.fence(r.state);
    cairn::activity progress;
    boost::asio::io_context io{1};
    auto now = std::chrono::steady_clock::now();
    cairn::detail::surroundings const in{io.get_executor(),
                                         [&] { return now += std::chrono::milliseconds(900); }};
    cairn::detail::staging staging(in, std::stop_token());
    r.begin(staging.hashes(), devices, progress);
    std::optional<std::exception_ptr> ended;
    staging.wait(nullptr, std::chrono::minutes(1), [&](std::exception_ptr e) { ended = e; });
    io.run();
    BOOST_REQUIRE(ended.has_value());
    BOOST_TEST((*ended == nullptr));
    BOOST_TEST(staging.hashes().rounds() == 12u);
    staging.release();
}

BOOST_AUTO_TEST_SUITE_END()
