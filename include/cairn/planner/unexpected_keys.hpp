// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_UNEXPECTED_KEYS_HPP
#define CAIRN_PLANNER_UNEXPECTED_KEYS_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Keys of the checkpoint that no rank asks for: found on the coordinator, and sent to and by each
/// rank in a few bytes, because all ranks know the checkpoint's keys.
class unexpected_keys {
public:
    /// @param candidates  Keys that one of the ranks does not ask for. They must outlive this.
    explicit unexpected_keys(const std::vector<std::string>& candidates)
        : keys_(candidates.begin(), candidates.end()) {}

    /// Leaves those that all of these plans' ranks do not ask for either, as their items show, and
    /// what @ref of_rank has put there.
    /// @throws error errc::corrupt
    void keep_those_of_all(const std::vector<load_plan>& all, const metadata& m) {
        for (auto const& p : all) {
            if (keys_.empty()) return;
            if (p.planner_data.starts_with(mark_of_rank)) {
                auto const theirs = decode(p.planner_data.substr(mark_of_rank.size()), m);
                std::set<std::string_view> const left(theirs.begin(), theirs.end());
                std::erase_if(keys_, [&](auto key) { return left.count(key) == 0; });
            }
            for (auto const& i : p.items) keys_.erase(i.fqn);
            for (auto const& fqn : p.no_items) keys_.erase(fqn);
        }
    }
    /// Returns what one rank sends, as `load_plan::planner_data`.
    std::string of_rank(const metadata& m) const { return std::string(mark_of_rank) + encode(m); }
    /// Returns what all ranks receive.
    std::string of_all(const metadata& m) const { return std::string(mark_of_all) + encode(m); }
    /// Replaces `keys` if this is what `of_all` has returned.
    /// @throws error errc::corrupt
    static void receive(const std::string& data, const metadata& m,
                        std::vector<std::string>& keys) {
        if (data.starts_with(mark_of_all)) keys = decode(data.substr(mark_of_all.size()), m);
    }
    bool empty() const noexcept { return keys_.empty(); }
    std::size_t size() const noexcept { return keys_.size(); }
    std::string first() const { return std::string(*keys_.begin()); }

    /// Encodes runs of keys that alternately are not and are among them, in the order of the
    /// metadata. Never empty.
    std::string encode(const metadata& m) const {
        wire_writer w;
        std::uint64_t run = 0;
        bool among = false;
        for (auto const& [fqn, entry] : m.entries) {
            if ((keys_.count(fqn) != 0) != among) {
                w.varint(std::exchange(run, 0));
                among = !among;
            }
            ++run;
        }
        w.varint(run);
        return {reinterpret_cast<const char*>(w.written().data()), w.size()};
    }
    /// @throws error errc::corrupt
    static std::vector<std::string> decode(const std::string& data, const metadata& m) {
        wire_reader r(std::as_bytes(std::span(data.data(), data.size())));
        std::vector<std::string> keys;
        auto it = m.entries.begin();
        std::uint64_t left = m.entries.size();
        for (bool among = false; r.left() != 0; among = !among) {
            auto run = r.varint();
            if (run > left) wire_reader::fail("more keys than the checkpoint has");
            left -= run;
            for (; run > 0; --run, ++it)
                if (among) keys.push_back(it->first);
        }
        return keys;
    }

private:
    static constexpr std::string_view mark_of_rank = "keys of a rank:", mark_of_all = "keys:";

    std::set<std::string_view> keys_;
};

}  // namespace cairn::detail

#endif
