// SPDX-License-Identifier: Apache-2.0
// What other ranks see of a rank that copies its tensors.
#include "archetype/stager.hpp"

#include <cairn/save/detail/snapshot.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <thread>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(snapshot)

namespace {

struct one_tensor {
    std::vector<float> w = std::vector<float>(100, 1);
    std::vector<cairn::write_item> items = std::vector<cairn::write_item>(1);
    std::vector<cairn::item_data> data{
        cairn::const_tensor_view(cairn::dtype::f32, {100}, w.data())};
    decltype(cairn::detail::make_state_devices()) devices = cairn::detail::make_state_devices();
    cairn::activity progress{};
    cairn::detail::snapshot copy{};

    one_tensor() { items[0].fqn = "w"; }
};

struct short_stager : cairn::archetype::stager {
    lease take(std::size_t bytes) { return cairn::archetype::stager::take(bytes - 1); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_lease_that_is_too_short_is_refused) {
    one_tensor t;
    short_stager lends;
    cairn::detail::stager_ref<short_stager> from(lends);
    BOOST_CHECK_EXCEPTION(
        t.copy.begin(t.items, t.data, &from, true, *t.devices, t.progress), cairn::error,
        [](const cairn::error& e) {
            return e.code() == cairn::make_error_code(cairn::errc::invalid_argument) &&
                   e.context().expected == "a lease of 448 bytes from the stager" &&
                   e.context().found == "447 bytes";
        });
}

BOOST_AUTO_TEST_CASE(a_copy_within_the_host_is_progress) {
    one_tensor t;
    t.progress.enter("stage");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    t.copy.begin(t.items, t.data, nullptr, true, *t.devices, t.progress);
    auto const seen = t.progress.read();
    BOOST_TEST(seen.idle.count() < seen.in.count());
    BOOST_TEST(t.copy.advance());
    t.copy.finish();
    BOOST_TEST(std::get<cairn::const_tensor_view>(t.data[0]).data !=
               reinterpret_cast<const std::byte*>(t.w.data()));
}

BOOST_AUTO_TEST_SUITE_END()
