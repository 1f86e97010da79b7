// SPDX-License-Identifier: Apache-2.0
// How an export as safetensors files appears in one step, what it replaces, and what is left of one
// that fails.
#include "archetype/object_store.hpp"
#include "interrupted.hpp"
#include "safetensors_exports.hpp"
#include "support/fault_store.hpp"
#include "support/sanitized.hpp"
#include "support/saved_by_ranks.hpp"
#include "support/scratch.hpp"

#include <cairn/storage/detail/running_saves.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors_exports {

constexpr int stride = support::stride_if_sanitized(17);

/// Fails each operation of a store in turn, on each rank, with and without an older export.
/// @return How many failed.
template <class Make>
int fail_exports(Make make, std::vector<support::thrown> kinds) {
    using support::fault;
    using store = decltype(make());
    std::vector<part_of_state> parts{{"columns", dtype::float32, {4, 6}, held::columns},
                                     {"rows", dtype::float32, {2, 40'000}, held::rows}};
    cairn::safetensors_writer_options o;
    o.max_file_size = 100;  // two files
    auto const content = [&](unsigned seed) {
        cairn::memory_store m;
        save_on(m, parts, 1, "m", o, seed);
        return without_ids(contents_of(m.at("m")));
    };
    auto const before = content(1), saved = content(2);
    BOOST_TEST(before.size() == 3u);
    support::failure_points operations(stride);
    int tried = 0;
    auto const once = [&](int faulty, bool has_old, const fault& f) {
        auto base = make();
        if (has_old) save_on(base, parts, 2, "m", o, 1);
        support::fault_store<store> const bad(base, f), good(base, fault{});
        auto const all = support::on_ranks_that_stay(2, [&](auto& me, int rank) {
            state_part const mine(parts, rank, 2, 2);
            (void)cairn::save(mine.dict(), "m", support::patient_save(), me,
                              cairn::safetensors_writer(rank == faulty ? bad : good, o));
        });
        if (bad.hit().empty()) return false;
        BOOST_TEST_CONTEXT("rank " << faulty << ", " << support::words(f, bad.hit())
                                   << support::words(all)) {
            auto const now = without_ids(contents_of(base.at("m")));
            auto const& old = has_old ? before : contents();
            BOOST_TEST((now == saved || now == old), names_in(now));
            for (auto const& t : all) {
                BOOST_TEST(!t.raw);
                BOOST_TEST(!t.is(cairn::errc::timed_out));
                if (t.ok()) BOOST_TEST((now == saved));
                if (t.e && !t.is(cairn::errc::outcome_unknown)) BOOST_TEST((now == old));
            }
            save_on(base, parts, 2, "m", o, 3);
            BOOST_TEST(base.hidden_places().empty());
        }
        return true;
    };
    for (int const faulty : {0, 1})
        for (bool const has_old : {false, true})
            for (bool const afterwards : {false, true})
                for (auto const what : kinds)
                    for (int at = operations.first(); once(faulty, has_old, {at, what, afterwards});
                         at += operations.stride())
                        ++tried;
    return tried;
}

}  // namespace safetensors_exports

BOOST_AUTO_TEST_SUITE(safetensors_commit)

using namespace safetensors_exports;

BOOST_AUTO_TEST_CASE(an_export_replaces_the_weights_of_a_directory_and_keeps_its_other_files) {
    support::scratch s;
    cairn::file_store const files(s.dir);
    cairn::safetensors_writer_options o;
    o.max_file_size = 50'000;
    save_on(files, many_kinds(held::rows), 3, "m", o);
    auto const write = [&](const std::string& name, const std::string& text) {
        std::ofstream(s.dir / "m" / name) << text;
    };
    write("config.json", "{}");
    write("adapter_model.safetensors", "kept");
    // Copied from a bucket, where an earlier export was.
    write("model-00001-of-00002." + std::string(32, 'a') + ".safetensors", "old");
    write("tokenizer.json", "old");
    o = {};
    o.add_files = [](auto const& put) {
        std::string const text = "new";
        put("tokenizer.json", std::as_bytes(std::span(text)));
    };
    auto const r = save_on(files, many_kinds(held::rows), 3, "m", o, 5);
    BOOST_TEST(r.warnings.empty());
    BOOST_TEST(entries_of(s.dir / "m") ==
               (std::set<std::string>{"adapter_model.safetensors", "config.json",
                                      "model.safetensors", "tokenizer.json"}));
    BOOST_TEST(content_of(s.dir / "m/tokenizer.json").size() == 3u);
    BOOST_TEST(content_of(s.dir / "m/config.json").size() == 2u);
    BOOST_TEST(entries_of(s.dir) == std::set<std::string>{"m"});
    cairn::memory_store memory;
    save_on(memory, many_kinds(held::rows), 1, "m", {}, 5);
    BOOST_TEST((content_of(s.dir / "m/model.safetensors") ==
                contents_of(memory.at("m")).at("model.safetensors")));
}

BOOST_AUTO_TEST_CASE(a_large_file_beside_the_weights_is_written_in_pieces) {
    support::scratch s;
    constexpr std::uint64_t size = (std::uint64_t{20} << 20) + 3;
    std::uint64_t most = 0, end = 0;
    cairn::safetensors_writer_options o;
    o.add_files = [&](const cairn::file_adder& put) {
        put("tf_model.h5", size, [&](std::uint64_t at, std::span<std::byte> into) {
            BOOST_TEST(at == end);
            end = at + into.size();
            most = std::max<std::uint64_t>(most, into.size());
            for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::byte((at + i) % 251);
        });
    };
    save_on(cairn::file_store(s.dir), many_kinds(held::rows), 1, "m", o);
    BOOST_TEST(most == 8'388'608u);
    auto const written = content_of(s.dir / "m/tf_model.h5");
    BOOST_TEST_REQUIRE(written.size() == size);
    std::size_t equal = 0;
    for (std::size_t i = 0; i < written.size(); ++i)
        equal += std::to_integer<std::size_t>(written[i]) == i % 251 ? 1 : 0;
    BOOST_TEST(equal == size);
}

BOOST_AUTO_TEST_CASE(what_is_no_export_is_not_replaced) {
    support::scratch s;
    cairn::file_store const files(s.dir);
    std::vector<float> w{1};
    cairn::state_dict const sd{{"w", w}};
    auto const why = [&](const std::string& id, cairn::safetensors_writer_options o = {}) {
        return failure_of([&] { cairn::save(sd, id, cairn::safetensors_writer(files, o)); });
    };
    cairn::save(sd, "dcp", cairn::file_store(files));
    BOOST_TEST(says(why("dcp"), "'.metadata'"));
    fs::create_directories(s.dir / "clone/.git");
    BOOST_TEST(says(why("clone"), "'.git'"));
    fs::create_directories(s.dir / "nested/1_Pooling");
    BOOST_TEST(says(why("nested"), "'1_Pooling'"));
    for (auto const* to : {"nowhere", "nested"}) {  // as of a mount that is not there just now
        auto const at = s.dir / "linked" / (std::string(".to_") + to);
        fs::create_directories(at.parent_path());
        fs::create_symlink(s.dir / to, at);
        BOOST_TEST(says(why("linked"), "'" + at.filename().string() + "' in it"));
        BOOST_TEST(fs::is_symlink(at));
        fs::remove(at);
    }
    fs::remove(s.dir / "linked");
    std::ofstream(s.dir / "file") << "x";
    BOOST_TEST(says(why("file"), "a file"));
    fs::create_directories(s.dir / "d.safetensors");
    BOOST_TEST(says(why("d.safetensors"), "a directory"));
    fs::create_directory_symlink("nested", s.dir / "link");
    BOOST_TEST(says(why("link"), "a link"));
    for (auto const* id : {"", "/", ".", "a/.."}) BOOST_TEST(says(why(id), "an id that ends in"));
    cairn::safetensors_writer_options o;
    BOOST_TEST(why("m") == "no failure");
    o.overwrite = false;
    BOOST_TEST(says(why("m", o), "overwrite is off"));
    BOOST_TEST(why("fresh", o) == "no failure");
    BOOST_TEST(entries_of(s.dir) == (std::set<std::string>{"clone", "d.safetensors", "dcp", "file",
                                                           "fresh", "link", "m", "nested"}));
    auto const bare = failure_of([&] {
        cairn::memory_store memory;
        cairn::save(sd, "m", cairn::safetensors_writer(cairn::archetype::object_store(memory)));
    });
    BOOST_TEST(says(bare, "BrowsableStore"));
}

/// Which a container's volume is: all would be written to the file system above it, and at the end
/// it could not be exchanged.
BOOST_AUTO_TEST_CASE(a_mount_point_is_refused_before_anything_is_written) {
    std::vector<float> w{1};
    BOOST_TEST((cairn::file_store("/").kind_of("proc") == cairn::name_kind::mount));
    auto const why = failure_of([&] {
        cairn::save(cairn::state_dict{{"w", w}}, "/proc",
                    cairn::safetensors_writer(cairn::file_store("/")));
    });
    BOOST_TEST(says(why, "a mount point"), why);
    BOOST_TEST(says(why, "a directory below it"), why);
}

BOOST_AUTO_TEST_CASE(a_name_that_is_too_long_is_refused_before_anything_is_written) {
    support::scratch s;
    cairn::file_store const files(s.dir);
    std::vector<float> w{1};
    auto const save = [&](std::size_t length) {
        return failure_of([&] {
            auto const r = cairn::save(cairn::state_dict{{"w", w}}, std::string(length, 'm'),
                                       cairn::safetensors_writer(files));
            BOOST_TEST(r.warnings.empty());
        });
    };
    BOOST_TEST(says(save(210), "at most 209 bytes"));
    BOOST_TEST(entries_of(s.dir).empty());
    for (int i = 0; i < 2; ++i) BOOST_TEST(save(209) == "no failure");
    BOOST_TEST(entries_of(s.dir) == std::set<std::string>{std::string(209, 'm')});
}

BOOST_AUTO_TEST_CASE(of_two_exports_to_one_name_the_later_commit_fails) {
    support::scratch s;
    cairn::file_store const files(s.dir);
    auto const parts = many_kinds(held::whole);
    save_on(files, parts, 1, "m");
    cairn::safetensors_writer_options o;
    o.add_files = [&](auto const&) { save_on(files, parts, 1, "m", {}, 7); };
    auto const why = failure_of([&] { save_on(files, parts, 1, "m", o, 8); });
    BOOST_TEST(says(why, "another job writes"));
    cairn::memory_store memory;
    save_on(memory, parts, 1, "m", {}, 7);
    BOOST_TEST((contents_of(files.at("m")) == contents_of(memory.at("m"))));
    BOOST_TEST(entries_of(s.dir) == std::set<std::string>{"m"});
}

BOOST_AUTO_TEST_CASE(what_an_export_has_left_goes_when_its_process_has_ended) {
    using namespace interrupted;
    support::scratch s;
    cairn::file_store const files(s.dir);
    auto const leave = [&](const std::string& name, const save_intent* i, hours since,
                           bool is_written) {
        auto const at = s.dir / name;
        fs::create_directories(at / "new");
        std::vector<fs::path> all{at / "new/model.safetensors", at / "side.0"};
        for (auto const& p : all) std::ofstream(p) << "left";
        if (i != nullptr) {
            auto const b = i->encode();
            all.push_back(at / (".saving." + i->save_id));
            std::ofstream(all.back(), std::ios::binary)
                .write(reinterpret_cast<const char*>(b.data()),
                       static_cast<std::streamsize>(b.size()));
        }
        if (is_written) all.erase(all.begin());
        for (auto const& p : all) fs::last_write_time(p, fs::last_write_time(p) - since);
    };
    auto const own = intent_of(id_a), others = of_another_host(id_b);
    auto const stays = [&](const std::string& name, const save_intent* i, hours since = hours(0),
                           bool is_written = false) {
        leave(name, i, since, is_written);
        auto const r = save_on(files, many_kinds(held::whole), 1, "m");
        for (auto const& w : r.warnings) BOOST_TEST_MESSAGE(w);
        BOOST_TEST(r.warnings.empty());
        bool const is_there = fs::exists(s.dir / name);
        fs::remove_all(s.dir / name);
        BOOST_TEST(entries_of(s.dir) == std::set<std::string>{"m"});
        return is_there;
    };
    BOOST_TEST(!stays(".m.saving-" + id_a, &own));
    BOOST_TEST(stays(".m.saving-" + id_b, &others));
    BOOST_TEST(!stays(".m.saving-" + id_b, &others, hours(25)));
    BOOST_TEST(stays(".m.saving-" + id_b, &others, hours(25), true));
    BOOST_TEST(stays(".m.saving-" + id_a, nullptr));
    BOOST_TEST(!stays(".m.saving-" + id_a, nullptr, hours(25)));
    BOOST_TEST(!stays(".m.saving-" + id_a + ".over", nullptr));
    BOOST_TEST(stays(".m.saving-something", &own, hours(25)));
    BOOST_TEST(stays(".mm.saving-" + id_a, &own, hours(25)));
    {
        cairn::detail::running_save const runs(id_a);
        BOOST_TEST(stays(".m.saving-" + id_a, &own, hours(25)));
    }
}

BOOST_AUTO_TEST_CASE(each_operation_of_an_export_may_fail) {
    int const tried = fail_exports([] { return cairn::memory_store(); },
                                   {support::thrown::cairn_error, support::thrown::number});
    BOOST_TEST_MESSAGE(tried << " operations of a store in memory failed");
    BOOST_TEST(tried > 200 / stride);
}

BOOST_AUTO_TEST_CASE(each_operation_of_an_export_to_files_may_fail) {
    support::scratch s;
    int n = 0;
    auto const make = [&] {
        cairn::file_store_options o;
        o.sync_files = false;
        return cairn::file_store((s.dir / std::to_string(n++)).string(), o);
    };
    int const tried = fail_exports(make, {support::thrown::cairn_error});
    BOOST_TEST_MESSAGE(tried << " operations of a store of files failed");
    BOOST_TEST(tried > 100 / stride);
}

BOOST_AUTO_TEST_SUITE_END()
