// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_ONE_PER_PROCESS_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_ONE_PER_PROCESS_HPP

#include <cairn/detail/forks.hpp>

#include <atomic>
#include <memory>

namespace cairn::detail::s3 {

/// What a forked child makes for itself: of its parent's, locks may be held, and threads and
/// connections are missing. That one is left as it is.
/// @tparam T  Has a member `home`, a `home_process`.
template <class T>
class one_per_process {
public:
    explicit one_per_process(std::unique_ptr<T> first) : it_(first.release()) {}
    one_per_process(one_per_process&&) = delete;
    ~one_per_process() {
        if (auto* const t = it_.load(); t->home.is_this()) delete t;
    }
    /// @param make  Makes another one, as a `std::unique_ptr`.
    template <class Make>
    T& here(const Make& make) {
        auto* t = it_.load();
        if (t->home.is_this()) return *t;
        std::unique_ptr<T> fresh = make();
        if (it_.compare_exchange_strong(t, fresh.get())) return *fresh.release();
        return *t;
    }

private:
    std::atomic<T*> it_;
};

}  // namespace cairn::detail::s3

#endif
