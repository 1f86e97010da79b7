// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_IMPL_POST_TO_IPP
#define CAIRN_VERB_IMPL_POST_TO_IPP

#include <cairn/verb/detail/post_to.hpp>

#include <boost/asio/post.hpp>

#include <utility>

namespace cairn::detail {

CAIRN_DECL void post_to(const boost::asio::any_io_executor& on, posted_call call) {
    boost::asio::post(on, std::move(call));
}

}  // namespace cairn::detail

#endif
