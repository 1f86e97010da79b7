// SPDX-License-Identifier: Apache-2.0
// The data plane over NCCL with device memory, over a fake with NCCL's and CUDA's ordering rules.
#include "support/nccl_checks.hpp"
#include "support/nccl_ranks.hpp"

#include <cairn/testing/data_plane.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(nccl_devices)

using cairn::errc;
using cairn::nccl_plane_options;
using support::fake_plane;
using support::fake_world;
using support::run_nccl_ranks;
using support::try_nccl_ranks;
using namespace support::nccl_checks;
using namespace std::chrono_literals;

namespace {

/// This rank's device memory, with a byte before and after that nothing may touch.
class on_device {
public:
    static constexpr auto untouched = std::byte{0x5a};

    on_device(fake_world& world, int rank, std::vector<std::byte> content)
        : number_(world.comm(rank)->device), device_(*support::fake_devices::all().find(number_)),
          size_(content.size()), at_(device_.allocate(size_ + 2)) {
        content.insert(content.begin(), untouched);
        content.push_back(untouched);
        device_.with(at_, content.size(),
                     [&](auto* p) { std::memcpy(p, content.data(), content.size()); });
    }
    on_device(on_device&&) = delete;
    ~on_device() { device_.release(at_); }
    cairn::memory_span span(int number) const {
        return {
            reinterpret_cast<std::byte*>(at_.at + 1), size_, {cairn::memory_kind::cuda, number}};
    }
    cairn::memory_span span() const { return span(number_); }
    bool is(const std::vector<std::byte>& expected) const {
        bool same = false;
        device_.with(at_, size_ + 2, [&](auto* p) {
            same = p[0] == untouched && p[size_ + 1] == untouched &&
                   std::equal(expected.begin(), expected.end(), p + 1);
        });
        return same;
    }

private:
    int number_;
    support::fake_device& device_;
    std::size_t size_;
    support::device_address at_;
};
nccl_plane_options for_devices(std::size_t bytes = mib) {
    auto o = staging(bytes);
    o.abort_on_failure = true;
    return o;
}

}  // namespace

BOOST_AUTO_TEST_CASE(device_memory_is_sent_from_and_filled_in_place) {
    for (int n : {1, 2, 4}) {
        for (bool const blocking : {true, false}) {
            fake_world world(n, {.blocking = blocking});
            auto const o = for_devices(1);
            BOOST_CHECK_NO_THROW(run_nccl_ranks(world, n, o, [&](fake_plane& p) {
                cairn::device_id const here{cairn::memory_kind::cuda, world.comm(p.rank())->device};
                must(p.serves(here) && p.serves({}), "its own device is not served");
                must(!p.serves({here.kind, here.index + 1}), "another device is served");
                // All on devices; then the odd ranks, the even ones.
                for (int mix = 0; mix < 3; ++mix) {
                    for (int root = 0; root < n; ++root) {
                        for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, 30'001ul}) {
                            auto const sent = cairn::testing::detail::sample(root, mix, bytes);
                            std::vector<std::byte> m(bytes, std::byte{9});
                            if (p.rank() == root) m = sent;
                            bool const there = mix == 0 || (p.rank() + mix) % 2 == 0;
                            on_device d(world, p.rank(), m);
                            cairn::testing::detail::broadcast_and_wait(
                                p, there ? d.span() : cairn::memory_span(m), root);
                            must(there ? d.is(sent) : m == sent, "other bytes than root's");
                        }
                    }
                }
            }));
            check_clean(world);
        }
    }
}

/// What remains in the communicator could write to tensors that the program uses again.
BOOST_AUTO_TEST_CASE(without_the_right_to_abort_no_device_is_served) {
    fake_world world(2);
    auto const failures = try_nccl_ranks(world, 2, {}, [&](fake_plane& p) {
        on_device d(world, p.rank(), std::vector<std::byte>(100));
        must(!p.serves(d.span().device), "a device is served");
        cairn::testing::detail::broadcast_and_wait(p, d.span(), 0);
    });
    for (auto const& e : failures) {
        BOOST_TEST(is(error_of(e), errc::invalid_argument));
        BOOST_TEST(contains(error_of(e), "rank"), error_of(e).what());
    }
    check_clean(world);
    // Nor is another device.
    fake_world other(2);
    auto const refused = try_nccl_ranks(other, 2, for_devices(), [&](fake_plane& p) {
        on_device d(other, p.rank(), std::vector<std::byte>(100));
        cairn::testing::detail::broadcast_and_wait(
            p, p.rank() == 1 ? d.span(other.comm(0)->device) : d.span(), 0);
    });
    for (auto const& e : refused) BOOST_TEST(is(error_of(e), errc::invalid_argument));
    BOOST_TEST(contains(error_of(refused[1]), "memory of cuda:"), error_of(refused[1]).what());
    check_clean(other);
}

/// Device memory may be freed as soon as a broadcast has failed.
BOOST_AUTO_TEST_CASE(an_interrupted_broadcast_uses_no_device_memory_any_more) {
    for (int nth = 1; nth <= 8; ++nth) {
        for (bool const at_once : {true, false}) {
            fake_world world(2, {.remote_errors = true});
            world.inject(1, nth, at_once);
            auto const failures = try_nccl_ranks(world, 2, for_devices(8192), [&](fake_plane& p) {
                on_device d(world, p.rank(), std::vector<std::byte>(20'000));
                cairn::testing::detail::broadcast_and_wait(p, d.span(), 0, in(300ms));
            });
            if (nth <= 6) BOOST_TEST((failures[0] && failures[1]));
            for (auto const& rule : world.broken_rules())
                BOOST_ERROR(nth << ", " << at_once << ": " << rule);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
