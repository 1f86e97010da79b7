// SPDX-License-Identifier: Apache-2.0
// Each system call of the file store fails in turn, before and after its effect, with each errno
// that a file system may return: of saves and of loads. What stands
// afterwards is a whole checkpoint, every rank is told truthfully and of the file, a file whose
// sync failed is given up, and what comes next finds nothing in its way.
#include "support/failing_calls.hpp"

#include "support/sanitized.hpp"
#include "support/saved_by_ranks.hpp"
#include "support/scratch.hpp"

#include <cairn/object_store/file.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(failing_calls)

namespace fs = std::filesystem;

namespace {

using support::call_failure;
using support::failing_calls;
using support::told;

/// No crash follows: what is written need not reach the disk, and takes no time.
struct no_disk {
    no_disk() { support::system_calls::get().really_syncs = false; }
};
BOOST_TEST_GLOBAL_FIXTURE(no_disk);

constexpr int stride_of_calls = support::stride_if_sanitized(5);

/// Whether each call fails; otherwise each of so many, and fewer under sanitizers.
bool all_of_them() {
    return std::getenv("CAIRN_ALL_FAULTS") != nullptr;
}

/// Calls `once(at, failure)` for each call and failure until it returns that there was no such
/// call. @return how many failed.
int each_failure(int stride, const std::function<bool(int, call_failure)>& once) {
    stride = all_of_them() ? 1 : stride * stride_of_calls;
    int tried = 0, offset = 0;
    for (auto const& f : support::all_call_failures)
        for (int at = offset++ % stride; once(at, f); at += stride) ++tried;
    return tried;
}

/// A call that a signal interrupts before it does anything is made again.
bool must_succeed(const failing_calls& c, call_failure f) {
    bool retried = true;
    for (auto const* what : {"look", "list"}) retried = retried && c.what() != what;
    return f.error == support::system_calls::half || (f.error == EINTR && !f.afterwards && retried);
}
void check_told(const std::vector<told>& all, const failing_calls& c, call_failure f) {
    BOOST_TEST(c.misused() == "");
    for (auto const& t : all) {
        BOOST_TEST(!t.raw);
        if (must_succeed(c, f)) BOOST_TEST(t.ok());
        // The file that is replaced stands for the temporary one beside it.
        auto const file = c.path().find(".cairn-publish.") != std::string::npos
                              ? fs::path(c.path()).parent_path().string()
                              : c.path();
        if (t.e) BOOST_TEST(std::string(t.e->what()).find(file) != std::string::npos);
    }
}
std::string tree(const fs::path& dir) {
    std::set<std::string> all;
    for (auto const& e : fs::recursive_directory_iterator(dir))
        all.insert(fs::relative(e.path(), dir).string());
    std::string s;
    for (auto const& n : all) s += n + " ";
    return s;
}

/// @param again  Whether there is a checkpoint before.
int fail_saves(int ranks, bool again, int stride) {
    support::scratch scratch;
    auto const dir = scratch.dir / "runs";
    cairn::file_store const base(dir);
    auto const store_of = [&](int) { return base; };
    float v = 1;
    return each_failure(stride, [&](int at, call_failure f) {
        if (!again) fs::remove_all(dir);
        float const old = again ? support::standing(base, ranks) : 0.0f;
        failing_calls calls(scratch.dir.string(), at, f);
        auto const all = support::save_on_ranks(++v, ranks, store_of);
        calls.stop();
        BOOST_TEST_CONTEXT(ranks << " ranks, " << calls.words() << support::words(all)) {
            if (calls.hit()) check_told(all, calls, f);
            support::check_save(base, all, old, v, ranks);
            if (!calls.hit())
                for (auto const& t : all) BOOST_TEST(t.ok());
            support::check_next_save(base, ++v, ranks);
            auto const entries = std::distance(fs::recursive_directory_iterator(scratch.dir),
                                               fs::recursive_directory_iterator());
            BOOST_TEST(entries == ranks + 3, "left: " << tree(scratch.dir));
        }
        return calls.hit();
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_system_call_of_a_save_may_fail) {
    int const tried = fail_saves(1, true, 1) + fail_saves(1, false, 1) + fail_saves(3, true, 3) +
                      fail_saves(3, false, 5);
    std::cout << "faults: " << tried << " system calls, in saves\n";
    BOOST_TEST(tried > 500 / stride_of_calls);
}

BOOST_AUTO_TEST_CASE(each_system_call_of_a_load_may_fail) {
    int tried = 0;
    for (int ranks : {1, 3}) {
        support::scratch scratch;
        cairn::file_store const base(scratch.dir);
        (void)support::save_on_ranks(7, ranks, [&](int) { return base; });
        auto const before = tree(scratch.dir);
        tried += each_failure(ranks, [&](int at, call_failure f) {
            failing_calls calls(scratch.dir.string(), at, f);
            std::atomic<bool> whole{true};
            auto const all = support::on_ranks_that_stay(ranks, [&](auto& me, int rank) {
                support::rank_state s(0, rank, ranks);
                (void)cairn::load(s.dict, "c", support::patient_load(), me,
                                  cairn::file_store(base));
                if (!s.is(7)) whole = false;
            });
            calls.stop();
            BOOST_TEST_CONTEXT(ranks << " ranks, " << calls.words() << support::words(all)) {
                BOOST_TEST(whole);
                if (calls.hit()) check_told(all, calls, f);
                for (auto const& t : all) {
                    BOOST_TEST(!t.is(cairn::errc::timed_out));
                    BOOST_TEST(t.ok() == all[0].ok());
                }
                if (!calls.hit()) BOOST_TEST(all[0].ok());
                BOOST_TEST(tree(scratch.dir) == before);
            }
            return calls.hit();
        });
    }
    std::cout << "faults: " << tried << " system calls, in loads\n";
    BOOST_TEST(tried > 50 / stride_of_calls);
}

BOOST_AUTO_TEST_SUITE_END()
