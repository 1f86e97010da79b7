// SPDX-License-Identifier: Apache-2.0
// What an export as safetensors files takes over from the directory that it replaces, while others
// write to that.
#include "safetensors_exports.hpp"
#include "support/scratch.hpp"

#include <cairn/activity.hpp>
#include <cairn/storage/detail/working_place.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace safetensors_exports {

/// Files that others change just before, or after an `open`.
class disturbed_store : public cairn::file_store {
public:
    using change = std::function<void(std::string_view operation, std::string_view name)>;
    disturbed_store(cairn::file_store f, change c)
        : file_store(std::move(f)), change_(std::move(c)) {}
    disturbed_store at(const std::string& id) const { return {file_store::at(id), change_}; }
    disturbed_store without_sync() const { return {file_store::without_sync(), change_}; }
    reader open(std::string_view name) {
        auto r = file_store::open(name);
        change_("open", name);
        return r;
    }
    cairn::name_kind kind_of(std::string_view name) {
        change_("look", name);
        return file_store::kind_of(name);
    }
    void adopt_permissions(std::string_view from, std::string_view to, bool only_fewer) {
        change_("adopt", from);
        file_store::adopt_permissions(from, to, only_fewer);
    }
    void exchange(std::string_view a, std::string_view b) {
        change_("exchange", b);
        file_store::exchange(a, b);
    }

private:
    change change_;
};

/// A directory `m` with an export and other files.
struct directory_with_files {
    directory_with_files() { save_on(files, many_kinds(held::rows), 2, "m"); }
    void append(const std::string& name, const std::string& text) const {
        std::ofstream(s.dir / "m" / name, std::ios::app) << text;
    }
    void set(const std::string& name, unsigned mode) const {
        fs::permissions(s.dir / name, static_cast<fs::perms>(mode));
    }
    unsigned mode_of(const std::string& name) const {
        return static_cast<unsigned>(fs::status(s.dir / name).permissions());
    }
    std::size_t size_of(const std::string& name) const {
        return content_of(s.dir / "m" / name).size();
    }
    support::scratch s{};
    cairn::file_store files{s.dir};
};

}  // namespace safetensors_exports

BOOST_AUTO_TEST_SUITE(replaced_exports)

using namespace safetensors_exports;

/// From where what is replaced lies for a moment, it leads nowhere.
BOOST_AUTO_TEST_CASE(weights_that_a_relative_link_names_may_be_replaced) {
    directory_with_files d;
    fs::create_directory(d.s.dir / "base");
    fs::rename(d.s.dir / "m/model.safetensors", d.s.dir / "base/model.safetensors");
    fs::create_symlink("../base/model.safetensors", d.s.dir / "m/model.safetensors");
    auto const before = content_of(d.s.dir / "base/model.safetensors");
    save_on(d.files, many_kinds(held::rows), 1, "m", {}, 5);
    BOOST_TEST(!fs::is_symlink(d.s.dir / "m/model.safetensors"));
    BOOST_CHECK(content_of(d.s.dir / "base/model.safetensors") == before);
    BOOST_CHECK(content_of(d.s.dir / "m/model.safetensors") != before);
}

BOOST_AUTO_TEST_CASE(files_beside_the_weights_may_grow_come_and_go_while_an_export_is_written) {
    support::scratch s;
    cairn::file_store const files(s.dir);
    save_on(files, many_kinds(held::rows), 2, "m");
    auto const append = [&](const char* name, const std::string& text) {
        std::ofstream(s.dir / "m" / name, std::ios::app) << text;
    };
    append("log.jsonl", "1");
    append("old.txt", "old");
    // Changes them also after they were copied for the first time.
    int looks = 0;
    disturbed_store const changing(files, [&](std::string_view what, std::string_view) {
        if (what != "look" || ++looks == 1) return;
        append("log.jsonl", std::to_string(looks));
        if (looks != 2) return;
        append("README.md", "new");
        fs::remove(s.dir / "m/old.txt");
    });
    save_on(changing, many_kinds(held::rows), 1, "m", {}, 5);
    BOOST_TEST(looks > 3);
    BOOST_TEST(entries_of(s.dir / "m") ==
               (std::set<std::string>{"README.md", "log.jsonl", "model.safetensors"}));
    BOOST_TEST(content_of(s.dir / "m/README.md").size() == 3u);
    BOOST_TEST(content_of(s.dir / "m/log.jsonl").size() == 9u);
    BOOST_TEST(entries_of(s.dir) == std::set<std::string>{"m"});
}

BOOST_AUTO_TEST_CASE(what_replaces_something_has_its_permissions) {
    directory_with_files const d;
    for (auto const* name : {"hf_token", "run.sh", "config.json"}) d.append(name, "kept");
    d.set("m/hf_token", 0600);
    d.set("m/run.sh", 0750);
    d.set("m/model.safetensors", 0640);
    d.set("m", 0777);
    auto const export_to = [&](const std::string& id) {
        unsigned hidden = 0;
        disturbed_store const watched(d.files, [&](std::string_view, std::string_view) {
            for (auto const& entry : fs::directory_iterator(d.s.dir))
                if (auto const name = entry.path().filename().string();
                    name.starts_with("." + id + ".saving-"))
                    hidden = d.mode_of(name);
        });
        cairn::safetensors_writer_options o;
        if (id == "m") o.max_file_size = 50'000;
        save_on(watched, many_kinds(held::rows), 1, id, o, 5);
        return hidden;
    };
    BOOST_TEST((export_to("m") & 0722u) == 0700u, "others steer the export");
    BOOST_TEST(d.mode_of("m") == 0777u);
    d.set("m", 0700);
    BOOST_TEST(export_to("m") == 0700u);
    BOOST_TEST(d.mode_of("m") == 0700u);
    BOOST_TEST(d.mode_of("m/hf_token") == 0600u);
    BOOST_TEST(d.mode_of("m/run.sh") == 0750u);
    std::size_t weights = 0;
    for (auto const& name : entries_of(d.s.dir / "m"))
        if (name.ends_with(".safetensors")) {
            ++weights;
            BOOST_TEST(d.mode_of("m/" + name) == 0640u, name);
        }
    BOOST_TEST(weights > 1u);

    save_on(d.files, many_kinds(held::rows), 2, "one.safetensors");
    d.set("one.safetensors", 0600);
    BOOST_TEST(export_to("one.safetensors") == 0700u);
    BOOST_TEST(d.mode_of("one.safetensors") == 0600u);
}

BOOST_AUTO_TEST_CASE(the_bits_of_a_group_are_not_given_to_another_one) {
    directory_with_files const d;
    auto const weights = d.s.dir / "m/model.safetensors";
    d.set("m/model.safetensors", 0640);
    d.append("notes", "kept");
    d.set("m/notes", 0600);
    // user::rw- user:1234:r-- group::--- mask::r-- other::---
    auto const acl = [] {
        std::string text("\2\0\0\0", 4);
        for (auto const& [tag, bits, id] :
             {std::tuple{1, 6, -1}, std::tuple{2, 4, 1234}, std::tuple{4, 0, -1},
              std::tuple{16, 4, -1}, std::tuple{32, 0, -1}}) {
            for (int const n : {tag, bits}) text += {static_cast<char>(n), '\0'};
            for (unsigned const shift : {0u, 8u, 16u, 24u})
                text += static_cast<char>(static_cast<unsigned>(id) >> shift & 255u);
        }
        return text;
    }();
    bool const has_acl = ::setxattr((d.s.dir / "m/notes").c_str(), "system.posix_acl_access",
                                    acl.data(), acl.size(), 0) == 0;
    if (has_acl) BOOST_TEST(d.mode_of("m/notes") == 0640u);
    bool const has_group = ::chown(weights.c_str(), static_cast<::uid_t>(-1), 12345) == 0;
    save_on(d.files, many_kinds(held::rows), 2, "m", {}, 5);
    BOOST_TEST(d.mode_of("m/model.safetensors") == (has_group ? 0600u : 0640u));
    BOOST_TEST(d.mode_of("m/notes") == 0600u);
}

BOOST_AUTO_TEST_CASE(a_failure_to_set_permissions_leaves_the_others_as_they_were) {
    directory_with_files const d;
    for (auto const* name : {"a_log", "b_log", "token"}) {
        d.append(name, "kept");
        d.set(std::string("m/") + name, 0600);
    }
    d.set("m", 0700);
    bool gone = false;
    disturbed_store const failing(d.files, [&](std::string_view what, std::string_view name) {
        if (what != "adopt") return;
        if (name == "m/a_log") throw cairn::error(cairn::errc::io, {.found = "no chmod"});
        if (name == "m/b_log" && !std::exchange(gone, true)) fs::remove(d.s.dir / name);
    });
    auto const r = save_on(failing, many_kinds(held::rows), 2, "m", {}, 5);
    BOOST_TEST_REQUIRE(r.warnings.size() == 1u);
    BOOST_TEST(r.warnings[0].find("no chmod") != std::string::npos, r.warnings[0]);
    BOOST_TEST(d.mode_of("m") == 0700u);
    BOOST_TEST(d.mode_of("m/token") == 0600u);
    BOOST_TEST(entries_of(d.s.dir / "m") ==
               (std::set<std::string>{"a_log", "model.safetensors", "token"}));
}

BOOST_AUTO_TEST_CASE(what_others_write_in_the_last_moment_is_copied_or_named) {
    directory_with_files const d;
    d.append("log", "1");
    bool appended = false, exchanged = false;
    disturbed_store const late(d.files, [&](std::string_view what, std::string_view name) {
        if (what == "adopt" && name == "m/model.safetensors" && !std::exchange(appended, true))
            d.append("log", "2");
        if (what == "exchange" && name == "m" && !std::exchange(exchanged, true)) {
            d.append("log", "3");
            d.append("new.txt", "new");
        }
    });
    auto const r = save_on(late, many_kinds(held::rows), 2, "m", {}, 5);
    BOOST_TEST(d.size_of("log") == 2u);
    BOOST_TEST_REQUIRE(r.warnings.size() == 1u);
    BOOST_TEST(r.warnings[0].find("'log', 'new.txt'") != std::string::npos, r.warnings[0]);
}

/// The other one has been told that it is committed.
BOOST_AUTO_TEST_CASE(an_export_that_is_committed_in_the_last_moment_is_not_replaced) {
    for (std::string const id : {"m", "one.safetensors"}) {
        directory_with_files const d;
        save_on(d.files, many_kinds(held::whole), 1, id, {}, 6);
        bool done = false;
        disturbed_store const late(d.files, [&](std::string_view what, std::string_view name) {
            if (what == "exchange" && name == id && !std::exchange(done, true))
                save_on(d.files, many_kinds(held::whole), 1, id, {}, 7);
        });
        auto const why = failure_of([&] { save_on(late, many_kinds(held::whole), 1, id, {}, 8); });
        BOOST_TEST(says(why, "another job writes to the same place"));
        cairn::memory_store other;
        save_on(other, many_kinds(held::whole), 1, "x.safetensors", {}, 7);
        auto const weights = id == "m" ? d.s.dir / "m/model.safetensors" : d.s.dir / id;
        BOOST_TEST((content_of(weights) == cairn::read_whole(other, "x.safetensors")));
        BOOST_TEST(entries_of(d.s.dir) == (std::set<std::string>{"m", id}));
    }
}

BOOST_AUTO_TEST_CASE(a_log_that_becomes_shorter_while_it_is_copied_is_copied_again) {
    directory_with_files const d;
    d.append("log", "many lines");
    int cuts = 0;
    disturbed_store const cutting(d.files, [&](std::string_view what, std::string_view name) {
        if (what == "open" && name == "log" && ++cuts <= 2)
            fs::resize_file(d.s.dir / "m/log", cuts == 1 ? 4 : 2);
    });
    auto const r = save_on(cutting, many_kinds(held::rows), 2, "m", {}, 5);
    BOOST_TEST(r.warnings.empty());
    BOOST_TEST(cuts == 3);
    BOOST_TEST(d.size_of("log") == 2u);
}

BOOST_AUTO_TEST_CASE(an_edit_of_a_file_that_an_export_adds_is_not_lost) {
    directory_with_files const d;
    d.append("config.json", "{}");
    cairn::safetensors_writer_options o;
    o.add_files = [&](auto const& put) {
        d.append("config.json", " edited");
        put("config.json", std::as_bytes(std::span(std::string_view("new"))));
    };
    std::vector<float> w{1};
    auto const e = failure_of([&] {
        cairn::save(cairn::state_dict{{"w", w}}, "m", cairn::safetensors_writer(d.files, o));
    });
    BOOST_TEST(says(e, "what was here when this save began"));
    BOOST_TEST(d.size_of("config.json") == 9u);
}

BOOST_AUTO_TEST_CASE(files_that_are_copied_in_a_commit_show_activity) {
    directory_with_files const d;
    d.append("log", "1");
    std::chrono::steady_clock::time_point before{};
    disturbed_store const slow(d.files, [&](std::string_view what, std::string_view name) {
        if (what != "adopt" || name != "m/log" || before.time_since_epoch().count() != 0) return;
        d.append("log", "2");
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        before = std::chrono::steady_clock::now();
    });
    cairn::detail::working_place place(cairn::any_store(slow), "m", std::string(32, 'a'), false);
    cairn::activity shown;
    shown.enter("commit");
    place.take(true, &shown);
    std::string_view const text = "weights";
    place.put(
        "model.safetensors", text.size(),
        [&](std::uint64_t at, std::span<std::byte> into) {
            auto const from = std::as_bytes(std::span(text)).subspan(at, into.size());
            std::copy(from.begin(), from.end(), into.begin());
        },
        true);
    place.keep([](std::string_view name) { return name == "log"; }, &shown);
    place.commit("model.safetensors");
    auto const idle = shown.read().idle;
    BOOST_TEST(d.size_of("log") > 1u);
    BOOST_TEST((idle <= std::chrono::steady_clock::now() - before + std::chrono::milliseconds(1)));
    (void)place.remove();
    BOOST_TEST(entries_of(d.s.dir) == std::set<std::string>{"m"});
}

BOOST_AUTO_TEST_SUITE_END()
