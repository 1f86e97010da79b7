// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_CONTEXT_GATE_HPP
#define CAIRN_DETAIL_CONTEXT_GATE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/cxx20.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/query.hpp>

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace cairn::detail {

/// Holds objects that other threads keep for an execution context and that must not outlive it:
/// executors, work guards, handlers. The shutdown of the context waits for those that use them at
/// that moment, and destroys them. Threads: any.
class context_gate {
public:
    struct kept {
        virtual ~kept() = default;
    };
    using place = std::list<std::unique_ptr<kept>>::iterator;

    /// Returns the gate of a context, which is made at first use.
    CAIRN_DECL static std::shared_ptr<context_gate> of(boost::asio::execution_context& context);

    /// Keeps the context from ending while it lives, if it converts to true.
    class pass {
    public:
        CAIRN_DECL explicit pass(context_gate& gate);
        /// Keeps the gate, too: it may have no other owner than what is about to end.
        explicit pass(std::shared_ptr<context_gate> gate) : pass(*gate) { own_ = std::move(gate); }
        pass(pass&&) = delete;
        CAIRN_DECL ~pass();
        explicit operator bool() const noexcept { return of_ != nullptr; }

    private:
        friend context_gate;
        static pass*& innermost() noexcept {
            thread_local pass* p = nullptr;
            return p;
        }
        context_gate* of_ = nullptr;
        pass* outer_ = nullptr;  ///< Of this thread.
        std::shared_ptr<context_gate> own_{};
    };

    /// Adds an object. One that is added after the end is destroyed at once.
    CAIRN_DECL place add(std::unique_ptr<kept> what);
    CAIRN_DECL void remove(place at);
    /// Called when the context ends; a second call does nothing.
    CAIRN_DECL void close() noexcept;

private:
    std::mutex m_{};
    std::condition_variable changed_{};
    std::list<std::unique_ptr<kept>> all_{};
    int passes_ = 0;
    bool closed_ = false;
};

/// An object that ends with a context, or before.
template <class T>
class kept_by_context {
    struct kept final : context_gate::kept {
        explicit kept(T v) : value(std::move(v)) {}
        T value;
    };

public:
    kept_by_context(std::shared_ptr<context_gate> gate, T value)
        : gate_(std::move(gate)), at_(gate_->add(std::make_unique<kept>(std::move(value)))) {}
    kept_by_context(kept_by_context&&) = delete;
    ~kept_by_context() { gate_->remove(at_); }

    /// Keeps the context from ending; false if it has ended.
    context_gate::pass pass() { return context_gate::pass(gate_); }
    /// @param in  What `pass` has returned, and true: the context does not end while it lives.
    T& get([[maybe_unused]] const context_gate::pass& in) {
        return static_cast<kept&>(**at_).value;
    }

private:
    std::shared_ptr<context_gate> gate_;
    context_gate::place at_;
};

/// Returns the gate of an executor's context; for one without a context, a gate that stays open.
template <class Executor>
std::shared_ptr<context_gate> gate_of(const Executor& on) {
    using boost::asio::execution::context_t;
    if constexpr (boost::asio::can_query<Executor, context_t>::value)
        return context_gate::of(boost::asio::query(on, boost::asio::execution::context));
    else if constexpr (requires { context_gate::of(on.context()); })  // of the Networking TS
        return context_gate::of(on.context());
    else
        return std::make_shared<context_gate>();
}

/// Returns an executor that posts to the given one until that one's context ends, and afterwards
/// destroys what is posted. Copies do not count as work, and may outlive the context.
CAIRN_DECL boost::asio::any_io_executor until_context_ends(boost::asio::any_io_executor on);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/detail/impl/context_gate.ipp>
#endif

#endif
