// SPDX-License-Identifier: Apache-2.0
// What other ranks see of a rank that copies its tensors.
#include <cairn/save/detail/snapshot.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <thread>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(snapshot)

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
