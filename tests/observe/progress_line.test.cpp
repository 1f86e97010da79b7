// SPDX-License-Identifier: Apache-2.0
// The progress line, on a terminal and at times that are made up.
#include "made_events.hpp"
#include "support/dying_store.hpp"

#include <cairn/observe/detail/progress_text.hpp>
#include <cairn/observe/progress_line.hpp>

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(progress_line)

constexpr std::uint64_t gb = 1'000'000'000;

/// A terminal that keeps what was written to it.
struct screen {
    std::shared_ptr<int> columns = std::make_shared<int>(100);
    std::shared_ptr<std::vector<std::string>> written =
        std::make_shared<std::vector<std::string>>();

    cairn::progress_line line(cairn::progress_options o = {}) const {
        return cairn::progress_line(o, {[c = columns] { return *c; },
                                        [w = written](std::string_view s) { w->emplace_back(s); }});
    }
    std::string last() const { return written->empty() ? "" : written->back(); }
};
std::string drawn(const std::string& text) {
    return "\r" + text + "\x1b[K";
}

BOOST_AUTO_TEST_CASE(a_line_names_phase_rate_and_what_remains) {
    screen s;
    made_events e(s.line(), 1);
    e.begin(0);
    e.phase("plan", 0);
    e.phase_end(900);
    BOOST_TEST(s.written->empty());  // it may be over within a second
    e.phase("write", 1000);
    BOOST_TEST(s.last() == drawn("save ckpt/step_1: write, 0.0 s"));
    e.progress(0, 10 * gb, 1000);
    e.progress(1 * gb, 10 * gb, 2000);
    BOOST_TEST(s.last() ==
               drawn("save ckpt/step_1: write 10%, 1.0 GB of 10.0 GB, 1.0 GB/s, 9.0 s left"));
    e.progress(10 * gb + 1, 10 * gb, 4000);  // a format adds to it
    BOOST_TEST(s.last() == drawn("save ckpt/step_1: write 100%, 10.0 GB of 10.0 GB, 3.3 GB/s"));
    e.phase_end(5000);
    e.phase("commit", 5010);
    e.phase_end(5020);
    e.end(5100);
    BOOST_TEST(s.last() == drawn("save ckpt/step_1: 10.0 GB in 5.1 s, 2.0 GB/s") + "\n");
}

/// The rate is that of the last seconds, not of the whole phase.
BOOST_AUTO_TEST_CASE(the_rate_follows_a_storage_that_slows_down) {
    screen s;
    made_events e(s.line(), 1);
    e.begin(0);
    e.phase("write", 0);
    for (int t = 1; t <= 5; ++t) e.progress(std::uint64_t(t) * 2 * gb, 20 * gb, 1000 * t);
    for (int t = 6; t <= 20; ++t)
        e.progress(10 * gb + std::uint64_t(t - 5) * gb / 10, 20 * gb, 1000 * t);
    BOOST_TEST(s.last() ==
               drawn("save ckpt/step_1: write 57%, 11.5 GB of 20.0 GB, 100 MB/s, 1 min 25 s left"));
}

BOOST_AUTO_TEST_CASE(a_line_is_drawn_at_most_five_times_a_second) {
    screen s;
    made_events e(s.line({.after = std::chrono::milliseconds(0)}), 1);
    e.begin(0);
    int bytes = 0;
    for (int t = 0; t < 10'000; t += 20) {  // phases of 200 ms, an event each 10 ms
        if (t % 200 == 0) e.phase("write", t);
        e.progress(std::uint64_t(++bytes), 0, t);
        e.progress(std::uint64_t(++bytes), 0, t + 10);
        if (t % 200 == 180) e.phase_end(t + 15);
    }
    BOOST_TEST(s.written->size() <= 50u);
    BOOST_TEST(s.written->size() >= 40u);
    s.written->clear();
    e.phase("write", 10'000);
    for (int t = 11'000; t < 21'000; t += 10) e.progress(std::uint64_t(++bytes), 0, t);
    BOOST_TEST(s.written->size() <= 42u);
    BOOST_TEST(s.written->size() >= 38u);
}

/// Bytes of a phase that is over must not stand there while the next one takes minutes.
BOOST_AUTO_TEST_CASE(a_new_phase_is_named_at_once) {
    screen s;
    made_events e(s.line(), 1, 0, 8);
    e.begin(0);
    e.phase("write", 1000);
    e.progress(gb, gb, 3000);
    e.phase_end(3010);
    BOOST_TEST(s.last() == drawn("save ckpt/step_1 (rank 0 of 8): waiting for other ranks, 0.0 s"));
    e.phase("commit", 3020);
    BOOST_TEST(s.last() == drawn("save ckpt/step_1 (rank 0 of 8): commit, 0.0 s"));
}

BOOST_AUTO_TEST_CASE(short_verbs_and_other_ranks_print_nothing) {
    screen s;
    auto const line = s.line();
    made_events quick(line, 1), other(line, 2, 3, 8);
    quick.begin(0);
    quick.phase("write", 0);
    quick.phase_end(990);
    quick.end(999);
    other.begin(0);
    other.phase("write", 0);
    other.progress(1, 2, 5000);
    other.end(6000);
    BOOST_TEST(s.written->empty());
}

BOOST_AUTO_TEST_CASE(a_failure_ends_the_line) {
    screen s;
    made_events e(s.line(), 1);
    e.begin(0);
    e.phase("write", 0);
    e.progress(1, 2, 2000);
    e.phase_end(2500);
    e.end(3000, std::make_exception_ptr(std::runtime_error("it")));
    BOOST_TEST(s.last() == drawn("save ckpt/step_1: failed after 3.0 s") + "\n");
}

/// One line for several verbs: the oldest; then the next.
BOOST_AUTO_TEST_CASE(verbs_that_overlap_share_the_line) {
    screen s;
    auto const line = s.line();
    made_events a(line, 1, 0, 1, "a"), b(line, 2, 0, 1, "b"), c(line, 3, 0, 1, "c");
    a.begin(0);
    b.begin(0);
    c.begin(0);
    b.phase("write", 2000);
    a.phase("write", 2000);
    b.progress(1, 2, 4000);
    c.end(4500);
    BOOST_TEST(s.written->size() == 1u);
    BOOST_TEST(s.last().find("save a: write") == 1u);
    a.end(5000);
    BOOST_TEST(s.last() == drawn("save a: 5.0 s") + "\n");
    b.progress(2, 2, 6500);
    BOOST_TEST(s.last().find("save b: write 100%") == 1u);
}

BOOST_AUTO_TEST_CASE(without_a_terminal_there_is_a_line_each_half_minute) {
    screen s;
    *s.columns = 0;
    auto const line = s.line();
    made_events e(line, 1), quick(line, 2);
    quick.begin(0);
    quick.end(29'000);
    e.begin(0);
    e.phase("write", 0);
    for (int t = 0; t <= 100'000; t += 50) e.progress(std::uint64_t(t) * 1'000'000, 100 * gb, t);
    e.phase_end(100'000);
    e.end(101'000);
    BOOST_REQUIRE(s.written->size() == 4u);
    BOOST_TEST(s.written->front() ==
               "save ckpt/step_1: write 30%, 30.0 GB of 100 GB, 1.0 GB/s, 1 min 10 s left\n");
    BOOST_TEST(s.last() == "save ckpt/step_1: 100 GB in 1 min 41 s, 990 MB/s\n");
    screen none;
    *none.columns = 0;
    made_events never(none.line({.plain_interval = std::chrono::milliseconds(0)}), 1);
    never.begin(0);
    never.phase("write", 0);
    never.end(1'000'000);
    BOOST_TEST(none.written->empty());
}

/// A job that is moved to the background leaves the terminal to others.
BOOST_AUTO_TEST_CASE(a_terminal_may_come_and_go) {
    screen s;
    made_events e(s.line(), 1);
    e.begin(0);
    e.phase("write", 2000);
    *s.columns = 0;
    e.progress(1, 2, 4000);
    BOOST_TEST(s.last() == "\n");
    e.progress(1, 2, 5000);
    BOOST_TEST(s.written->size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_line_fits_and_holds_no_control_characters) {
    screen s;
    *s.columns = 30;
    made_events e(s.line(), 1, 0, 1, "a\nb\x1b[2J\xff\u00e4\u00e4");
    e.begin(0);
    e.phase("write", 2000);
    BOOST_TEST(s.last() == drawn("save a\\u000ab\\u001b[2J\\xff\u00e4\u00e4:"));
    // A wide character that would have one column left is left out.
    *s.columns = 12;
    made_events w(s.line(), 2, 0, 1, "/\u6a21\u578b\u6a21");
    w.begin(0);
    w.phase("write", 2000);
    BOOST_TEST(s.last() == drawn("save /\u6a21\u578b"));
    *s.columns = 200;
    made_events l(s.line(), 2, 0, 1, "/a/very/long/path/to/somewhere/checkpoints/run_17/step_100");
    l.begin(0);
    l.phase("write", 2000);
    BOOST_TEST(s.last() == drawn("save ...somewhere/checkpoints/run_17/step_100: write, 0.0 s"));
}

BOOST_AUTO_TEST_CASE(units_suit_the_size_of_a_number) {
    using namespace std::chrono;
    using cairn::detail::bytes_text;
    using cairn::detail::time_text;
    BOOST_TEST(bytes_text(0) == "0 B");
    BOOST_TEST(bytes_text(999) == "999 B");
    BOOST_TEST(bytes_text(999.6) == "1.0 kB");
    BOOST_TEST(bytes_text(99'949) == "99.9 kB");
    BOOST_TEST(bytes_text(99'960) == "100 kB");
    BOOST_TEST(bytes_text(999'600'000) == "1.0 GB");
    BOOST_TEST(bytes_text(1.8e19) == "18000 PB");
    BOOST_TEST(time_text(nanoseconds(-5)) == "0.0 s");
    BOOST_TEST(time_text(milliseconds(9400)) == "9.4 s");
    BOOST_TEST(time_text(milliseconds(9600)) == "10 s");
    BOOST_TEST(time_text(seconds(60)) == "1 min 0 s");
    BOOST_TEST(time_text(hours(30)) == "30 h 0 min");
}

/// Text that nobody reads is dropped: a save does not wait, and does not end the process.
BOOST_AUTO_TEST_CASE(a_full_or_broken_pipe_drops_text) {
    auto const how = support::in_process([] {
        int ends[2];
        if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
        auto const out = cairn::progress_output_to(ends[1]);
        if (out.columns() != 0) throw std::runtime_error("a pipe is a terminal");
        for (int i = 0; i < 100'000; ++i) out.write("twenty bytes of text");
        ::close(ends[0]);
        out.write("x");
    });
    BOOST_TEST((how == support::ended::well));
}

/// A terminal of our own, in whose foreground we are.
BOOST_AUTO_TEST_CASE(a_terminal_is_one_while_the_process_is_in_its_foreground) {
    auto const how = support::in_process([] {
        auto const check = [](bool ok, const char* what) {
            if (!ok) throw std::runtime_error(what);
        };
        int const master = ::posix_openpt(O_RDWR | O_NOCTTY);
        if (master < 0) return;  // a sandbox without terminals
        check(::grantpt(master) == 0 && ::unlockpt(master) == 0, "no terminal");
        int const terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
        ::setenv("TERM", "xterm", 1);
        auto const out = cairn::progress_output_to(terminal);
        check(out.columns() == 0, "a terminal that is not ours");
        check(::setsid() > 0 && ::ioctl(terminal, TIOCSCTTY, 0) == 0, "no session");
        ::winsize const size{25, 93, 0, 0};
        (void)::ioctl(terminal, TIOCSWINSZ, &size);
        check(out.columns() == 93, "columns");
        out.write("text");
        char text[5] = {};
        check(::read(master, text, 4) == 4 && std::string(text) == "text", "not written");
        ::setenv("TERM", "dumb", 1);
        check(cairn::progress_output_to(terminal).columns() == 0, "a terminal that cannot redraw");
    });
    BOOST_TEST((how == support::ended::well));
}

BOOST_AUTO_TEST_SUITE_END()
