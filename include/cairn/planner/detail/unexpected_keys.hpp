// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_UNEXPECTED_KEYS_HPP
#define CAIRN_PLANNER_DETAIL_UNEXPECTED_KEYS_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Keys of the checkpoint that no rank asks for: found on the coordinator, and sent to and by each
/// rank in a few bytes, because all ranks know the checkpoint's keys and their order.
class unexpected_keys {
public:
    /// @param candidates  Keys of `m` that one of the ranks does not ask for.
    /// @param m           Must outlive this.
    unexpected_keys(const std::vector<std::string>& candidates, const metadata& m) {
        keys_.reserve(m.entries.size());
        for (auto const& [fqn, entry] : m.entries) keys_.push_back(fqn);
        among_.resize(keys_.size(), 0);
        for (auto const& fqn : candidates)
            if (auto* const one = find(fqn)) *one = 1;
    }

    /// Keeps only keys that none of the ranks of these plans asks for, according to their items and
    /// the result of @ref of_rank. A plan with neither, e.g. one of another planner whose items
    /// stay on its rank, may ask for every key.
    /// @throws error errc::corrupt
    void keep_those_of_all(const std::vector<load_plan>& all) {
        if (empty()) return;
        auto const not_this = [this](const std::string& fqn) {
            if (auto* const one = find(fqn)) *one = 0;
        };
        for (auto const& p : all) {
            if (p.planner_data.starts_with(mark_of_rank)) {
                auto const runs = std::string_view(p.planner_data).substr(mark_of_rank.size());
                for_each_run(runs, keys_.size(), [this](auto begin, auto end, bool unwanted) {
                    if (!unwanted) std::fill_n(among_.begin() + begin, end - begin, char{0});
                });
            } else if (p.items.empty() && p.no_items.empty()) {
                std::fill(among_.begin(), among_.end(), char{0});
            }
            for (auto const& i : p.items) not_this(i.fqn);
            for (auto const& fqn : p.no_items) not_this(fqn);
        }
    }

    bool empty() const noexcept { return size() == 0; }
    std::size_t size() const noexcept {
        return static_cast<std::size_t>(std::count(among_.begin(), among_.end(), char{1}));
    }
    /// @pre !empty()
    std::string first() const {
        auto const at = std::find(among_.begin(), among_.end(), char{1}) - among_.begin();
        return std::string(keys_[static_cast<std::size_t>(at)]);
    }

    /// Returns the message of one rank, for `load_plan::planner_data`.
    std::string of_rank() const { return std::string(mark_of_rank) + encode(); }
    /// Returns the message to all ranks.
    std::string of_all() const { return std::string(mark_of_all) + encode(); }
    /// Replaces `keys` if `data` is a result of `of_all`.
    /// @throws error errc::corrupt
    static void receive(const std::string& data, const metadata& m,
                        std::vector<std::string>& keys) {
        if (data.starts_with(mark_of_all))
            keys = decode(std::string_view(data).substr(mark_of_all.size()), m);
    }

    /// Encodes runs of keys that alternately are not and are among them, in the order of the
    /// metadata. Never empty.
    std::string encode() const {
        wire_writer w;
        std::uint64_t run = 0;
        char among = 0;
        for (auto const one : among_) {
            if (one != among) {
                w.varint(std::exchange(run, 0));
                among = one;
            }
            ++run;
        }
        w.varint(run);
        return {reinterpret_cast<const char*>(w.written().data()), w.size()};
    }
    /// @throws error errc::corrupt
    static std::vector<std::string> decode(std::string_view data, const metadata& m) {
        std::vector<std::string> keys;
        auto it = m.entries.begin();
        for_each_run(data, m.entries.size(), [&](auto begin, auto end, bool among) {
            for (; begin != end; ++begin, ++it)
                if (among) keys.push_back(it->first);
        });
        return keys;
    }

private:
    // No text of another planner begins like that.
    static constexpr std::string_view mark_of_rank{"\0keys of a rank", 15},
        mark_of_all{"\0keys of all", 12};

    /// Calls f(begin, end, among) for positions in the order of the metadata.
    template <class F>
    static void for_each_run(std::string_view data, std::size_t keys, F&& f) {
        wire_reader r(std::as_bytes(std::span(data.data(), data.size())));
        std::uint64_t at = 0;
        for (bool among = false; r.left() != 0; among = !among) {
            auto const run = r.varint();
            if (run > keys - at) wire_reader::fail("more keys than the checkpoint has");
            f(static_cast<std::ptrdiff_t>(at), static_cast<std::ptrdiff_t>(at + run), among);
            at += run;
        }
    }
    /// Null if there is no such key.
    char* find(std::string_view fqn) {
        auto const it = std::lower_bound(keys_.begin(), keys_.end(), fqn);
        return it == keys_.end() || *it != fqn ? nullptr : among_.data() + (it - keys_.begin());
    }

    std::vector<std::string_view> keys_{};  ///< All of the metadata's.
    std::vector<char> among_{};             ///< Of each: 1 if it is one of these.
};

}  // namespace cairn::detail

#endif
