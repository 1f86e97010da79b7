// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_GARBAGE_IPP
#define CAIRN_CATALOG_IMPL_GARBAGE_IPP

#include <cairn/catalog/garbage.hpp>

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/catalog/detail/place_content.hpp>
#include <cairn/catalog/detail/removal.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/object_store/detail/replace_file.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/printable.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/ended_places.hpp>
#include <cairn/storage/detail/found_intent.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/storage_clock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace cairn {
namespace detail {

/// A place that notes what is removed from it; in a dry run, nothing is.
class noting_store {
public:
    noting_store(any_store place, std::string prefix, bool dry_run, garbage_report& report)
        : place_(std::move(place)), prefix_(std::move(prefix)), dry_run_(dry_run),
          report_(std::addressof(report)) {}

    auto create(std::string_view name, std::uint64_t size) { return place_.create(name, size); }
    /// Objects published here mark the collection itself, and are not counted.
    void publish(std::string_view name, byte_span b, std::optional<object_tag> match) {
        if (!match) own_.emplace(name);
        if (!dry_run_) place_.publish(name, b, std::move(match));
    }
    auto open(std::string_view name) { return place_.open(name); }
    object_tag tag(std::string_view name) { return place_.tag(name); }
    std::vector<object_info> list() {
        auto all = place_.list();
        std::erase_if(all, [&](auto const& i) { return removed_.count(i.name) != 0; });
        for (auto const& i : all) shown_.insert(i.name);
        return all;
    }
    void remove_trials() {
        if (!dry_run_) place_.remove_trials();
    }
    /// What is not listed has no line.
    void end_uploads(std::string_view name) {
        if (!dry_run_) place_.end_uploads(name);
    }
    std::size_t requests_in_flight() const { return place_.requests_in_flight(); }
    /// Threads: several.
    void remove(std::string_view name) {
        note_removal(name, [&] { place_.remove(name); });
    }
    void remove(std::string_view name, const object_tag& version) {
        note_removal(name, [&] { place_.remove(name, version); });
    }
    void sync() {
        if (!dry_run_) place_.sync();
    }
    std::string describe(std::string_view name) { return place_.describe(name); }

private:
    template <class F>
    void note_removal(std::string_view name, F&& do_it) {
        std::unique_lock lock(*m_);
        if (own_.erase(std::string(name)) != 0) {
            if (!dry_run_) do_it();
            return;
        }
        lock.unlock();
        std::optional<std::uint64_t> size;
        try {
            size = place_.open(name).size();
        } catch (const error& e) {
            if (e.code() == make_error_code(errc::not_found) &&
                shown_.count(std::string(name)) == 0) {
                if (!dry_run_) do_it();  // it may have left empty directories
                return;
            }
        }
        if (!dry_run_) do_it();
        lock.lock();
        removed_.emplace(name);
        ++report_->files;
        report_->bytes += size.value_or(0);
        report_->lines.push_back(
            (dry_run_ ? "would remove " : "removed ") + prefix_ + terminal_text(name) + " (" +
            (size ? std::to_string(*size) : "an unknown number of") + " bytes)");
    }

    any_store place_;
    std::string prefix_;
    bool dry_run_;
    garbage_report* report_;
    std::set<std::string> removed_{}, own_{};
    std::set<std::string> shown_{};  ///< By `list`: such an object may be unfinished.
    std::unique_ptr<std::mutex> m_ = std::make_unique<std::mutex>();
};

/// Describes an intent in words.
inline std::string story_of(const found_intent& i) {
    if (i.newer) return "an intent of a newer cairn: skipped";
    if (!i.readable) return "a save whose intent was cut short by a crash";
    auto const& owner = i.what.owner;
    auto const where = i.on_this_host       ? std::string("this host")
                       : owner.host.empty() ? std::string("another host, or of another boot")
                                            : "host '" + terminal_text(owner.host) + "'";
    auto const who = std::string(i.removes() ? "a removal" : "a save") + " by process " +
                     std::to_string(owner.process.pid) + " of " + where;
    if (i.ended) return who + ", which has ended";
    if (i.superseded) return who + ", whose job was started again";
    return who + (i.on_this_host ? ", which is running: skipped"
                                 : ", of which nothing is known: removed once none of its files "
                                   "has changed for 24 hours, by the storage's clock");
}

/// Counts the files of a place and of all places in it.
inline void count_tree(any_store& place, std::size_t& files, std::uint64_t& bytes) {
    for (auto const& info : place.list()) {
        ++files;
        bytes += info.size;
    }
    auto below = place.places();
    for (auto& hidden : place.hidden_places()) below.push_back(std::move(hidden));
    for (auto const& id : below) {
        auto in = place.at(id);
        count_tree(in, files, bytes);
    }
}

/// Removes the working places in a place whose saves have ended.
inline void collect_working_places(any_store& place, const std::string& prefix, bool dry_run,
                                   garbage_report& report) {
    std::int64_t now = 0;
    auto const places = working_places(place);
    try {
        if (!dry_run && !places.empty()) now = storage_clock(place).time();
    } catch (const error&) {
        // Without it, e.g. on a full disk, those whose process has certainly ended still go.
    }
    for (auto found : places) {
        auto const name = prefix + terminal_text(found.name) + "/";
        try {
            std::size_t files = 0;
            std::uint64_t bytes = 0;
            auto tree = place.at(found.name);
            count_tree(tree, files, bytes);
            judge(place, found, now);
            if (found.intent) report.lines.push_back(name + ": " + story_of(*found.intent));
            if (found.over && !dry_run) remove_working_place(place, found.name);
            if (!found.over && place.kind_of(found.name) == name_kind::place) continue;
            report.files += files;
            report.bytes += bytes;
            report.directories += files == 0;
            report.lines.push_back((dry_run ? "would remove " : "removed ") + name +
                                   (files == 0 ? " without files"
                                               : " (" + std::to_string(files) + " files, " +
                                                     std::to_string(bytes) + " bytes)"));
        } catch (...) {
            ++report.problems;
            report.lines.push_back(
                name + " is left as it is: " + terminal_text(text_of(std::current_exception())));
        }
    }
}

/// Removes the temporary files that publishers which have ended have left in a directory.
/// @return whether there were some
inline bool collect_temporaries(const std::string& directory, const std::string& prefix,
                                bool dry_run, garbage_report& report) {
    auto const found = temporaries_in(directory);
    if (found.empty()) return false;
    std::int64_t now = 0;  // in seconds
    // Those that need no clock: a full disk has no space for one.
    if (!dry_run) remove_stale_temporaries(directory, std::nullopt);
    if (!dry_run && !temporaries_in(directory).empty()) {  // a publisher removes the old ones
        try {
            auto place = file_store(directory).syncing_where_it_can();
            now = storage_clock(place).time() / 1'000'000'000;
        } catch (const error& e) {
            if (e.code() == make_error_code(errc::permission_denied)) throw;
            ++report.problems;
            report.lines.push_back(
                prefix + "temporary files that may be in use stay: " + terminal_text(e.what()));
        }
    }
    std::set<std::string> there;
    for (auto& one : temporaries_in(directory)) there.insert(std::move(one.name));
    for (auto const& one : found) {
        if (!one.is_stale(now) || (!dry_run && there.contains(one.name))) continue;
        ++report.files;
        report.bytes += one.size;
        report.lines.push_back((dry_run ? "would remove " : "removed ") + prefix + one.name + " (" +
                               std::to_string(one.size) + " bytes)");
    }
    return true;
}

/// @param id         Empty for the root itself.
/// @param directory  Of the root; empty: it has none.
/// @param emptied    Receives the id if the place has no files left.
inline void collect_garbage_of(any_store& root, const std::string& id, const std::string& directory,
                               bool dry_run, garbage_report& report,
                               std::vector<std::string>& emptied) {
    auto const prefix = id.empty() ? std::string() : terminal_text(id) + "/";
    auto const stays = [&] {
        ++report.problems;
        report.lines.push_back(
            (id.empty() ? std::string("it") : "'" + terminal_text(id) + "'") +
            " is left as it is: " + terminal_text(text_of(std::current_exception())));
    };
    try {
        auto place = id.empty() ? root : root.at(id);
        collect_working_places(place, prefix, dry_run, report);
        bool const had_temporaries =
            !directory.empty() && collect_temporaries(id.empty() ? directory : directory + "/" + id,
                                                      prefix, dry_run, report);
        auto const before = place.list();
        for (auto const& info : before)
            if (is_intent_name(info.name))
                if (auto const i = read_intent(place, info))
                    report.lines.push_back(prefix + info.name + ": " + story_of(*i));
        noting_store noting(place, prefix, dry_run, report);
        std::vector<std::string> warnings;
        collect_leftovers(noting, warnings, nullptr);
        for (auto& w : warnings) {
            ++report.problems;
            report.lines.push_back(terminal_text(w));
        }
        if (id.empty() || !is_left_empty(noting, id, had_temporaries || !before.empty())) return;
        if (!dry_run) root.remove_place(id);
        emptied.push_back(id);
    } catch (const error& e) {
        bool const others = !id.empty() && !is_step_name(id);
        if (!others || e.code() != make_error_code(errc::permission_denied)) return stays();
        report.lines.push_back("'" + terminal_text(id) +
                               "' is skipped: " + terminal_text(e.what()));
    } catch (...) {
        stays();
    }
}

/// Whether the names in a place show that nothing is left there: a checkpoint, and the data files
/// of one save. Beside what PyTorch has left unremoved there are names of another kind.
inline bool is_tidy(const std::vector<std::string>& names) {
    bool whole = false;
    std::set<std::string_view> ids;
    for (auto const& name : names) {
        whole = whole || name == metadata_name;
        if (name == metadata_name) continue;
        if (!is_data_name(name)) return false;
        ids.insert(id_in(name));
    }
    return whole && ids.size() == 1 && !ids.begin()->empty();
}

/// The places within a store where something may be left: all, if only a request for each can show
/// it.
inline std::vector<std::string> untidy_places(any_store& root) {
    auto const all = root.list_tree();
    if (!all) return root.places();
    std::map<std::string, std::vector<std::string>> by_place;
    for (auto const& o : *all) {
        auto const slash = o.name.find('/');
        if (slash == o.name.npos) continue;
        if (auto id = o.name.substr(0, slash); !id.starts_with('.'))
            by_place[std::move(id)].push_back(o.name.substr(slash + 1));
    }
    std::vector<std::string> out;
    for (auto const& [id, names] : by_place)
        if (!is_tidy(names)) out.push_back(id);
    return out;
}

CAIRN_DECL garbage_report collect_garbage(any_store root, bool dry_run,
                                          const std::string& directory) {
    garbage_report report;
    std::vector<std::string> emptied;
    collect_garbage_of(root, {}, directory, dry_run, report, emptied);
    for (auto const& id : untidy_places(root))
        collect_garbage_of(root, id, directory, dry_run, report, emptied);
    if (emptied.empty()) return report;
    // A place that contains other directories or links stays.
    std::set<std::string> left;
    try {
        if (!dry_run)
            for (auto& id : root.places()) left.insert(std::move(id));
    } catch (...) {
        ++report.problems;
        report.lines.push_back(terminal_text(text_of(std::current_exception())));
        return report;
    }
    for (auto const& id : emptied) {
        if (left.count(id) != 0) continue;
        ++report.directories;
        report.lines.push_back((dry_run ? "would remove " : "removed ") + terminal_text(id) +
                               "/ without files");
    }
    return report;
}

}  // namespace detail

CAIRN_DECL garbage_report collect_garbage(const std::string& directory, bool dry_run) {
    auto const root = file_store(directory).syncing_where_it_can();
    return detail::collect_garbage(any_store(root), dry_run, root.directory());
}

}  // namespace cairn

#endif
