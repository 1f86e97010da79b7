// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_RANK_OUTPUT_HPP
#define CAIRN_TOOLS_RANK_OUTPUT_HPP

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tool {

/// Merges the lines of many ranks into one stream, each prefixed with its rank. A line may end in a
/// carriage return, as progress bars do; an incomplete line may be printed in parts, and is cut
/// where another one begins.
class merged_lines {
public:
    /// Longer lines are printed in parts at once.
    static constexpr std::size_t longest = 8192;

    /// @param from  Twice the rank, plus one for its standard error.
    /// @return What to print.
    std::string add(int from, std::string_view text) {
        auto& rest = rest_[from];
        rest += text;
        std::string out;
        std::size_t begin = 0;
        for (;;) {
            auto end = rest.find_first_of("\r\n", begin);
            if (end == rest.npos) break;
            if (rest[end] == '\r' && end + 1 < rest.size() && rest[end + 1] == '\n') ++end;
            put(out, from, std::string_view(rest).substr(begin, end + 1 - begin));
            begin = end + 1;
        }
        rest.erase(0, begin);
        if (rest.size() > longest) out += flush(from);
        return out;
    }
    bool pending(int from) const {
        auto const it = rest_.find(from);
        return it != rest_.end() && !it->second.empty();
    }
    /// Prints an incomplete line.
    std::string flush(int from) {
        std::string out;
        auto const rest = std::exchange(rest_[from], {});
        if (!rest.empty()) put(out, from, rest);
        return out;
    }
    /// Ends a stream.
    std::string end(int from) {
        auto out = flush(from);
        rest_.erase(from);
        if (open_ == from && !fresh_) {
            out += '\n';
            open_ = -1;
        }
        return out;
    }

private:
    void put(std::string& out, int from, std::string_view text) {
        if (open_ == from && fresh_ && text == "\n") {  // the second half of "\r\n"
            out += '\n';
            open_ = -1;
            return;
        }
        if (open_ >= 0 && open_ != from) out += '\n';
        if (open_ != from || fresh_) out += "[" + std::to_string(from / 2) + "] ";
        out += text;
        open_ = text.back() == '\n' ? -1 : from;
        fresh_ = text.back() == '\r';
    }

    std::map<int, std::string> rest_{};
    int open_ = -1;       ///< The stream of the incomplete line.
    bool fresh_ = false;  ///< The cursor is at its beginning.
};

/// Writes to a descriptor that may block, on a thread of its own, so that the launcher never
/// blocks.
class output_writer {
public:
    static constexpr std::size_t most = std::size_t{1} << 20;

    output_writer(boost::asio::io_context& io, int to) : io_(io), to_(to) {}
    output_writer(output_writer&&) = delete;

    /// @param drained  Called on the io_context whenever everything is written.
    void start(std::function<void()> drained) {
        drained_ = std::move(drained);
        thread_ = std::thread([this] { run(); });
    }
    void write(const std::string& text) {
        if (text.empty()) return;
        std::lock_guard const lock(m_);
        queue_ += text;
        changed_.notify_one();
    }
    bool full() {
        std::lock_guard const lock(m_);
        return queue_.size() >= most;
    }
    bool idle() {
        std::lock_guard const lock(m_);
        return queue_.empty() && !writing_;
    }
    /// @pre idle(), or the process ends at once.
    void stop() {
        {
            std::lock_guard const lock(m_);
            stop_ = true;
            changed_.notify_one();
        }
        thread_.join();
    }
    /// After `stop`: the error that output was lost by; 0: none was.
    int failure() const noexcept { return failure_; }

private:
    void run() {
        std::unique_lock lock(m_);
        for (;;) {
            changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
            if (queue_.empty()) return;
            auto const text = std::exchange(queue_, {});
            writing_ = true;
            lock.unlock();
            write_all(text);
            lock.lock();
            writing_ = false;
            if (queue_.empty()) boost::asio::post(io_, drained_);
        }
    }
    void write_all(std::string_view text) {
        while (!text.empty()) {
            auto const n = ::write(to_, text.data(), text.size());
            if (n > 0) {
                text.remove_prefix(static_cast<std::size_t>(n));
            } else if (errno == EAGAIN) {
                pollfd p{to_, POLLOUT, 0};
                ::poll(&p, 1, -1);
            } else if (errno != EINTR) {  // closed, or the disk is full: the ranks continue
                if (failure_ == 0) failure_ = errno;
                return;
            }
        }
    }

    boost::asio::io_context& io_;
    int to_;
    std::mutex m_{};
    std::condition_variable changed_{};
    std::string queue_{};
    bool writing_ = false;
    bool stop_ = false;
    int failure_ = 0;  ///< Of the thread.
    std::function<void()> drained_{};
    std::thread thread_{};
};

/// A destination of ranks' output, shared by all streams that lead there.
struct output {
    output(boost::asio::io_context& io, int to) : writer(io, to) {}
    merged_lines lines{};
    output_writer writer;
};

/// Forwards one stream of one rank. A line that is incomplete a tenth of a second after it began is
/// printed in parts. While the destination is full, nothing is read: the rank blocks, as it would
/// without a launcher.
class rank_stream : public std::enable_shared_from_this<rank_stream> {
public:
    /// @param name  See `merged_lines`.
    rank_stream(boost::asio::io_context& io, int from, output& to, int name)
        : from_(io, from), partial_(io), to_(to), name_(name) {
        from_.non_blocking(true);
    }
    void start() {
        if (reading_ || ended_ || to_.writer.full()) return;
        reading_ = true;
        // Nothing is read before the handler is called, so that `finish` finds all data.
        from_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const auto& ec) {
                             self->reading_ = false;
                             if (!ec && !self->ended_ && self->read()) self->start();
                         });
    }
    /// Reads only the data that is available: a process that the rank has left behind may hold the
    /// stream open indefinitely.
    /// @return Whether one does.
    bool finish() {
        if (ended_) return false;
        finishing_ = true;
        for (std::size_t n = 0; n < output_writer::most; n += buffer_.size())
            if (!read()) break;
        auto const held = !ended_;
        if (held) end();
        return held;
    }

private:
    /// @return Whether there may be more data.
    bool read() {
        boost::system::error_code ec;
        auto const n = from_.read_some(boost::asio::buffer(buffer_), ec);
        take(n);
        if (ec == boost::asio::error::would_block) return !finishing_;
        if (ec) end();
        return !ec;
    }
    void take(std::size_t n) {
        auto const lines = to_.lines.add(name_, {buffer_.data(), n});
        to_.writer.write(lines);
        if (!to_.lines.pending(name_)) return;
        if (waiting_ && lines.empty()) return;  // more of the line that the timer is for
        waiting_ = true;
        partial_.expires_after(std::chrono::milliseconds(100));
        partial_.async_wait([self = shared_from_this()](const auto& ec) {
            // A wait that had already ended when the timer was set again is called without an
            // error.
            if (ec || self->partial_.expiry() > std::chrono::steady_clock::now()) return;
            self->waiting_ = false;
            self->to_.writer.write(self->to_.lines.flush(self->name_));
        });
    }
    void end() {
        ended_ = true;
        partial_.cancel();
        boost::system::error_code ignored;
        from_.close(ignored);
        to_.writer.write(to_.lines.end(name_));
    }

    boost::asio::posix::stream_descriptor from_;
    boost::asio::steady_timer partial_;
    output& to_;
    int name_;
    std::array<char, 65536> buffer_{};
    bool reading_ = false;
    bool waiting_ = false;
    bool finishing_ = false;
    bool ended_ = false;
};

}  // namespace tool

#endif
