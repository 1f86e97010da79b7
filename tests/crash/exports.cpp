// SPDX-License-Identifier: Apache-2.0
#include "exports.hpp"

#include "recorder.hpp"
#include "recovery.hpp"

#include "simulation/content.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/catalog/garbage.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/convert.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/storage/torch_save_writer.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

namespace crash {

namespace fs = std::filesystem;

namespace {

constexpr long hour = 3600;
constexpr int ranks = 2, next_version = 4;
const std::string within = "runs/", source = "source";

cairn::file_store store_below(const fs::path& root) {
    return cairn::file_store((root / "runs").string());
}
/// Ranks share a page, and each has some alone.
constexpr int columns = 1500;

void save_source(const fs::path& root, int version) {
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        simulation::content mine(me.rank(), ranks, version, columns);
        cairn::save(mine.state, source, me, cairn::file_store(store_below(root)));
    });
}
/// What `simulation::content` has, of which a rank holds columns.
struct turned_content {
    turned_content(int rank, int version)
        : part(static_cast<std::size_t>(ranks * width)), replica(16, static_cast<float>(version)),
          step(version) {
        for (int i = 0; i < ranks; ++i)
            for (int k = 0; k < width; ++k)
                part[static_cast<std::size_t>(i * width + k)] =
                    static_cast<float>(version * 1000 + i * columns + rank * width + k);
        state["rows"] = cairn::sharded_view{
            {ranks, columns},
            cairn::dtype::f32,
            {cairn::shard(cairn::box({0, rank * width}, {ranks, width}),
                          cairn::tensor_view(cairn::dtype::f32, {ranks, width}, part.data()))}};
        state["replica"] = replica;
        state["step"] = std::ref(step);
    }
    turned_content(turned_content&&) = delete;

    static constexpr int width = columns / ranks;
    std::vector<float> part, replica;
    int step;
    cairn::state_dict state{};
};

/// Of the source, or of a state of that version.
void make(const fs::path& root, const exporting& what, int version) {
    auto const files = store_below(root);
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        simulation::content by_rows(me.rank(), ranks, version, columns);
        turned_content by_columns(me.rank(), version);
        auto const& state = what.by_columns ? by_columns.state : by_rows.state;
        cairn::convert_options how;
        how.dim = what.by_columns ? 1 : 0;
        auto const write = [&](auto writer) {
            if (what.converts)
                cairn::convert({files, source}, what.target, how, me, std::move(writer));
            else
                cairn::save(state, what.target, me, std::move(writer));
        };
        if (what.target.ends_with(".pt"))
            return write(cairn::torch_save_writer(files, {.thread_count = 1}));
        cairn::safetensors_writer_options o;
        o.skip_values = true;
        // Of a directory: the tensors have a file each, and there is an index.
        if (what.target == "m") o.max_file_size = 1000;
        o.thread_count = 1;
        write(cairn::safetensors_writer(files, o));
    });
}

/// Records an export of that version in a place.
exported record_in(const fs::path& root, const exporting& what, int version) {
    exported r;
    recorder log(root);
    r.beginning = log.beginning();
    make(root, what, version);
    log.promise();
    r.all = log.take();
    r.end = read_image(root);
    return r;
}

/// Everything at a name below `runs`.
image part_of(const image& all, const std::string& name) {
    auto const path = within + name;
    auto const is_here = [&](const std::string& p) {
        return p.starts_with(path) && (p.size() == path.size() || p[path.size()] == '/');
    };
    image part;
    for (auto const& [p, bytes] : all.files)
        if (is_here(p)) part.files.emplace(p, bytes);
    for (auto const& p : all.directories)
        if (is_here(p)) part.directories.insert(p);
    return part;
}
/// Throws unless the target is there, of that version, and nothing else is left of exports.
void require_alone(const fs::path& root, const exporting& what, int version) {
    auto const w = support::load_whole(store_below(root), what.target);
    auto const& rows = w.tensors.at("rows").bytes;
    float last = 0;
    std::memcpy(&last, rows.data() + rows.size() - sizeof last, sizeof last);
    if (support::only_number(w.tensors.at("replica")) != static_cast<float>(version) ||
        last != static_cast<float>(version * 1000 + ranks * columns - 1))
        throw wrong("what was exported is not what loads");
    for (auto const& e : fs::directory_iterator(root / "runs"))
        if (auto const name = e.path().filename().string(); name != what.target && name != source)
            throw wrong("'" + name + "' is left");
}

std::string names_in(const image& all) {
    std::string names;
    for (auto const& d : all.directories) names += d + "/\n";
    for (auto const& [p, bytes] : all.files) names += p + (bytes.empty() ? " (empty)\n" : "\n");
    return names;
}
bool commits(const operation& o, const exporting& what) {
    using enum operation::kind;
    return (o.what == rename || o.what == exchange) && o.new_name == what.target;
}

}  // namespace

std::vector<exporting> exporting::all() {
    struct one {
        const char *name, *target;
        bool by_columns;
    };
    constexpr one kinds[] = {{"safetensors", "m", false},
                             {"columns", "m", true},
                             {"file", "m.safetensors", false},
                             {"torch", "m.pt", false}};
    std::vector<exporting> all;
    for (bool const converts : {false, true})
        for (bool const replaces : {false, true})
            for (auto const& k : kinds)
                all.push_back(
                    {(converts ? "convert-" : "") + std::string(k.name) + (replaces ? "-over" : ""),
                     k.target, replaces, converts, k.by_columns});
    return all;
}

exporting exporting::named(const std::string& name) {
    for (auto& e : all())
        if (e.name == name) return e;
    throw wrong("no such export: " + name);
}

exported record(const exporting& what) {
    support::scratch dir;
    auto const root = fs::canonical(dir.dir);
    fs::create_directory(root / "runs");
    save_source(root, 1);
    if (what.replaces) make(root, what, 1);
    if (what.converts) save_source(root, 2);
    auto r = record_in(root, what, 2);
    require_alone(root, what, 2);
    return r;
}

void export_exploration::run() {
    disk d(r_.beginning);
    bool promised = false;
    counts_.operations += r_.all.size();
    for (std::size_t i = 0; i < r_.all.size(); ++i) {
        // Most calls add to what a crash leaves open.
        if (r_.all[i].what == operation::kind::sync || commits(r_.all[i], what_))
            at_point(d, promised, i);
        d.apply(r_.all[i]);
        look_at(d.now(), promised);  // all processes are killed
        promised = promised || r_.all[i].what == operation::kind::promise;
        if (commits(r_.all[i], what_)) at_point(d, promised, i);
    }
    at_point(d, promised, r_.all.size());
    if (recoveries_ == 0) return;
    std::size_t i = 0;
    auto const n = kinds_.size(), step = std::max<std::size_t>(1, n / recoveries_);
    for (auto const& [names, left] : kinds_) {
        if (i++ % step != 0) continue;
        ++counts_.recoveries;
        try {
            recover(left);
            crash_next(left);
        } catch (const std::exception& e) {
            throw wrong(std::string(e.what()) + "\nafter a crash that leaves\n" + names);
        }
    }
    counts_.kinds += n;
}

void export_exploration::at_point(const disk& d, bool promised, std::size_t point) {
    auto const open = d.open_after(disk::every_host);
    ++counts_.points;
    for_each_choice(open, effort_, point + 1, [&](const std::vector<std::size_t>& chosen) {
        ++counts_.states;
        auto const left = d.after_crash(open, chosen);
        try {
            look_at(left, promised);
        } catch (const std::exception& e) {
            throw wrong(std::string(e.what()) + "\n    at call " + std::to_string(point) + ", " +
                        (point < r_.all.size() ? r_.all[point].text() : "the end"));
        }
        return true;
    });
}

void export_exploration::look_at(const image& left, bool promised) {
    if (!seen_.insert(left.hash() + promised).second) return;
    ++counts_.distinct;
    auto const now = part_of(left, what_.target), before = part_of(r_.beginning, what_.target);
    if (now != part_of(r_.end, what_.target)) {
        if (promised) throw wrong("the target that was promised does not stand");
        if (now != before) throw wrong("the target is neither the old one nor the new one");
    }
    if (part_of(left, source) != part_of(r_.beginning, source))
        throw wrong("the source is not what it was");
    kinds_.emplace(names_in(left), left);
}

void export_exploration::recover(const image& left) const {
    auto const in_new_place = [&](long since, auto&& f) {
        support::scratch dir;
        auto const root = fs::canonical(dir.dir);
        write_image(later(left, since), root);
        f(root);
    };
    auto const export_next = [&](const fs::path& root) {
        if (what_.converts) save_source(root, next_version);
        make(root, what_, next_version);
    };
    in_new_place(hour, [&](const fs::path& root) {
        export_next(root);
        auto const w = support::load_whole(store_below(root), what_.target);
        if (support::only_number(w.tensors.at("replica")) != next_version)
            throw wrong("the next export is not what loads");
    });
    in_new_place(25 * hour, [&](const fs::path& root) {
        export_next(root);
        require_alone(root, what_, next_version);
    });
    in_new_place(25 * hour, [&](const fs::path& root) {
        auto const r = cairn::collect_garbage((root / "runs").string());
        for (auto const& line : r.lines)
            if (r.problems != 0) throw wrong("gc: " + line);
        auto now = read_image(root);
        auto wanted = part_of(left, what_.target);
        wanted.directories.insert("runs");
        for (auto& [p, bytes] : part_of(left, source).files) wanted.files.emplace(p, bytes);
        for (auto& p : part_of(left, source).directories) wanted.directories.insert(p);
        if (now != wanted) throw wrong("a collection of garbage leaves\n" + names_in(now));
    });
}

void export_exploration::crash_next(const image& left) {
    support::scratch dir;
    auto const root = fs::canonical(dir.dir);
    write_image(later(left, 25 * hour), root);
    if (what_.converts) save_source(root, next_version);
    auto const next = record_in(root, what_, next_version);
    export_exploration again(what_, next, {.all_up_to = 64, .samples = 10, .deviations = 1}, 0);
    again.run();
    ++counts_.crashed_again;
    counts_.states_again += again.found().states;
}

std::vector<export_defect> export_defect::all() {
    using enum operation::kind;
    auto const is_new = [](const operation& o) { return o.path.find("/new") != std::string::npos; };
    auto const no_data_sync = [=](const exporting&, operations& all) {
        std::erase_if(all, [&](auto& o) { return o.what == sync && !o.is_directory && is_new(o); });
    };
    auto const no_names = [=](const exporting&, operations& all) {
        std::erase_if(all, [&](auto& o) { return o.what == sync && o.is_directory && is_new(o); });
    };
    auto const no_commit_sync = [](const exporting& what, operations& all) {
        bool after = false;
        std::erase_if(all, [&](auto& o) {
            after = after || commits(o, what);
            return after && o.what == sync;
        });
    };
    auto const early_commit = [](const exporting& what, operations& all) {
        auto const at =
            std::find_if(all.begin(), all.end(), [&](auto& o) { return commits(o, what); });
        auto last = at;
        while (last->what != sync || last->is_directory) --last;
        std::rotate(last, at, at + 1);
    };
    return {
        {"files are not synced", "safetensors", no_data_sync},
        {"files are not synced", "torch-over", no_data_sync},
        {"the new directory is not synced", "safetensors-over", no_names},
        {"the commit is not synced", "convert-torch", no_commit_sync},
        {"the commit is not synced", "convert-safetensors-over", no_commit_sync},
        {"the target is renamed before its last file is synced", "convert-safetensors",
         early_commit},
        {"the target is renamed before it is synced", "torch", early_commit},
        {"files are not synced", "columns-over", no_data_sync},
        {"the target is renamed before it is synced", "convert-file-over", early_commit},
    };
}

}  // namespace crash
