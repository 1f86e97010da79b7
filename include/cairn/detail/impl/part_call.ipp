// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_IMPL_PART_CALL_IPP
#define CAIRN_DETAIL_IMPL_PART_CALL_IPP

#include <cairn/detail/part_call.hpp>

#include <boost/asio/post.hpp>

#include <memory>
#include <utility>

namespace cairn::detail {

CAIRN_DECL void resume_on(const boost::asio::any_io_executor& on,
                          std::function<void()> f) noexcept {
    try {
        boost::asio::post(on, f);
        return;
    } catch (...) {  // no memory, or the executor's context refuses
    }
    f();
}

}  // namespace cairn::detail

#endif
