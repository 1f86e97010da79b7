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

/// Keys of the checkpoint that no rank asks for: found on the coordinator, and sent to each rank in
/// a few bytes, because all ranks know the checkpoint's keys.
class unexpected_keys {
public:
    /// @param candidates  Keys that one of the ranks does not ask for. They must outlive this.
    unexpected_keys(const std::vector<std::string>& candidates, const std::vector<load_plan>& all)
        : keys_(candidates.begin(), candidates.end()) {
        for (auto const& p : all) {
            if (keys_.empty()) return;
            for (auto const& i : p.items) keys_.erase(i.fqn);
            for (auto const& fqn : p.no_items) keys_.erase(fqn);
        }
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
    std::set<std::string_view> keys_;
};

}  // namespace cairn::detail

#endif
