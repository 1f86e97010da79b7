// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_CATALOG_HPP
#define CAIRN_TEST_FUZZ_CATALOG_HPP

#include "checkpoint.hpp"
#include "edit.hpp"
#include "files.hpp"

#include <cairn/catalog/detail/place_content.hpp>
#include <cairn/catalog/garbage.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/catalog/listing.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

/// Many checkpoints in one place, with what saves, removals and readers have left there.
namespace fuzz {

/// The files of one place of a root: names up to the slash.
inline std::map<std::string, support::crafted> places_of(const support::crafted& root) {
    std::map<std::string, support::crafted> all;
    for (auto const& [name, content] : root.files)
        if (auto const slash = name.find('/'); slash != name.npos)
            all[name.substr(0, slash)].files[name.substr(slash + 1)] = content;
    return all;
}

inline void seal_place(support::crafted& place) {
    for (auto& [name, content] : place.files)
        if (name.starts_with(".saving.") || name.starts_with(".reading.")) seal_end(content);
    place.seal();
}

/// Files of every complete checkpoint, and those that its metadata names.
using standing = std::map<std::string, std::set<std::string>>;
inline standing complete_ones(cairn::memory_store& store) {
    standing all;
    for (auto const& l : cairn::list_checkpoints(store, cairn::verify_level::full)) {
        if (l.state != cairn::checkpoint_state::complete) continue;
        auto place = store.at(l.id);
        all[l.id] =
            cairn::detail::files_of(cairn::format::native::parse_metadata_file(
                                        cairn::read_whole(place, cairn::detail::metadata_name))
                                        .meta);
    }
    return all;
}
inline std::set<std::string> names_in(const cairn::memory_store& store, const std::string& id) {
    std::set<std::string> names;
    for (auto const& info : store.at(id).list()) names.insert(info.name);
    return names;
}

/// `list`, `latest` and `gc`: nothing that stands is harmed, and nothing else but data files of
/// cairn's, intents and notices is removed.
inline void catalog(bytes b) {
    auto const root = unpack(b);
    cairn::memory_store store;
    std::set<std::string> ids;
    for (auto [id, place] : places_of(root)) {
        seal_place(place);
        for (auto const& [name, content] : place.files)
            if (auto const full = id + "/" + name; cairn::detail::is_object_name(full)) {
                store.publish(full, content, std::nullopt);
                ids.insert(id);
            }
    }
    for (auto const level : {cairn::verify_level::metadata, cairn::verify_level::sampled})
        (void)cairn::list_checkpoints(store, level);
    auto const before = complete_ones(store);

    auto const newest = cairn::latest(
        store, {.verify = cairn::verify_level::full, .on_skipped = [](const std::string&) {}});
    if (newest.has_value() != !before.empty() || (newest && before.count(*newest) == 0))
        throw support::finding("latest is not a complete checkpoint");

    std::map<std::string, std::set<std::string>> names;
    for (auto const& id : ids) names[id] = names_in(store, id);
    (void)cairn::collect_garbage(store, true);
    for (auto const& id : ids)
        if (names_in(store, id) != names[id]) throw support::finding("a dry run removes");
    (void)cairn::collect_garbage(store);
    for (auto const& id : ids) {
        auto const now = names_in(store, id);
        auto const stands = before.find(id);
        for (auto const& name : names[id]) {
            if (now.count(name) != 0) continue;
            bool const ours = cairn::detail::is_intent_name(name) ||
                              cairn::detail::is_reading_name(name) ||
                              cairn::detail::is_data_name(name);
            if (!ours || (stands != before.end() && stands->second.count(name) != 0))
                throw support::finding("gc removes '" + id + "/" + name + "'");
        }
    }
    if (complete_ones(store) != before) throw support::finding("gc harms a checkpoint");
    (void)cairn::latest(store, {.verify = cairn::verify_level::full,
                                .quarantine = true,
                                .on_skipped = [](const std::string&) {}});
    if (complete_ones(store) != before) throw support::finding("latest harms a checkpoint");
    if (before.empty()) cairn::detail::wire_reader::fail("no complete checkpoint");
}

/// What a place consists of, its intents and notices; and files of one place in another.
inline input change_catalog(bytes b, engine& e) {
    auto root = unpack(b);
    for (auto n = 1 + e.below(3); n > 0; --n) {
        auto places = places_of(root);
        if (places.empty()) break;
        auto const it = e.any(places);
        auto& place = it->second;
        auto const one = e.any(place.files);
        switch (e.below(4)) {
            case 0: {
                auto const& from = e.any(places)->second.files;
                auto const other = e.any(from);
                place.files[e.one_in(2) ? one->first : other->first] =
                    support::crafted::bytes(other->second);
                break;
            }
            case 1:
            case 2:
                try {
                    if (one->first.starts_with(".saving."))
                        one->second = change_intent(one->second, e);
                    else if (one->first.starts_with(".reading."))
                        one->second = change_notice(one->second, e);
                    else
                        editor(place, e).edit();
                } catch (const cairn::error&) {
                    change_bytes(one->second, b, e);
                }
                break;
            default: editor(place, e).edit();
        }
        for (auto r = root.files.begin(); r != root.files.end();)
            r = r->first.starts_with(it->first + "/") ? root.files.erase(r) : std::next(r);
        for (auto& [name, content] : place.files) root.files[it->first + "/" + name] = content;
    }
    return pack(root);
}

}  // namespace fuzz

#endif
