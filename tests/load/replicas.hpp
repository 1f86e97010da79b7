// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_LOAD_REPLICAS_HPP
#define CAIRN_TESTS_LOAD_REPLICAS_HPP

#include "support/fault_store.hpp"
#include "support/sanitized.hpp"

#include <cairn/cairn.hpp>
#include <cairn/comm/communicator_data_plane.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// States of which ranks have much in common, and ranks with data planes to load them.
namespace replicas {

/// For `load_options::read_once_from`.
inline constexpr std::uint64_t always = 0, never = cairn::read_once_never;
using member = cairn::thread_group::member;

inline constexpr std::int64_t n_rows = 24, n_columns = 10;

inline std::vector<float> numbers(std::size_t n, float from) {
    std::vector<float> v(n);
    std::iota(v.begin(), v.end(), from);
    return v;
}
inline cairn::tensor_view matrix(std::vector<float>& v) {
    return {cairn::dtype::float32, {n_rows, n_columns}, v.data()};
}

/// What is stored: "r0" to "r5" for all, "s" by rows, two copies of one tied weight, a value.
struct stored {
    std::vector<std::vector<float>> replicated{};
    std::vector<float> s, tied_1, tied_2;
    std::vector<double> d{1.5, 2.5, 3.5};
    std::int64_t step = 7;

    explicit stored(float from = 0)
        : s(numbers(n_rows * n_columns, from + 5000)), tied_1(numbers(50, from + 9000)),
          tied_2(tied_1) {
        for (int i = 0; i < 6; ++i)
            replicated.push_back(numbers(n_rows * n_columns, from + 300 * static_cast<float>(i)));
    }
    cairn::state_dict dict() {
        cairn::state_dict sd;
        for (std::size_t i = 0; i < replicated.size(); ++i)
            sd["r" + std::to_string(i)] = matrix(replicated[i]);
        sd["s"] = matrix(s);
        sd["tied_1"] = tied_1;
        sd["tied_2"] = tied_2;
        sd["d"] = d;
        sd["step"] = cairn::value(step);
        return sd;
    }
};

/// What one rank of many wants of it: all replicated ones, r1 transposed, r2 converted, one that
/// every second rank wants, its rows, tied weights as one memory.
struct wanted {
    int rank, size;
    std::vector<std::vector<float>> replicated =
        std::vector<std::vector<float>>(6, std::vector<float>(n_rows* n_columns));
    std::vector<double> converted = std::vector<double>(n_rows * n_columns);
    std::vector<float> rows{}, tied = std::vector<float>(50);
    std::vector<double> d = std::vector<double>(3);
    std::int64_t step = 0;
    cairn::box region{};

    wanted(int r, int n) : rank(r), size(n) {
        region = cairn::boxes_of({n_rows, n_columns}, cairn::device_mesh::line(n),
                                 {cairn::shard_along{0}}, r)
                     .at(0);
        rows.resize(static_cast<std::size_t>(region.volume()));
    }
    bool has(std::size_t i) const { return i != 5 || rank % 2 == 0; }
    cairn::state_dict dict() {
        cairn::state_dict sd;
        for (std::size_t i = 0; i < replicated.size(); ++i)
            if (i != 1 && i != 2 && has(i)) sd["r" + std::to_string(i)] = matrix(replicated[i]);
        sd["r1"] = cairn::tensor_view(cairn::dtype::float32, {n_rows, n_columns}, {1, n_rows},
                                      replicated[1].data());
        sd["r2"] = cairn::tensor_view(cairn::dtype::float64, {n_rows, n_columns}, converted.data());
        cairn::tensor_view const v(cairn::dtype::float32, region.shape, rows.data());
        sd["s"] = cairn::sharded_view{{n_rows, n_columns}, v.type, {cairn::shard(region, v)}};
        sd["tied_1"] = tied;
        sd["tied_2"] = tied;
        sd["d"] = d;
        sd["step"] = std::ref(step);
        return sd;
    }
    bool is(const stored& from) const {
        auto transposed = from.replicated[1];
        for (std::int64_t y = 0; y < n_rows; ++y)
            for (std::int64_t x = 0; x < n_columns; ++x)
                transposed[static_cast<std::size_t>(x * n_rows + y)] =
                    from.replicated[1][static_cast<std::size_t>(y * n_columns + x)];
        for (std::size_t i = 0; i < replicated.size(); ++i)
            if (i != 1 && i != 2 && has(i) && replicated[i] != from.replicated[i]) return false;
        auto const skip = static_cast<std::ptrdiff_t>(region.offsets[0] * n_columns);
        return replicated[1] == transposed &&
               std::equal(converted.begin(), converted.end(), from.replicated[2].begin()) &&
               std::equal(rows.begin(), rows.end(), from.s.begin() + skip) && tied == from.tied_1 &&
               d == from.d && step == from.step;
    }
};

inline cairn::load_options how(std::uint64_t read_once_from) {
    cairn::load_options o;
    o.read_once_from = read_once_from;
    o.planner.dtypes = cairn::dtype_policy::convert;
    return o;
}

/// Calls `f(member, plane)` on `n` ranks that have groups of their own for data.
/// @param plane_of  By rank: the number of its plane. Empty: all are on one.
template <class F>
std::vector<std::exception_ptr> try_with_planes(int n, F&& f, std::vector<int> plane_of = {}) {
    plane_of.resize(static_cast<std::size_t>(n));
    cairn::thread_group control(n);
    std::map<int, cairn::thread_group> data;
    for (int const p : plane_of)
        if (!data.contains(p))
            data.emplace(p, static_cast<int>(std::count(plane_of.begin(), plane_of.end(), p)));
    std::map<int, int> seats;
    std::vector<std::pair<member, member>> members;
    for (int r = 0; r < n; ++r) {
        int const p = plane_of[static_cast<std::size_t>(r)];
        members.emplace_back(control.rank(r), data.at(p).rank(seats[p]++));
    }
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(n));
    std::vector<std::thread> threads;
    for (int r = 0; r < n; ++r) {
        auto const i = static_cast<std::size_t>(r);
        threads.emplace_back(
            [&f, &failure = failures[i], m = std::move(members[i]), group = plane_of[i]]() mutable {
                try {
                    cairn::communicator_data_plane plane(m.second, group);
                    f(m.first, plane);
                } catch (...) {
                    failure = std::current_exception();
                }
                m.first.leave();
                m.second.leave();
            });
    }
    for (auto& t : threads) t.join();
    return failures;
}
template <class F>
void with_planes(int n, F&& f, std::vector<int> plane_of = {}) {
    for (auto const& e : try_with_planes(n, f, std::move(plane_of)))
        if (e) std::rethrow_exception(e);
}
/// Counts its broadcasts and fails one of them, on this rank alone.
template <class Inner>
class bad_plane {
public:
    bad_plane(Inner& inner, int fail_at, bool throws)
        : inner_(&inner), fail_at_(fail_at), throws_(throws) {}
    int rank() const { return inner_->rank(); }
    int size() const { return inner_->size(); }
    int plane_id() const { return inner_->plane_id(); }
    void cancel() noexcept { inner_->cancel(); }
    bool serves(cairn::device_id d) const { return inner_->serves(d); }
    void broadcast(cairn::memory_span b, int root, cairn::deadline d,
                   cairn::completion<cairn::done_t> done) {
        if (calls_++ != fail_at_) return inner_->broadcast(b, root, d, std::move(done));
        cairn::error const e(cairn::errc::io, {.rank = rank(), .found = "injected into broadcast"});
        if (throws_) throw e;
        done.fail(std::make_exception_ptr(e));
    }
    int calls() const { return calls_; }

private:
    Inner* inner_;
    int fail_at_;
    bool throws_;
    int calls_ = 0;
};
static_assert(cairn::DataPlane<bad_plane<cairn::communicator_data_plane<member>>>);

/// On the threads of ranks, where Boost.Test's macros must not be used.
inline void must(bool ok, const char* what) {
    if (!ok) throw std::runtime_error(what);
}

/// Loads again and again; each operation of rank `bad` on storage fails in turn, until none is
/// left; sampled under sanitizers. Each time all ranks have that one error, or none has.
/// @param wanted_by  `wanted_by(rank)` is what a rank wants.
/// @return How many operations were failed.
template <class F>
int fail_reads_in_turn(int bad, int n, F wanted_by, const std::vector<int>& plane_of = {}) {
    cairn::memory_store memory;
    stored from;
    cairn::save(from.dict(), "c", memory);
    int const stride = support::stride_if_sanitized(3);
    int failed = 0;
    for (int at = bad % stride;; at += stride, ++failed) {
        std::atomic<int> calls{0};
        auto const errors = try_with_planes(
            n,
            [&](member& me, auto& plane) {
                wanted to = wanted_by(me.rank());
                auto sd = to.dict();
                support::fault_store store(memory, me.rank() == bad ? at : -1);
                auto const note = [&] {
                    if (me.rank() == bad) calls = store.calls();
                };
                try {
                    (void)cairn::load(sd, "c", how(always), me, plane, store);
                } catch (const cairn::error& e) {
                    note();
                    must(e.failures().size() == 1 && e.context().rank == bad &&
                             std::string(e.what()).find("injected") != std::string::npos,
                         "an error that does not say why");
                    throw;
                }
                note();
                must(to.is(from), "a rank has another state");
            },
            plane_of);
        auto const fine = std::count(errors.begin(), errors.end(), nullptr);
        BOOST_TEST_CONTEXT("rank " << bad << ", operation " << at) {
            BOOST_TEST((fine == 0 || fine == n));
            BOOST_TEST((fine == n) == (calls <= at));
        }
        if (fine != 0) return failed;
        for (auto const& e : errors) BOOST_CHECK_THROW(std::rethrow_exception(e), cairn::error);
    }
}

}  // namespace replicas

#endif
