// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_IMPL_CONTEXT_GATE_IPP
#define CAIRN_DETAIL_IMPL_CONTEXT_GATE_IPP

#include <cairn/detail/context_gate.hpp>

#include <cairn/detail/posting_executor.hpp>

#include <boost/asio/execution.hpp>
#include <boost/asio/post.hpp>

#include <iterator>

namespace cairn::detail {

/// Closes the gate before the services that were created earlier end, the context's own among them.
class context_gate_service final : public boost::asio::execution_context::service {
public:
    inline static boost::asio::execution_context::id id{};

    explicit context_gate_service(boost::asio::execution_context& c) : service(c) {}
    /// A service that was created during the shutdown is not shut down.
    ~context_gate_service() { gate->close(); }

    std::shared_ptr<context_gate> const gate = std::make_shared<context_gate>();

private:
    void shutdown() override { gate->close(); }
};

CAIRN_DECL std::shared_ptr<context_gate> context_gate::of(boost::asio::execution_context& context) {
    return boost::asio::use_service<context_gate_service>(context).gate;
}

CAIRN_DECL context_gate::pass::pass(context_gate& gate) {
    std::lock_guard const lock(gate.m_);
    if (gate.closed_) return;
    ++gate.passes_;
    of_ = &gate;
    outer_ = std::exchange(innermost(), this);
}
CAIRN_DECL context_gate::pass::~pass() {
    if (of_ == nullptr) return;
    innermost() = outer_;
    std::lock_guard const lock(of_->m_);
    --of_->passes_;
    if (of_->closed_) of_->changed_.notify_all();
}

CAIRN_DECL context_gate::place context_gate::add(std::unique_ptr<kept> what) {
    std::list<std::unique_ptr<kept>> one;
    one.push_back(std::move(what));
    pass const in(*this);
    if (!in) return {};
    std::lock_guard const lock(m_);
    all_.splice(all_.end(), one);
    return std::prev(all_.end());
}
CAIRN_DECL void context_gate::remove(place at) {
    pass const in(*this);
    if (!in) return;                       // gone
    std::list<std::unique_ptr<kept>> one;  // ends before the pass, and after the lock
    std::lock_guard const lock(m_);
    one.splice(one.end(), all_, at);
}
CAIRN_DECL void context_gate::close() noexcept {
    // What is in use on this thread may be what ends the context.
    int own = 0;
    for (auto const* p = pass::innermost(); p != nullptr; p = p->outer_) own += p->of_ == this;
    std::list<std::unique_ptr<kept>> all;
    std::unique_lock lock(m_);
    closed_ = true;
    changed_.wait(lock, [&] { return passes_ <= own; });
    all.swap(all_);
    lock.unlock();
    all.clear();
}

/// What executors post to whose context may end before they do.
struct gated_target : kept_by_context<boost::asio::any_io_executor> {
    using kept_by_context::kept_by_context;
    template <class F>
    void post(F f) {
        auto const in = pass();
        if (in) boost::asio::post(get(in), std::move(f));
    }
};

CAIRN_DECL boost::asio::any_io_executor until_context_ends(boost::asio::any_io_executor on) {
    auto& context = boost::asio::query(on, boost::asio::execution::context);
    return posting_executor(
        context, std::make_shared<gated_target>(context_gate::of(context), std::move(on)));
}

}  // namespace cairn::detail

#endif
