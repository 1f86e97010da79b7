// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_WHOLE_IPP
#define CAIRN_CATALOG_IMPL_WHOLE_IPP

#include <cairn/catalog/whole.hpp>

#include <cairn/catalog/detail/place_content.hpp>
#include <cairn/catalog/detail/verification.hpp>
#include <cairn/detail/damage.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/fits_in.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/metadata/detail/locations.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/data_file.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL metadata read_checked_metadata(any_store& place) {
    try {
        auto m = format::native::parse_metadata_file(read_whole(place, metadata_name)).meta;
        check_metadata(m);
        return m;
    } catch (const error& e) {
        throw completed(e, {.file = place.describe(metadata_name)});
    }
}

/// @throws error for a file that is missing or has another size
inline void check_files(any_store& place, const metadata& m, const storage_setup& me) {
    std::map<std::string, std::uint64_t> ends;
    for (auto const& [name, size] : m.file_sizes) ends[name] = 0;
    for_each_stored(m, [&](const std::string& file, std::uint64_t offset, std::uint64_t length) {
        auto& end = ends[file];
        end = std::max(end, fits_in(offset, length, UINT64_MAX) ? offset + length : UINT64_MAX);
    });
    // Where each file that is opened is a request, one that is listed with its size is not.
    std::map<std::string, std::uint64_t> listed;
    if (ends.size() > 1 && requests_in_flight_of(place) > 1)
        for (auto& o : place.list()) listed.emplace(std::move(o.name), o.size);
    for (auto const& [name, end] : ends) {
        auto const there = listed.find(name);
        auto const size = m.file_sizes.find(name);
        if (there != listed.end() && size != m.file_sizes.end() && there->second == size->second &&
            end <= size->second)
            continue;
        check_size(place, name, m, open_data_file(place, name).size(), end);
        if (me.activity) me.activity->advance();
    }
}

CAIRN_DECL checkpoint_problem current_problem() {
    auto const e = std::current_exception();
    checkpoint_problem p;
    p.text = text_of(e);
    if (p.text.empty()) p.text = "an unknown exception";
    try {
        std::rethrow_exception(e);
    } catch (const error& x) {
        p.damaged = is_damage(x.code());
        p.denied = x.code() == make_error_code(errc::permission_denied);
    } catch (...) {
    }
    if (!p.damaged) p.error = e;
    return p;
}

inline checkpoint_problem problem_of_one(any_store& place, const metadata& m, verify_level level,
                                         const storage_setup& me) {
    try {
        check_files(place, m, me);
        if (level == verify_level::metadata) return {};
        constexpr std::uint64_t sample = 64;
        verification v(place, {.one_in = level == verify_level::full ? 1 : sample,
                               .share = static_cast<std::size_t>(me.rank),
                               .shares = static_cast<std::size_t>(me.world_size),
                               .stop_at_first = true,
                               .activity = me.activity});
        if (v.run(m)) return {};
        checkpoint_problem p;
        p.text = v.findings().front();
        p.damaged = v.damaged();
        p.in_content = true;
        if (!p.damaged) p.error = v.failure();
        return p;
    } catch (...) {
        return current_problem();
    }
}

CAIRN_DECL checkpoint_problem problem_of(any_store place, const metadata& m, verify_level level,
                                         const storage_setup& me) {
    constexpr int most_saves = 8;
    // What PyTorch saves has no save id, and may be another by now: it is looked at once more.
    std::string version = m.save_id;
    auto problem = problem_of_one(place, m, level, me);
    // The files of a checkpoint that was replaced meanwhile are gone: the new one is examined.
    for (int n = 1; problem && n != most_saves; ++n) {
        std::optional<metadata> now;
        std::string found;
        auto const replaced = [&] {
            auto tag = place.tag(metadata_name).text;  // not that of one that follows
            now = read_checked_metadata(place);
            found = now->save_id.empty() ? std::move(tag) : now->save_id;
            return found != version;
        };
        try {
            if (!changes_within_lag(place, replaced)) break;
        } catch (...) {  // the problem that is known is enough
            break;
        }
        version = std::move(found);
        problem = problem_of_one(place, *now, level, me);
    }
    return problem;
}

CAIRN_DECL void quarantine(any_store& place, const object_tag& examined) {
    auto const refuse = [&](const std::string& name, const char* expected, std::string found) {
        throw error(
            errc::concurrent_save,
            {.file = place.describe(name), .expected = expected, .found = std::move(found)});
    };
    auto const check = [&] {
        if (place.tag(metadata_name) != examined)
            refuse(std::string(metadata_name), "the metadata that was examined", "another");
    };
    check();
    // An intent may list the files: a save that finds it later does not know that they were put
    // aside.
    std::vector<std::string> warnings;
    try {
        collect_leftovers(place, warnings, nullptr);
    } catch (const error& e) {  // its own metadata is not readable: see below for what is left
        warnings.emplace_back(e.what());
    }
    for (auto const& info : place.list()) {
        if (!is_intent_name(info.name)) continue;
        std::string found = "one that may not have ended";
        if (!warnings.empty()) found += "; it could not be removed: " + warnings.front();
        refuse(info.name, "no save or removal in this place", std::move(found));
    }
    auto const bytes = read_whole(place, metadata_name);
    check();
    try {
        settled([&] { place.publish(quarantined_name, bytes, std::nullopt); });
        check();
        place.remove(metadata_name, examined);
    } catch (...) {
        // Beside a checkpoint it would keep strays. Without one, or if that may still be removed,
        // it may be all that is left.
        try {
            if (!is_in_doubt(std::current_exception()) && exists(place, metadata_name))
                place.remove(quarantined_name);
        } catch (...) {  // what has failed before is told
        }
        throw;
    }
    place.sync();
}

}  // namespace cairn::detail

#endif
