// SPDX-License-Identifier: Apache-2.0
// Handlers that cannot be posted, for lack of memory: never called when moved from, never twice.
#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/verb/detail/stored_handler.hpp>

#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(stored_handler)

namespace asio = boost::asio;

namespace {

/// What happened to a handler; and the uses of its allocator or executor that are left before one
/// throws.
struct history {
    std::atomic<int> calls{0}, empty{0}, left{0};
    std::atomic<bool> thrown{false};

    void use() {
        if (left-- > 0) return;
        thrown = true;
        throw std::bad_alloc();
    }
};

/// Owns something, as a handler with a promise or a connection does.
struct owner {
    std::unique_ptr<int> own = std::make_unique<int>(7);
    history* h;

    explicit owner(history& into) : h(&into) {}
    template <class... Args>
    void operator()(Args&&...) {
        ++h->calls;
        if (!own) ++h->empty;
    }
};

template <class T>
struct failing_allocator {
    using value_type = T;
    history* h;

    explicit failing_allocator(history& into) : h(&into) {}
    template <class U>
    failing_allocator(const failing_allocator<U>& other) noexcept : h(other.h) {}
    T* allocate(std::size_t n) {
        h->use();
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* p, std::size_t n) { std::allocator<T>().deallocate(p, n); }
    template <class U>
    bool operator==(const failing_allocator<U>& other) const noexcept {
        return h == other.h;
    }
};

class failing_executor {
public:
    failing_executor(asio::io_context& io, history& into) noexcept : io_(&io), h_(&into) {}
    template <class F>
    void execute(F&& f) const {
        h_->use();
        asio::post(*io_, [g = std::forward<F>(f)]() mutable { std::move(g)(); });
    }
    failing_executor require(asio::execution::blocking_t::never_t) const noexcept { return *this; }
    bool operator==(const failing_executor&) const noexcept = default;

private:
    asio::io_context* io_;
    history* h_;
};

/// Calls `f(handler)` with handlers whose allocator or executor fails at its first use, at its
/// second and so on, up to the first that is called; `f` makes all calls that will ever be made.
template <class F>
void with_failing_handlers(asio::io_context& io, F&& f) {
    auto const all_uses = [&](const char* what, auto make) {
        int failed = 0;
        for (bool ended = false; !ended && failed < 50; ++failed) {
            history h;
            h.left = failed;
            f(h, make(h));
            BOOST_TEST_CONTEXT(what << " fails at use " << failed) {
                BOOST_TEST(h.empty == 0);
                BOOST_TEST(h.calls <= 1);
                ended = !h.thrown;
                if (ended) BOOST_TEST(h.calls == 1);
            }
        }
        BOOST_TEST((failed > 1 && failed < 50), what << ": " << failed);
    };
    all_uses("the allocator", [&](history& h) {
        return asio::bind_executor(io.get_executor(),
                                   asio::bind_allocator(failing_allocator<std::byte>(h), owner(h)));
    });
    all_uses("the executor",
             [&](history& h) { return asio::bind_executor(failing_executor(io, h), owner(h)); });
}

/// Runs all that a context has to do. An executor of the user's may fail there too, where nobody
/// but the user can see it: Asio dispatches to it from its own threads.
/// @return Whether it did.
bool escapes_from(asio::io_context& io) {
    try {
        io.restart();
        io.run();
        return false;
    } catch (const std::bad_alloc&) {
        return true;
    }
}
/// Options of a save that counts the errors that it could not tell its handler.
cairn::save_options counting(const std::shared_ptr<std::atomic<int>>& unclaimed) {
    cairn::save_options o;
    o.on_unclaimed_error = [unclaimed](const std::exception_ptr&) { ++*unclaimed; };
    return o;
}
/// Runs a save in this thread until it has ended, and then its handler: one of them gets to know.
void check_told(asio::io_context& save, asio::io_context& io, history& h,
                const std::atomic<int>& unclaimed) {
    BOOST_TEST(!escapes_from(save));
    int const escaped = escapes_from(io) ? 1 : 0;
    // The last of the save may end a little later than what it does on its executor.
    for (int i = 0; i < 6000 && h.calls + escaped + unclaimed == 0; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    BOOST_TEST(h.calls + escaped + unclaimed == 1);
}

}  // namespace

/// A handler without a context is the only owner of what a pass refers to.
BOOST_AUTO_TEST_CASE(a_pass_may_outlive_the_handler_that_it_was_taken_from) {
    std::promise<int> called;
    cairn::detail::stored_handler<int> h([&](int n) { called.set_value(n); });
    {
        auto const in = h.pass();
        BOOST_TEST_REQUIRE(static_cast<bool>(in));
        h.complete(in, 7);
        BOOST_TEST(!h);
    }
    BOOST_TEST(called.get_future().get() == 7);
}

BOOST_AUTO_TEST_CASE(a_handler_that_cannot_be_posted_is_never_called_empty) {
    using stored = cairn::detail::stored_handler<std::exception_ptr, int>;
    asio::io_context io;
    with_failing_handlers(io, [&](history& h, auto handler) {
        stored s(std::move(handler));
        bool told = false;
        try {
            s.complete(nullptr, 1);
        } catch (const std::bad_alloc&) {
            told = true;
        }
        // It is gone, so that nobody who looks again completes it once more.
        BOOST_TEST(!s);
        told = escapes_from(io) || told;
        BOOST_TEST(told == h.thrown);
        BOOST_TEST(h.calls == (told ? 0 : 1));
    });
}

/// A slot may be touched only where the handler runs: whoever emits orders himself with that.
BOOST_AUTO_TEST_CASE(a_handler_keeps_its_slot_until_it_runs) {
    using stored = cairn::detail::stored_handler<std::exception_ptr>;
    asio::io_context io;
    asio::cancellation_signal signal;
    int emitted = 0;
    bool within = true;
    stored s(asio::bind_cancellation_slot(
        signal.slot(), asio::bind_executor(
                           io, [&](std::exception_ptr) { within = signal.slot().has_handler(); })));
    s.slot().assign([&](asio::cancellation_type) { ++emitted; });
    s.complete(nullptr);
    BOOST_TEST(signal.slot().has_handler());
    signal.emit(asio::cancellation_type::terminal);
    BOOST_TEST(emitted == 1);
    io.run();
    BOOST_TEST(!within);
    BOOST_TEST(!signal.slot().has_handler());
}

/// Without an executor nothing orders emitting and the handler.
BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_does_not_touch_its_slot) {
    using stored = cairn::detail::stored_handler<std::exception_ptr>;
    asio::cancellation_signal signal;
    std::promise<bool> kept;
    stored s(asio::bind_cancellation_slot(
        signal.slot(), [&](std::exception_ptr) { kept.set_value(signal.slot().has_handler()); }));
    s.slot().assign([](asio::cancellation_type) {});
    s.complete(nullptr);
    BOOST_TEST(kept.get_future().get());
}

/// The thread of the operation does not end for it, and somebody is told.
BOOST_AUTO_TEST_CASE(a_save_whose_handler_cannot_be_posted_tells_somebody) {
    std::vector<float> w(16, 1.0f);
    cairn::state_dict sd{{"w", w}};
    for (bool const refused : {false, true}) {
        asio::io_context io, on;
        with_failing_handlers(io, [&](history& h, auto handler) {
            cairn::memory_store store;
            auto const unclaimed = std::make_shared<std::atomic<int>>(0);
            auto o = counting(unclaimed);
            if (refused) o.storage.payload_alignment = 1;
            cairn::async_save(sd, "c", o, store, on.get_executor(), std::move(handler));
            check_told(on, io, h, *unclaimed);
            // What was reported as failed does not commit.
            if (*unclaimed != 0) BOOST_TEST(store.at("c").list().empty());
        });
    }
}

BOOST_AUTO_TEST_CASE(a_cancelled_save_whose_handler_cannot_be_posted_tells_somebody) {
    std::vector<float> w(16, 1.0f);
    cairn::state_dict sd{{"w", w}};
    asio::io_context io, on;
    with_failing_handlers(io, [&](history& h, auto handler) {
        cairn::memory_store store;
        auto const unclaimed = std::make_shared<std::atomic<int>>(0);
        asio::cancellation_signal signal;
        cairn::async_save(sd, "c", counting(unclaimed), store, on.get_executor(),
                          asio::bind_cancellation_slot(signal.slot(), std::move(handler)));
        signal.emit(asio::cancellation_type::terminal);
        check_told(on, io, h, *unclaimed);
    });
}

BOOST_AUTO_TEST_CASE(a_load_whose_handler_cannot_be_posted_calls_it_at_most_once) {
    std::vector<float> w(16, 1.0f);
    cairn::state_dict sd{{"w", w}};
    cairn::memory_store store;
    (void)cairn::save(sd, "c", store);
    asio::io_context io, on;
    with_failing_handlers(io, [&](history& h, auto handler) {
        cairn::async_load(sd, "c", store, on.get_executor(), std::move(handler));
        BOOST_TEST(!escapes_from(on));
        int const escaped = escapes_from(io) ? 1 : 0;
        BOOST_TEST(h.calls + escaped <= 1);
    });
}

BOOST_AUTO_TEST_SUITE_END()
