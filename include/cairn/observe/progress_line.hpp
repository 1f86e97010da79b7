// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBSERVE_PROGRESS_LINE_HPP
#define CAIRN_OBSERVE_PROGRESS_LINE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/observe/concepts.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

namespace cairn {

struct progress_options {
    int rank = 0;  ///< The rank that is shown, with its own bytes; all others print nothing.
    /// A verb that ends sooner prints nothing on a terminal.
    std::chrono::milliseconds after = std::chrono::seconds(1);
    /// The time between two lines if the output is not a terminal; a verb that ends sooner prints
    /// none. Zero: no lines.
    std::chrono::milliseconds plain_interval = std::chrono::seconds(30);
};

/// The output that shows a progress line.
struct progress_output {
    /// Returns the number of columns of the terminal; 0: not a terminal, or the process is in its
    /// background.
    std::function<int()> columns{};
    /// Must not block: text that cannot be written at once is dropped.
    std::function<void(std::string_view)> write{};
};

/// Returns an output to a file descriptor, which must outlive it: a terminal while the process is
/// in its foreground. Text is dropped, rather than waited for, while a terminal is stopped or a
/// pipe is full.
CAIRN_DECL progress_output progress_output_to(int descriptor);

/// Shows the phase of the running save or load, its rate and the time that remains, as one line of
/// a terminal:
///
///     save ckpt/step_100 (rank 0 of 8): write 45%, 4.5 GB of 10.0 GB, 1.2 GB/s, 4.6 s left
///
/// The line is redrawn on events, at most five times a second; at the end it is replaced by one
/// with the duration of the verb. If verbs overlap, the oldest is shown. If the output is not a
/// terminal, i.e. in logs and under most launchers, the same text is printed as a line of its own,
/// at long intervals.
class progress_line {
public:
    /// Shows it on standard error.
    CAIRN_DECL explicit progress_line(const progress_options& options = {});
    CAIRN_DECL progress_line(const progress_options& options, progress_output output);
    CAIRN_DECL void notify(const verb_event& e);

private:
    class state;
    std::shared_ptr<state> s_;
};
static_assert(EventSink<progress_line>);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/observe/impl/progress_line.ipp>
#endif

#endif
