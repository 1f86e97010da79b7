// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_COMMITTED_IPP
#define CAIRN_CATALOG_IMPL_COMMITTED_IPP

#include <cairn/catalog/detail/committed.hpp>

#include <cairn/catalog/detail/record_list.hpp>
#include <cairn/catalog/retention.hpp>
#include <cairn/catalog/whole.hpp>
#include <cairn/detail/damage.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/format/native/commit_section.hpp>
#include <cairn/format/native/index_magic.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <algorithm>
#include <utility>

namespace cairn::detail {

CAIRN_DECL std::optional<commit_record> read_commit_record(any_store& place) {
    namespace native = format::native;
    constexpr std::size_t tail = 16;  // a length and a magic
    auto file = place.open(metadata_name);
    auto const size = file.size();
    // @return The `n` bytes that end at `end`.
    auto const before = [&](std::uint64_t end, std::uint64_t n) {
        byte_vector bytes(static_cast<std::size_t>(n));
        file.read(end - n, bytes);
        return bytes;
    };
    auto const bad = [&](const char* found) {
        throw error(errc::corrupt, {.file = place.describe(metadata_name),
                                    .expected = "metadata of a checkpoint",
                                    .found = found});
    };
    if (size < tail) bad("fewer bytes than any has");
    auto const end = before(size, tail);
    if (!native::ends_in_index(end)) {
        // PyTorch's end with the STOP of a pickle.
        if (end.back() != std::byte{'.'}) bad("a file that was cut off");
        return {};
    }
    auto const index = wire_reader(end).u64();
    if (index > size) bad("an index of an impossible length");
    auto const at = size - index;
    if (at < tail) return {};
    auto length = native::commit_length_at_end(before(at, tail));
    // Without a record it counts as older than all others: not because of a byte that a network has
    // changed.
    if (length == 0) length = native::commit_length_at_end(before(at, tail));
    if (length == 0) return {};
    if (length < native::commit_tail_bytes || length > at || length > native::most_commit_bytes)
        bad("a commit record of an impossible length");
    auto record = native::decode_commit_section(before(at, length));
    if (record.sequence > most_commits) return {};
    return record;
}

CAIRN_DECL bool is_before_by_number(const std::string& a, const std::string& b) {
    auto const is_digit = [](char c) { return c >= '0' && c <= '9'; };
    std::size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
        if (!is_digit(a[i]) || !is_digit(b[j])) {
            if (a[i] != b[j]) return a[i] < b[j];
            ++i, ++j;
            continue;
        }
        auto const number = [&](const std::string& s, std::size_t& at) {
            while (at < s.size() && s[at] == '0') ++at;
            auto const from = at;
            while (at < s.size() && is_digit(s[at])) ++at;
            return s.substr(from, at - from);
        };
        auto const x = number(a, i), y = number(b, j);
        if (x.size() != y.size()) return x.size() < y.size();
        if (x != y) return x < y;
    }
    if (i < a.size() || j < b.size()) return i == a.size();
    return a < b;
}

CAIRN_DECL found_places find_places(any_store root, cairn::activity* activity,
                                    known_records* known) {
    found_places out;
    known_records now, none;
    auto all = root.places_with(metadata_name);
    auto& before = known != nullptr ? *known : none;
    auto const is_known = [&](const place_info& at) {
        auto const it = before.find(at.id);
        if (it == before.end()) return false;
        return at.tag ? it->second.tag == *at.tag
                      : at.modified != 0 && it->second.modified == at.modified;
    };
    // A record takes some requests, as the list of all does.
    auto const unknown = std::count_if(all.begin(), all.end(), [&](const place_info& at) {
        return at.tag && !at.tag->text.empty() && !is_known(at);
    });
    if (unknown > 1) {
        auto listed = read_record_list(root);
        for (auto const& at : all)
            if (auto const it = listed.find(at.id); it != listed.end() && !is_known(at))
                before.insert_or_assign(at.id, std::move(it->second));
    }
    for (auto& at : all) {
        if (activity != nullptr) activity->advance();
        committed_checkpoint c;
        c.id = at.id;
        c.linked = at.linked;
        if (at.tag && at.tag->text.empty()) {
            out.others.push_back(std::move(at));
            continue;
        }
        if (is_known(at)) {
            auto const it = before.find(at.id);
            c.record = it->second.record;
            now.insert(before.extract(it));
            out.committed.push_back(std::move(c));
            continue;
        }
        try {
            auto place = root.at(c.id);
            auto read = once_more_if_damaged([&] {
                return unless_removed(place, metadata_name,
                                      [&] { return read_commit_record(place); });
            });
            if (!read) {
                out.others.push_back(std::move(at));
                continue;
            }
            c.record = std::move(*read);
            now[c.id] = {at.modified, at.tag.value_or(object_tag()), false, c.record};
        } catch (...) {
            auto const why = current_problem();
            c.problem = why.text;
            c.damaged = why.damaged;
            if (why.denied) {
                out.denied.push_back(std::move(c));
                continue;
            }
        }
        out.committed.push_back(std::move(c));
    }
    if (known != nullptr) *known = std::move(now);
    sort_by_commit(out.committed);
    return out;
}

CAIRN_DECL bool is_step_name(std::string_view id) {
    constexpr std::string_view step = "step_";
    return id.starts_with(step) && id.size() > step.size() &&
           id.find_first_not_of("0123456789", step.size()) == id.npos;
}

CAIRN_DECL bool is_before_by_commit(const committed_checkpoint& a, const committed_checkpoint& b) {
    auto const kind = [](const committed_checkpoint& c) {
        return !c.problem.empty() ? 2 : c.record ? 1 : 0;
    };
    if (kind(a) != kind(b)) return kind(a) < kind(b);
    return a.record && b.record ? is_older(*a.record, *b.record) : is_before_by_number(a.id, b.id);
}
CAIRN_DECL void sort_by_commit(std::vector<committed_checkpoint>& all) {
    std::sort(all.begin(), all.end(), is_before_by_commit);
}

}  // namespace cairn::detail

#endif
