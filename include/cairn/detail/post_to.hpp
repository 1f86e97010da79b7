// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_POST_TO_HPP
#define CAIRN_DETAIL_POST_TO_HPP

#include <cairn/detail/config.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <functional>

namespace cairn::detail {

/// Posts a function to an executor. Asio's own `post` instantiates about 180 functions for each
/// type that it is given.
/// @throws std::bad_alloc, or what the executor throws
CAIRN_DECL void post_to(const boost::asio::any_io_executor& on, std::function<void()> f);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/detail/impl/post_to.ipp>
#endif

#endif
