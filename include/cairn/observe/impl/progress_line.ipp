// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_IMPL_PROGRESS_LINE_IPP
#define CAIRN_OBSERVE_IMPL_PROGRESS_LINE_IPP

#include <cairn/observe/progress_line.hpp>

#include <cairn/detail/blocked_signals.hpp>
#include <cairn/observe/detail/progress_text.hpp>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace cairn {

CAIRN_DECL progress_output progress_output_to(int descriptor) {
    auto const* const type = std::getenv("TERM");  // now: another thread may change it later
    bool const redraws = type != nullptr && std::string_view(type) != "dumb";
    auto const columns = [descriptor, redraws] {
        // A background job would be stopped, or would draw over the foreground job.
        if (!redraws || ::isatty(descriptor) == 0 || ::tcgetpgrp(descriptor) != ::getpgrp())
            return 0;
        ::winsize size{};
        bool const known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
        return known ? int{size.ws_col} : 80;
    };
    auto const write = [descriptor](std::string_view text) {
        ::pollfd ready{descriptor, POLLOUT, 0};
        // Writing to a pipe without a reader would end the process.
        if (::poll(&ready, 1, 0) != 1 || ready.revents != POLLOUT) return;
        // Up to PIPE_BUF bytes do not block.
        (void)detail::without_sigxfsz([&] {
            return ::write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
        });
    };
    return {columns, write};
}

class progress_line::state {
public:
    state(const progress_options& options, progress_output output)
        : options_(options), output_(std::move(output)) {}

    void notify(const verb_event& e) {
        using kind = verb_event::kind;
        if (e.rank != options_.rank) return;
        std::lock_guard const lock(m_);
        if (e.what == kind::begin) {
            running_.emplace(e.operation, e);
            return;
        }
        auto const found = running_.find(e.operation);
        if (found == running_.end()) return;
        found->second.notify(e);
        if (found == running_.begin()) show(e, found->second);
        if (e.what == kind::end) running_.erase(found);
    }

private:
    using clock = verb_event::clock;

    void show(const verb_event& e, const detail::progress_text& of) {
        bool const ends = e.what == verb_event::kind::end;
        if (!ends && !may_draw(e)) return;  // before the system is asked for anything
        auto const columns = output_.columns();
        if (columns == 0) return print_plain(e, of);
        if (ends && drawn_) draw(of.ended(e), columns, "\n");
        if (!ends && e.at - of.began() >= options_.after) draw(of.running(e.at), columns, "");
    }
    /// Allows at most four lines a second for bytes, and five in all, so that the line names the
    /// phase.
    bool may_draw(const verb_event& e) {
        auto const oldest = draws_[next_draw_];
        auto const last = draws_[(next_draw_ + draws_.size() - 1) % draws_.size()];
        bool const bytes = e.what == verb_event::kind::progress;
        if (e.at - oldest < std::chrono::seconds(1)) return false;
        if (bytes && e.at - last < std::chrono::milliseconds(250)) return false;
        draws_[next_draw_] = e.at;
        next_draw_ = (next_draw_ + 1) % draws_.size();
        return true;
    }
    void draw(const std::string& text, int columns, const char* end) {
        // The last column stays free: terminals differ in what follows it.
        output_.write("\r" + detail::one_line(text, columns - 1) + "\x1b[K" + end);
        drawn_ = *end == '\0';
    }
    void print_plain(const verb_event& e, const detail::progress_text& of) {
        if (drawn_) output_.write("\n");
        drawn_ = false;
        auto const every = options_.plain_interval;
        bool const ends = e.what == verb_event::kind::end;
        auto const since = ends ? of.began() : std::max(of.began(), printed_);
        if (every.count() <= 0 || e.at - since < every) return;
        printed_ = e.at;
        output_.write(detail::one_line(ends ? of.ended(e) : of.running(e.at), 200) + "\n");
    }

    progress_options const options_;
    progress_output const output_;
    std::mutex m_{};
    std::map<std::uint64_t, detail::progress_text> running_{};  ///< The oldest first.
    bool drawn_ = false;                                        ///< A line stands on the terminal.
    std::array<clock::time_point, 5> draws_{};
    std::size_t next_draw_ = 0;
    clock::time_point printed_{};
};

CAIRN_DECL progress_line::progress_line(const progress_options& options)
    : progress_line(options, progress_output_to(STDERR_FILENO)) {}
CAIRN_DECL progress_line::progress_line(const progress_options& options, progress_output output)
    : s_(std::make_shared<state>(options, std::move(output))) {}
CAIRN_DECL void progress_line::notify(const verb_event& e) {
    s_->notify(e);
}

}  // namespace cairn

#endif
