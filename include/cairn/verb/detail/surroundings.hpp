// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_SURROUNDINGS_HPP
#define CAIRN_VERB_DETAIL_SURROUNDINGS_HPP

#include <cairn/detail/identity.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace cairn::detail {

/// What a save or load uses besides its parts: the executor, the clock and random ids. Simulations
/// of whole jobs replace all three.
struct surroundings {
    boost::asio::any_io_executor executor{};
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
    std::function<std::string()> new_id = new_save_id;
};

}  // namespace cairn::detail

#endif
