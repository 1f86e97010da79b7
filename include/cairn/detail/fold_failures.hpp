// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_FOLD_FAILURES_HPP
#define CAIRN_DETAIL_FOLD_FAILURES_HPP

#include <cairn/error.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Sorts ranges and joins those that touch.
inline void normalise(std::vector<rank_range>& ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const rank_range& a, const rank_range& b) { return a.first < b.first; });
    std::size_t kept = 0;
    for (std::size_t i = 1; i < ranges.size(); ++i) {
        if (ranges[i].first <= ranges[kept].last + 1)
            ranges[kept].last = std::max(ranges[kept].last, ranges[i].last);
        else
            ranges[++kept] = ranges[i];
    }
    if (!ranges.empty()) ranges.resize(kept + 1);
}

/// Formats `rank 3`, `ranks 0-3, 7`; of many ranges only the first few.
inline std::string to_string(const std::vector<rank_range>& ranges) {
    constexpr std::size_t shown = 8;
    std::string s = ranges.size() == 1 && ranges[0].first == ranges[0].last ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranges.size() && i < shown; ++i) {
        if (i != 0) s += ", ";
        s += std::to_string(ranges[i].first);
        if (ranges[i].last != ranges[i].first) s += "-" + std::to_string(ranges[i].last);
    }
    return ranges.size() > shown ? s + ", ..." : s;
}

/// Merges the failures of all ranks into what every rank receives: those that differ only in the
/// rank become one; if there are many kinds, the first are listed, and only the ranks of the
/// others.
class failure_folder {
public:
    static constexpr std::size_t most = 64;
    static constexpr std::size_t most_bytes = std::size_t{64} << 10;

    void add(const rank_failure& f) {
        auto ranks = f.ranks;
        if (ranks.empty() && f.where.rank >= 0) ranks.push_back({f.where.rank, f.where.rank});
        auto plain = text_alone(f);
        auto key = std::string(f.code.category().name()) + '\0' + std::to_string(f.code.value()) +
                   '\0' + plain;
        auto it = known_.find(key);
        if (it == known_.end()) {
            auto const bytes = f.text.size() + f.where.fqn.size() + f.where.file.size() +
                               f.where.expected.size() + f.where.found.size() +
                               f.where.remedy.size();
            if (kinds_.size() == most || bytes_ + bytes > most_bytes) {
                append(others_, ranks);
                return;
            }
            bytes_ += bytes;
            it = known_.emplace(std::move(key), kinds_.size()).first;
            kinds_.push_back({f, std::move(plain), {}});
        }
        append(kinds_[it->second].ranks, ranks);
    }

    /// Returns the failures in order of arrival; omitted ones come last, as one.
    std::vector<rank_failure> take() {
        std::vector<rank_failure> out;
        for (auto& k : kinds_) {
            normalise(k.ranks);
            auto& f = out.emplace_back(std::move(k.first));
            if (!is_one(k.ranks)) f.text = to_string(k.ranks) + ": " + k.text;
            f.ranks = std::move(k.ranks);
        }
        if (!others_.empty()) {
            normalise(others_);
            rank_failure rest{
                make_error_code(errc::rank_failed), {.rank = others_.front().first}, {}, others_};
            rest.where.found = "other failures of " + to_string(others_);
            rest.text = rest.where.found;
            out.push_back(std::move(rest));
        }
        return out;
    }

private:
    struct kind {
        rank_failure first;
        std::string text;  ///< Without the ranks in front.
        std::vector<rank_range> ranks;
    };

    static bool is_one(const std::vector<rank_range>& r) {
        return r.empty() || (r.size() == 1 && r[0].first == r[0].last);
    }
    static std::string text_alone(const rank_failure& f) {
        auto const ranks =
            f.ranks.empty() ? std::vector<rank_range>{{f.where.rank, f.where.rank}} : f.ranks;
        auto const prefix = to_string(ranks) + ": ";
        return f.text.starts_with(prefix) ? f.text.substr(prefix.size()) : f.text;
    }
    static void append(std::vector<rank_range>& to, const std::vector<rank_range>& ranks) {
        for (auto const& r : ranks) {
            if (!to.empty() && r.first >= to.back().first && r.first <= to.back().last + 1)
                to.back().last = std::max(to.back().last, r.last);
            else
                to.push_back(r);
        }
    }

    std::unordered_map<std::string, std::size_t> known_;  ///< Code and text → position.
    std::vector<kind> kinds_;
    std::vector<rank_range> others_;
    std::size_t bytes_ = 0;
};

}  // namespace cairn::detail

#endif
