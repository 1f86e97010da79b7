// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_MISSING_RANK_HPP
#define CAIRN_COMM_DETAIL_TREE_MISSING_RANK_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A rank that had not called when a deadline passed.
struct missing_rank {
    int rank = 0;
    bool answered = false;  ///< It is alive, but busy elsewhere.
    std::string phase{};    ///< Its activity; see `activity`. Empty: unknown.
    std::uint64_t in = 0;   ///< Milliseconds since it entered that phase …
    /// … and since its work, or its last exchange, last advanced.
    std::uint64_t idle = UINT64_MAX;

    void works_on(const activity::snapshot& a) {
        if (a.phase.empty()) return;
        phase = a.phase;
        in = in_ms(a.in);
        idle = std::min(idle, in_ms(a.idle));
    }
    /// Whether it makes progress, so that waiting is justified.
    bool works(std::uint64_t given) const { return answered && idle < given; }

    static std::uint64_t in_ms(std::chrono::steady_clock::duration d) {
        using std::chrono::duration_cast, std::chrono::milliseconds;
        return static_cast<std::uint64_t>(
            std::max<std::int64_t>(0, duration_cast<milliseconds>(d).count()));
    }
};

/// At most 64: an error names no more. Stuck ranks precede active ones.
inline message encode_missing(std::vector<missing_rank> all) {
    constexpr std::size_t most = 64;
    auto const idle = [](const missing_rank& m) { return m.answered ? m.idle : UINT64_MAX; };
    std::stable_sort(all.begin(), all.end(),
                     [&](auto const& a, auto const& b) { return idle(a) > idle(b); });
    all.resize(std::min(most, all.size()));
    wire_writer w;
    w.varint(all.size());
    for (auto const& m : all) {
        w.varint(static_cast<std::uint64_t>(m.rank));
        w.u8(m.answered);
        w.string(m.phase);
        w.varint(m.in);
        w.varint(m.idle);
    }
    return w.take();
}
inline std::vector<missing_rank> decode_missing(std::span<const std::byte> b) {
    wire_reader r(b);
    std::vector<missing_rank> all;
    for (auto n = r.count(5); n-- > 0;) {
        missing_rank m;
        m.rank = static_cast<int>(r.varint() & INT32_MAX);
        m.answered = r.u8() != 0;
        m.phase = r.string();
        m.in = r.varint();
        m.idle = r.varint();
        all.push_back(std::move(m));
    }
    return all;
}

/// How much longer to wait for missing but active ranks, each of which may be idle for `given`; 0
/// if one of them is stuck or does not answer.
inline std::chrono::milliseconds worth_waiting(const std::vector<missing_rank>& missing,
                                               std::chrono::milliseconds given) {
    auto most = given;
    for (auto const& m : missing) {
        if (!m.works(static_cast<std::uint64_t>(given.count()))) return {};
        most = std::min(most, given - std::chrono::milliseconds(m.idle));
    }
    return most;
}

/// "rank 1 did not arrive (in write for 12.3 s), rank 4 does not answer"
inline std::string describe(const std::vector<missing_rank>& missing) {
    constexpr std::size_t most = 8;
    std::string s;
    for (std::size_t i = 0; i < missing.size() && i < most; ++i) {
        auto const& m = missing[i];
        s += (s.empty() ? "rank " : ", rank ") + std::to_string(m.rank);
        s += m.answered ? " did not arrive" : " does not answer";
        if (!m.phase.empty()) {
            s += " (in " + m.phase + " for " + std::to_string(m.in / 1000) + "." +
                 std::to_string(m.in % 1000 / 100) + " s)";
        }
    }
    if (missing.size() > most) s += ", and " + std::to_string(missing.size() - most) + " more";
    return s;
}

/// The error that all ranks of the exchange get.
inline error too_late(const std::vector<missing_rank>& missing) {
    return {errc::timed_out,
            {.rank = missing.empty() ? -1 : missing[0].rank,
             .expected = "every rank in time",
             .found = describe(missing),
             .remedy = "make a new group"}};
}

}  // namespace cairn::detail

#endif
