// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_POST_TO_HPP
#define CAIRN_VERB_DETAIL_POST_TO_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/forks.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <utility>

namespace cairn::detail {

/// A call of a member function, which keeps alive what it is called on. There is one type for all
/// calls, since Asio instantiates many functions (180 with g++ 12) for each type that it posts; and
/// unlike a std::function it takes no memory and is copied without exceptions, so that an operation
/// continues if there is no memory left. In a forked child, whose copy of an executor has the
/// parent's calls, it does nothing.
class posted_call {
public:
    template <auto Member, class T>
    static posted_call of(std::shared_ptr<T> on) {
        return {std::move(on), [](void* p) { (static_cast<T*>(p)->*Member)(); }};
    }
    void operator()() const {
        if (home_.is_this()) call_(on_.get());
    }

private:
    posted_call(std::shared_ptr<void> on, void (*call)(void*)) : on_(std::move(on)), call_(call) {}

    std::shared_ptr<void> on_;
    void (*call_)(void*);
    home_process home_{};
};

/// @throws std::bad_alloc, or what the executor throws
CAIRN_DECL void post_to(const boost::asio::any_io_executor& on, posted_call call);

/// Calls `what->Member()` on an executor, never inside this call; inside it only if there is no
/// memory left to post it, or the executor refuses.
template <auto Member, class T>
void resume_on(const boost::asio::any_io_executor& on, const std::shared_ptr<T>& what) noexcept {
    static_assert(noexcept(((*what).*Member)()));
    try {
        post_to(on, posted_call::of<Member>(what));
        return;
    } catch (...) {
    }
    ((*what).*Member)();
}

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/verb/impl/post_to.ipp>
#endif

#endif
