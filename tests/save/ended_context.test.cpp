// SPDX-License-Identifier: Apache-2.0
// A context of the caller's that ends while other threads still work for a save: nothing touches it
// afterwards. Sanitizers see what these tests cannot ask for.
#include "background_ranks.hpp"

#include <cairn/async_save.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>

#include <future>
#include <thread>
#include <type_traits>

BOOST_AUTO_TEST_SUITE(ended_context)

using namespace background_ranks;

namespace {

/// An executor of the user's that counts what is posted after the end of its context.
class watched_executor {
public:
    struct seen {
        std::mutex m{};
        bool ended = false;
        int late = 0;
    };
    watched_executor(asio::io_context& io, std::shared_ptr<seen> s) : io_(&io), s_(std::move(s)) {}

    asio::execution_context& query(asio::execution::context_t) const noexcept { return *io_; }
    static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
        return asio::execution::blocking.never;
    }
    watched_executor require(asio::execution::blocking_t::never_t) const { return *this; }
    template <class F>
    void execute(F f) const {
        std::lock_guard const lock(s_->m);
        if (s_->ended)
            ++s_->late;
        else
            asio::post(*io_, std::move(f));
    }
    friend bool operator==(const watched_executor& a, const watched_executor& b) noexcept {
        return a.io_ == b.io_;
    }
    friend bool operator!=(const watched_executor& a, const watched_executor& b) noexcept {
        return !(a == b);
    }

private:
    asio::io_context* io_;
    std::shared_ptr<seen> s_;
};

/// Ends the context of a save while its writer is in the middle of a file.
/// @return How the save has ended.
template <class Executor>
std::string ends_while_writing(std::unique_ptr<asio::io_context> io, Executor on,
                               const std::function<void()>& ended) {
    cairn::memory_store base;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    auto const g = std::make_shared<gate>();
    auto staged = cairn::async_save(sd, "c", gated_store(base, g), std::move(on), asio::use_future);
    for (bool writes = false; !writes;) {
        io->restart();
        io->run_for(std::chrono::milliseconds(5));
        std::lock_guard const lock(g->m);
        writes = g->waiting != 0;
    }
    auto pending = staged.get();
    io.reset();
    ended();
    g->let_go();
    try {
        (void)pending.wait();
        return "none";
    } catch (const cairn::error& e) {
        BOOST_TEST(e.failures().size() == 1u);  // that of this rank
        return e.code().message();
    }
}

std::string const abandoned = cairn::make_error_code(cairn::errc::abandoned).message();

}  // namespace

BOOST_AUTO_TEST_CASE(what_completes_later_is_not_posted) {
    auto io = std::make_unique<asio::io_context>(1);
    auto const s = std::make_shared<watched_executor::seen>();
    watched_executor on(*io, s);
    BOOST_TEST(ends_while_writing(std::move(io), on, [&] {
                   std::lock_guard const lock(s->m);
                   s->ended = true;
               }) == abandoned);
    BOOST_TEST(s->late == 0);
}
BOOST_AUTO_TEST_CASE(a_strand_ends_with_its_context) {
    auto io = std::make_unique<asio::io_context>(1);
    auto on = asio::make_strand(*io);
    BOOST_TEST(ends_while_writing(std::move(io), std::move(on), [] {}) == abandoned);
}

/// The save has a thread of its own, and ends well; the handler ends with its context.
BOOST_AUTO_TEST_CASE(a_handler_ends_with_its_context) {
    cairn::memory_store base;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    auto const g = std::make_shared<gate>();
    auto pending = cairn::async_save(sd, "c", gated_store(base, g), asio::use_future).get();
    auto io = std::make_unique<asio::io_context>(1);
    auto held = std::make_shared<int>(0);
    std::weak_ptr<int> const ends = held;
    pending.async_wait(
        asio::bind_executor(asio::make_strand(*io),
                            [held = std::move(held)](std::exception_ptr, cairn::save_report) {}));
    BOOST_TEST(!ends.expired());
    io.reset();
    BOOST_TEST(ends.expired());
    g->let_go();
    while (!pending.ready()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    BOOST_TEST(first_of(base) == 5.0f);
}

namespace {

/// Options of a save that notes the error that no call has delivered.
cairn::save_options noting(std::promise<std::string>& unclaimed) {
    cairn::save_options o;
    o.on_unclaimed_error = [&](const std::exception_ptr& e) { unclaimed.set_value(code_of(e)); };
    return o;
}
std::string noted(std::promise<std::string>& unclaimed) {
    auto told = unclaimed.get_future();
    if (told.wait_for(std::chrono::seconds(30)) != std::future_status::ready) return "nothing";
    return told.get();
}
/// Waits for a save with a handler whose context then ends.
void wait_in_an_ended_context(cairn::pending_save& pending) {
    asio::io_context io;
    pending.async_wait(asio::bind_executor(io, [](std::exception_ptr, cairn::save_report) {
        BOOST_ERROR("a handler of an ended context is called");
    }));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_save_can_be_waited_for_after_a_handler_has_ended) {
    for (bool const ended_before : {false, true}) {
        cairn::memory_store base;
        std::vector<float> w(4, 5.0f);
        cairn::state_dict sd{{"w", w}};
        auto const g = std::make_shared<gate>();
        auto pending = cairn::async_save(sd, "c", gated_store(base, g), asio::use_future).get();
        wait_in_an_ended_context(pending);
        g->let_go();
        while (ended_before && !pending.ready())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        BOOST_TEST(static_cast<bool>(pending));
        BOOST_TEST(outcome_of(pending) == "none");
        BOOST_TEST(!pending);
        BOOST_TEST(first_of(base) == 5.0f);
    }
}

BOOST_AUTO_TEST_CASE(an_error_whose_handler_has_ended_is_unclaimed) {
    cairn::memory_store base;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    std::promise<std::string> unclaimed;
    auto const g = std::make_shared<gate>();
    auto pending =
        cairn::async_save(sd, "c", noting(unclaimed), gated_store(base, g), asio::use_future).get();
    wait_in_an_ended_context(pending);
    pending.cancel();
    g->let_go();
    while (!pending.ready()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pending = {};
    BOOST_TEST(noted(unclaimed) == cancelled);
}

/// The save begins when the context that it runs on does, after that of its handler has ended.
BOOST_AUTO_TEST_CASE(an_error_before_the_copy_whose_handler_has_ended_is_unclaimed) {
    cairn::memory_store base;
    cairn::state_dict sd{{"w.x", 1}};
    sd["w"] = cairn::state_dict{{"x", 2}};  // two names that join alike
    std::promise<std::string> unclaimed;
    asio::io_context on;
    {
        asio::io_context io;
        cairn::async_save(sd, "c", noting(unclaimed), base, on.get_executor(),
                          asio::bind_executor(io, [](std::exception_ptr, cairn::pending_save) {}));
    }
    on.run();
    BOOST_TEST(noted(unclaimed) == make_error_code(cairn::errc::invalid_state).message());
}

BOOST_AUTO_TEST_SUITE_END()
