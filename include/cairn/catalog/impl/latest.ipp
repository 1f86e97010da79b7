// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_LATEST_IPP
#define CAIRN_CATALOG_IMPL_LATEST_IPP

#include <cairn/catalog/latest.hpp>

#include <cairn/error.hpp>
#include <cairn/object_store/file.hpp>

#include <cstdio>
#include <utility>

namespace cairn {
namespace detail {

CAIRN_DECL candidates::candidates(erased_store root, latest_options options)
    : root_(std::move(root)), options_(std::move(options)), left_(find_places(root_).committed) {}

CAIRN_DECL auto candidates::next(cairn::activity* activity) -> std::optional<candidate> {
    while (!left_.empty()) {
        if (activity != nullptr) activity->advance();
        auto const id = std::move(left_.back().id);
        left_.pop_back();
        try {
            auto place = root_.at(id);
            return candidate{id, read_checked_metadata(place)};
        } catch (const error& e) {
            if (e.code() == make_error_code(errc::not_found)) continue;  // removed meanwhile
            skip(id, current_problem());
        } catch (...) {
            skip(id, current_problem());
        }
    }
    return {};
}

CAIRN_DECL void candidates::skip(const checkpoint_id& id, const checkpoint_problem& why) {
    auto text = "checkpoint '" + root_.at(id).describe(".") + "' is skipped: " + why.text;
    if (options_.quarantine && why.damaged) {
        try {
            auto place = root_.at(id);
            quarantine(place);
        } catch (...) {
            text += "; it could not be quarantined: " + current_problem().text;
        }
    }
    if (options_.on_skipped)
        options_.on_skipped(text);
    else
        std::fprintf(stderr, "cairn: %s\n", text.c_str());
}

CAIRN_DECL std::optional<checkpoint_id> latest(erased_store root, const latest_options& options) {
    candidates all(root, options);
    while (auto const c = all.next()) {
        auto const why = problem_of(root.at(c->id), c->meta, options.verify, {});
        if (!why) return c->id;
        all.skip(c->id, why);
    }
    return {};
}

}  // namespace detail

CAIRN_DECL std::optional<checkpoint_id> latest(const std::string& directory,
                                               const latest_options& options) {
    file_store const store(directory);
    auto id = detail::latest(detail::erased_store(store), options);
    if (id) id = store.at(*id).directory().string();
    return id;
}

}  // namespace cairn

#endif
