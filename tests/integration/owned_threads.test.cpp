// SPDX-License-Identifier: Apache-2.0
// Writers and readers that join a thread of their own when they end, and whose thread still works
// when the context of their save or load ends: they do not end on that thread.
#include "archetype/storage_reader.hpp"
#include "archetype/storage_writer.hpp"
#include "save/background_ranks.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(owned_threads)

namespace {

namespace arch = cairn::archetype;
namespace asio = boost::asio;
using background_ranks::gate;

std::string const abandoned = cairn::make_error_code(cairn::errc::abandoned).message();

/// What becomes of a part and its thread.
struct fate {
    gate at{};  ///< Where the thread stands before it completes.
    std::atomic<bool> over{false}, on_itself{false};

    /// Runs the context until the thread is there.
    void run_until_there(asio::io_context& io) {
        for (bool there = false; !there;) {
            io.restart();
            io.run_for(std::chrono::milliseconds(5));
            std::lock_guard const lock(at.m);
            there = at.waiting != 0;
        }
    }
    void check() const {
        for (int i = 0; i < 6000 && !over; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        BOOST_TEST(over.load());
        BOOST_TEST(!on_itself.load());
    }
};

/// A thread that completes an operation late, and is joined.
class late_thread {
public:
    explicit late_thread(std::shared_ptr<fate> f) : fate_(std::move(f)) {}
    late_thread(late_thread&&) = default;
    late_thread& operator=(late_thread&&) = default;
    ~late_thread() {
        if (!fate_) return;  // moved from
        if (thread_.get_id() == std::this_thread::get_id()) {
            fate_->on_itself = true;  // to join it would end the program
            thread_.detach();
        } else if (thread_.joinable()) {
            thread_.join();
        }
        fate_->over = true;
    }
    template <class T>
    void complete(cairn::completion<T> done) {
        thread_ = std::thread([f = fate_, done = std::move(done)]() mutable {
            f->at.pass();
            done.fail(std::make_exception_ptr(std::runtime_error("too late")));
        });
    }

private:
    std::shared_ptr<fate> fate_;
    std::thread thread_{};
};

class late_writer : public arch::storage_writer {
public:
    explicit late_writer(std::shared_ptr<fate> f)
        : storage_writer(std::make_shared<arch::shelf>()), late_(std::move(f)) {}
    void write_data(const cairn::save_plan&, std::span<const cairn::item_data>,
                    cairn::completion<cairn::write_results> done) {
        late_.complete(std::move(done));
    }

private:
    late_thread late_;
};
static_assert(cairn::StorageWriter<late_writer>);

class late_reader : public arch::storage_reader {
public:
    late_reader(std::shared_ptr<arch::shelf> from, std::shared_ptr<fate> f)
        : storage_reader(std::move(from)), late_(std::move(f)) {}
    void read_data(const cairn::load_plan&, const cairn::read_target&,
                   cairn::completion<cairn::read_result> done) {
        late_.complete(std::move(done));
    }

private:
    late_thread late_;
};
static_assert(cairn::StorageReader<late_reader>);

}  // namespace

BOOST_AUTO_TEST_CASE(a_writer_does_not_end_on_its_own_thread) {
    auto const f = std::make_shared<fate>();
    auto io = std::make_unique<asio::io_context>(1);
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    auto staged = cairn::async_save(sd, "c", late_writer(f), io->get_executor(), asio::use_future);
    f->run_until_there(*io);
    auto pending = staged.get();
    io.reset();
    f->at.let_go();
    BOOST_TEST(background_ranks::outcome_of(pending) == abandoned);
    f->check();
}

BOOST_AUTO_TEST_CASE(a_reader_does_not_end_on_its_own_thread) {
    auto const shelf = std::make_shared<arch::shelf>();
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    arch::storage_writer writer(shelf);
    (void)cairn::save(sd, "c", writer);
    auto const f = std::make_shared<fate>();
    auto io = std::make_unique<asio::io_context>(1);
    asio::io_context here;
    std::string told;
    cairn::async_load(sd, "c", late_reader(shelf, f), io->get_executor(),
                      asio::bind_executor(here, [&](std::exception_ptr e, cairn::load_report) {
                          told = background_ranks::code_of(e);
                      }));
    f->run_until_there(*io);
    io.reset();
    f->at.let_go();
    here.run();
    BOOST_TEST(told == abandoned);
    f->check();
}

BOOST_AUTO_TEST_SUITE_END()
