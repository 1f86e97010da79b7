// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_OWN_CONTEXT_HPP
#define CAIRN_VERB_DETAIL_OWN_CONTEXT_HPP

#include <cairn/detail/cxx20.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <utility>

namespace cairn::detail {

/// The context of one operation, for a `posting_executor`, which keeps it alive. A backend's thread
/// that posts may still be inside the context when what it has posted has run: a context that ended
/// with its operation would then be used after its end.
struct own_context : boost::asio::io_context {
    own_context() : io_context(1) {}
    template <class F>
    void post(F f) {
        boost::asio::post(*this, std::move(f));
    }
};

}  // namespace cairn::detail

#endif
