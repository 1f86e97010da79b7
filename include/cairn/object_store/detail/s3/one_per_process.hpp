// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_ONE_PER_PROCESS_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_ONE_PER_PROCESS_HPP

#include <cairn/detail/forks.hpp>

#include <atomic>
#include <memory>
#include <utility>

namespace cairn::detail::s3 {

/// What a forked child makes for itself: of its parent's, locks may be held that nobody there will
/// release, and threads and connections are missing. That one is left as it is.
template <class T>
class one_per_process {
public:
    explicit one_per_process(std::unique_ptr<T> first) : now_(new made{std::move(first)}) {}
    one_per_process(one_per_process&&) = delete;
    ~one_per_process() {
        if (auto* const m = now_.load(); m->home.is_this()) delete m;
    }
    /// @param make  Makes another one, as a `std::unique_ptr`.
    template <class Make>
    T& here(const Make& make) {
        auto* m = now_.load();
        if (m->home.is_this()) return *m->it;
        std::unique_ptr<made> fresh(new made{make(), m});
        if (now_.compare_exchange_strong(m, fresh.get())) return *fresh.release()->it;
        return *m->it;
    }

private:
    struct made {
        std::unique_ptr<T> it;
        made* of_parent = nullptr;  ///< It is not lost, for those who look for leaks.
        home_process home{};
    };

    std::atomic<made*> now_;
};

}  // namespace cairn::detail::s3

#endif
