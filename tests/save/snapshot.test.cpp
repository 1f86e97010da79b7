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

struct short_stager : cairn::archetype::stager {
    lease take(std::size_t bytes) { return cairn::archetype::stager::take(bytes - 1); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_lease_that_is_too_short_is_refused) {
    std::vector<float> w(100, 1);
    cairn::write_item item;
    item.fqn = "w";
    std::vector<cairn::write_item> const items{item};
    std::vector<cairn::item_data> data{
        cairn::const_tensor_view(cairn::dtype::f32, {100}, w.data())};
    auto const devices = cairn::detail::make_state_devices();
    cairn::activity progress;
    short_stager lends;
    cairn::detail::stager_ref<short_stager> from(lends);
    cairn::detail::snapshot s;
    BOOST_CHECK_EXCEPTION(
        s.begin(items, data, &from, true, *devices, progress), cairn::error,
        [](const cairn::error& e) {
            return e.code() == cairn::make_error_code(cairn::errc::invalid_argument) &&
                   e.context().expected == "a lease of 448 bytes from the stager" &&
                   e.context().found == "447 bytes";
        });
}

BOOST_AUTO_TEST_CASE(a_copy_within_the_host_is_progress) {
    std::vector<float> w(100, 1);
    cairn::write_item item;
    item.fqn = "w";
    std::vector<cairn::write_item> const items{item};
    std::vector<cairn::item_data> data{
        cairn::const_tensor_view(cairn::dtype::f32, {100}, w.data())};
    auto const devices = cairn::detail::make_state_devices();
    cairn::activity progress;
    progress.enter("stage");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cairn::detail::snapshot s;
    s.begin(items, data, nullptr, true, *devices, progress);
    auto const seen = progress.read();
    BOOST_TEST(seen.idle.count() < seen.in.count());
    BOOST_TEST(s.advance());
    s.finish();
    BOOST_TEST(std::get<cairn::const_tensor_view>(data[0]).data !=
               reinterpret_cast<const std::byte*>(w.data()));
}

BOOST_AUTO_TEST_SUITE_END()
