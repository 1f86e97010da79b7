// SPDX-License-Identifier: Apache-2.0
#include "defects.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>

namespace crash {

namespace {

using enum operation::kind;

bool is_data(const operation& o) {
    return o.path.ends_with(".distcp") || o.path.ends_with(".bin");
}
bool is_temporary(const operation& o) {
    return o.path.find(".cairn-publish.") != std::string::npos;
}
bool syncs_directory(const operation& o, const std::string& path) {
    return o.what == sync && o.is_directory && o.path == path;
}

std::size_t commit_of(const operations& all) {
    std::size_t i = 0;
    while (i < all.size() && !(all[i].what == rename && all[i].new_name == ".metadata")) ++i;
    return i;
}
/// Where the publishing of the metadata begins: its temporary file is created.
std::size_t publishing(const operations& all) {
    auto const commit = commit_of(all);
    for (auto i = commit; i-- > 0;)
        if (all[i].what == create && all[i].file == all[commit].file) return i;
    return all.size();
}
template <class F>
void erase_between(operations& all, std::size_t from, std::size_t to, F&& which) {
    std::size_t i = 0;
    std::erase_if(all, [&](const operation& o) {
        auto const here = i++;
        return here >= from && here < to && which(o);
    });
}
void move_behind(operations& all, std::size_t from, std::size_t behind) {
    auto const o = all[from];
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(behind) + 1, o);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(from));
}
std::size_t first(const operations& all, const std::function<bool(const operation&)>& f) {
    return static_cast<std::size_t>(std::find_if(all.begin(), all.end(), f) - all.begin());
}

void sweep_before_the_commit_is_durable(operations& all) {
    auto const commit = commit_of(all);
    auto const swept = first(all, [](auto& o) { return o.what == remove && is_data(o); });
    operations const syncs(all.begin() + static_cast<std::ptrdiff_t>(commit) + 1,
                           all.begin() + static_cast<std::ptrdiff_t>(swept));
    erase_between(all, commit + 1, swept, [](auto&) { return true; });
    auto const last = all.rend() - std::find_if(all.rbegin(), all.rend(), [](auto& o) {
                          return o.what == remove && is_data(o);
                      });
    all.insert(all.begin() + last, syncs.begin(), syncs.end());
}

}  // namespace

std::vector<defect> defect::all() {
    auto const no_data_sync = [](operations& all) {
        std::erase_if(all, [](auto& o) { return o.what == sync && is_data(o); });
    };
    auto const no_names = [](operations& all) {
        auto const begun = first(all, [](auto& o) { return o.what == create && is_data(o); });
        erase_between(all, begun, commit_of(all),
                      [](auto& o) { return o.what == sync && o.is_directory; });
    };
    auto const no_metadata_sync = [](operations& all) {
        auto const file = all[commit_of(all)].file;
        std::erase_if(all, [&](auto& o) { return o.what == sync && o.file == file; });
    };
    auto const late_metadata_sync = [](operations& all) {
        auto const commit = commit_of(all);
        move_behind(
            all, first(all, [&](auto& o) { return o.what == sync && o.file == all[commit].file; }),
            commit);
    };
    auto const late_data_sync = [](operations& all) {
        move_behind(all, first(all, [](auto& o) { return o.what == sync && is_data(o); }),
                    commit_of(all));
    };
    auto const no_commit_sync = [](operations& all) {
        erase_between(all, commit_of(all), all.size(), [](auto& o) { return o.what == sync; });
    };
    auto const no_parents = [](operations& all) {
        std::erase_if(all,
                      [](auto& o) { return syncs_directory(o, "") || syncs_directory(o, "runs"); });
    };
    auto const forgotten_early = [](operations& all) {
        erase_between(all, first(all, [](auto& o) { return o.what == remove && is_data(o); }),
                      all.size(), [](auto& o) { return o.what == sync; });
    };
    auto const no_intent_sync = [](operations& all) {
        erase_between(all, 0, publishing(all), [](auto& o) {
            return o.what == sync && (o.is_directory || is_temporary(o)) && o.host == 0;
        });
    };
    auto const late_rest = [](operations& all) {
        auto const synced = first(all, [](auto& o) { return o.what == sync && is_data(o); });
        auto last = synced;
        while (all[last].what != write || all[last].file != all[synced].file) --last;
        move_behind(all, last, synced);
    };
    auto const in_place = [](operations& all) {
        // As DCP does it: data files of the old checkpoint are written over.
        auto const from = first(all, [](auto& o) { return o.what == create && is_data(o); });
        auto const old = all[first(all, [](auto& o) { return o.what == remove && is_data(o); })];
        auto const file = all[from].file;
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(from));
        for (auto& o : all)
            if (o.file == file && o.what == write) o.file = old.file;
    };
    return {
        {"data files are not synced", "fresh/2", no_data_sync},
        {"data files are not synced", "overwrite/2", no_data_sync},
        {"data files are not synced", "direct/2", no_data_sync},
        {"the rest of a direct file is written after its sync", "direct/2", late_rest},
        {"names of data files are not synced", "overwrite/2", no_names},
        {"the metadata is not synced", "overwrite/2", no_metadata_sync},
        {"the metadata is renamed before it is synced", "overwrite/2", late_metadata_sync},
        {"the metadata is renamed before the data is synced", "fresh/2", late_data_sync},
        {"the metadata is renamed before the data is synced", "torch/2", late_data_sync},
        {"the commit is not synced", "fresh/2", no_commit_sync},
        {"the commit is not synced", "overwrite/2", no_commit_sync},
        {"the names of new directories are not synced", "fresh/2", no_parents},
        {"it sweeps before the commit is durable", "overwrite/2",
         sweep_before_the_commit_is_durable},
        {"it sweeps before the commit is durable", "torch/2", sweep_before_the_commit_is_durable},
        {"the intent is forgotten before the removals are durable", "overwrite/2", forgotten_early},
        {"the intent is not durable before files are created", "overwrite/2", no_intent_sync},
        {"old data files are written over", "overwrite/2", in_place},
    };
}

operations reordered(const operations& all, std::uint64_t seed) {
    auto const begin = first(all, [](auto& o) {
        return (o.what == create && is_data(o)) ||
               (o.what == make_directory && o.path.starts_with("runs/c/"));
    });
    auto const end = publishing(all);
    if (begin >= end) return all;
    std::map<int, std::deque<operation>> by_host;
    for (auto i = begin; i < end; ++i) by_host[all[i].host].push_back(all[i]);
    std::set<int> made;  // directories that are still to be made
    for (auto i = begin; i < end; ++i)
        if (all[i].what == make_directory) made.insert(all[i].file);
    operations out(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(begin));
    std::mt19937_64 random(seed);
    for (;;) {
        std::vector<std::deque<operation>*> can, changing;
        for (auto& [host, left] : by_host) {
            if (left.empty() || made.count(left.front().directory) != 0) continue;
            can.push_back(&left);
            if (left.front().what != sync) changing.push_back(&left);
        }
        if (can.empty()) break;
        auto* const one = seed != 0          ? can[random() % can.size()]
                          : changing.empty() ? can.front()
                                             : changing.front();
        made.erase(one->front().what == make_directory ? one->front().file : -1);
        out.push_back(std::move(one->front()));
        one->pop_front();
    }
    out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(end), all.end());
    return out;
}

}  // namespace crash
