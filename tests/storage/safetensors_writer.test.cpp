// SPDX-License-Identifier: Apache-2.0
// What a save as safetensors files writes, from any number of ranks, and what it replaces.
#include "archetype/object_store.hpp"
#include "interrupted.hpp"
#include "support/fault_store.hpp"
#include "support/no_failures.hpp"
#include "support/saved_by_ranks.hpp"
#include "support/scratch.hpp"

#include <cairn/cairn.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/safetensors/layout.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/safetensors_reader.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/testing/storage.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace safetensors_exports {

namespace fs = std::filesystem;
namespace st = cairn::format::safetensors;
using cairn::dtype;
using contents = std::map<std::string, cairn::byte_vector>;

/// How the ranks hold a tensor.
enum class held { rows, columns, whole };

struct part_of_state {
    std::string fqn;
    dtype type;
    cairn::index_vector shape;
    held how = held::rows;
};

/// One rank's part of a state whose bytes follow from names and positions.
class state_part {
public:
    state_part(const std::vector<part_of_state>& all, int rank, int ranks, unsigned seed = 0) {
        for (auto const& p : all) add(p, rank, ranks, seed);
    }
    const cairn::state_dict& dict() const { return dict_; }

private:
    void add(const part_of_state& p, int rank, int ranks, unsigned seed) {
        auto const n = static_cast<std::size_t>(p.shape.product()) * cairn::size_of(p.type);
        auto& whole = memory_.emplace_back(n);
        for (std::size_t i = 0; i < n; ++i)
            whole[i] = static_cast<std::byte>((i * 37 + i / 251 + p.fqn.size() * 11 + seed) &
                                              (p.type == dtype::boolean ? 1u : 0xffu));
        cairn::tensor_view const all(p.type, p.shape, whole.data());
        if (p.how == held::whole || p.shape.empty()) {
            dict_[p.fqn] = all;
            return;
        }
        std::size_t const d = p.how == held::rows ? 0 : p.shape.size() - 1;
        auto const boxes = cairn::boxes_of(p.shape, cairn::device_mesh::line(ranks),
                                           {cairn::shard_along{static_cast<int>(d)}}, rank);
        cairn::sharded_view v{p.shape, p.type, {}};
        for (auto const& b : boxes) {  // the memory of a rank has gaps
            if (b.empty()) continue;
            v.shards.push_back(cairn::shard(b, cairn::subview(all, b)));
        }
        dict_[p.fqn] = v;
    }

    std::list<cairn::byte_vector> memory_{};
    cairn::state_dict dict_{};
};

std::vector<part_of_state> many_kinds(held how) {
    std::vector<part_of_state> all{
        {"scalar", dtype::float64, {}},        {"empty", dtype::int64, {0, 3}},
        {"rows.7", dtype::float32, {7, 5}},    {"l\xc3\xb6ng \"name\"", dtype::bfloat16, {2, 3, 9}},
        {"large", dtype::float32, {40, 5000}}, {"experts", dtype::float32, {4, 9, 4096}}};
    for (auto const type : {dtype::float64,
                            dtype::float32,
                            dtype::float16,
                            dtype::bfloat16,
                            dtype::float8_e4m3fn,
                            dtype::float8_e5m2,
                            dtype::float8_e4m3fnuz,
                            dtype::float8_e5m2fnuz,
                            dtype::float8_e8m0fnu,
                            dtype::int64,
                            dtype::int32,
                            dtype::int16,
                            dtype::int8,
                            dtype::uint64,
                            dtype::uint32,
                            dtype::uint16,
                            dtype::uint8,
                            dtype::boolean,
                            dtype::complex64,
                            dtype::float4_e2m1fn_x2})
        all.push_back({std::string(cairn::name_of(type)), type, {5, 6}});
    for (auto& p : all) p.how = how;
    return all;
}

template <class Store>
contents contents_of(Store place) {
    contents all;
    for (auto const& info : place.list()) all[info.name] = cairn::read_whole(place, info.name);
    return all;
}
template <class Store>
cairn::save_report save_on(Store store, const std::vector<part_of_state>& parts, int ranks,
                           const std::string& id, cairn::safetensors_writer_options o = {},
                           unsigned seed = 0) {
    cairn::save_report report;
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        state_part const mine(parts, me.rank(), ranks, seed);
        auto r = cairn::save(mine.dict(), id, me, cairn::safetensors_writer(store, o));
        if (me.rank() == 0) report = std::move(r);
    });
    return report;
}
/// Without what differs from save to save.
contents without_ids(contents all) {
    auto const it = all.find("model.safetensors.index.json");
    if (it == all.end()) return all;
    std::string text(reinterpret_cast<const char*>(it->second.data()), it->second.size());
    auto const at = text.find("\"save_id\"");
    text.erase(at, text.find('\n', at) - at);
    auto const b = std::as_bytes(std::span(text));
    it->second.assign(b.begin(), b.end());
    return all;
}
std::string names_in(const contents& all) {
    std::string out;
    for (auto const& [name, b] : all) out += name + " ";
    return out;
}
std::string failure_of(const std::function<void()>& f) {
    try {
        f();
    } catch (const cairn::error& e) {
        return e.what();
    }
    return "no failure";
}
bool says(const std::string& text, const std::string& part) {
    if (text.find(part) != text.npos) return true;
    BOOST_TEST_MESSAGE(text);
    return false;
}
cairn::byte_vector content_of(const fs::path& p) {
    std::ifstream f(p, std::ios::binary);
    std::string const s{std::istreambuf_iterator<char>(f), {}};
    auto const b = std::as_bytes(std::span(s));
    return {b.begin(), b.end()};
}
/// What is in a directory, hidden directories included.
std::set<std::string> entries_of(const fs::path& p) {
    std::set<std::string> out;
    for (auto const& e : fs::directory_iterator(p)) out.insert(e.path().filename().string());
    return out;
}

template <class Store>
struct export_place {
    Store base;
    std::string id() const { return "run"; }
    auto writer() { return cairn::safetensors_writer(base); }
    auto reader() { return cairn::safetensors_reader(base); }
    std::set<std::string> names() {
        std::set<std::string> out;
        add_names(base, "", out);
        return out;
    }
    static void add_names(Store at, const std::string& path, std::set<std::string>& out) {
        for (auto const& info : at.list()) out.insert(path + info.name);
        auto below = at.places();
        for (auto const& p : at.hidden_places()) below.push_back(p);
        for (auto const& p : below) add_names(at.at(p), path + p + "/", out);
    }
};

}  // namespace safetensors_exports

BOOST_AUTO_TEST_SUITE(safetensors_writing)

using namespace safetensors_exports;

BOOST_AUTO_TEST_CASE(the_safetensors_format_keeps_its_word_in_memory) {
    support::no_failures(cairn::testing::storage_suite(
        [] { return export_place<cairn::memory_store>{cairn::memory_store()}; },
        {.values = false}));
}

BOOST_AUTO_TEST_CASE(the_safetensors_format_keeps_its_word_in_files) {
    std::list<support::scratch> all;
    support::no_failures(cairn::testing::storage_suite(
        [&] { return export_place<cairn::file_store>{cairn::file_store(all.emplace_back().dir)}; },
        {.values = false}));
}

BOOST_AUTO_TEST_CASE(the_bytes_do_not_depend_on_the_ranks_nor_on_what_they_hold) {
    support::scratch s;
    cairn::file_store const files(s.dir);
    for (std::uint64_t const size : {std::uint64_t{5'000'000'000}, std::uint64_t{50'000}}) {
        cairn::safetensors_writer_options o;
        o.max_file_size = size;
        contents want;
        for (auto const how : {held::whole, held::rows, held::columns})
            for (int const ranks : {1, 3, 4}) {
                cairn::memory_store memory;
                BOOST_TEST_CONTEXT(static_cast<int>(how) << " on " << ranks << " ranks") {
                    save_on(memory, many_kinds(how), ranks, "m", o);
                    auto const found = without_ids(contents_of(memory.at("m")));
                    if (want.empty()) want = found;
                    BOOST_TEST(names_in(found) == names_in(want));
                    BOOST_TEST((found == want));
                    save_on(files, many_kinds(how), ranks, "m", o);
                    BOOST_TEST((without_ids(contents_of(files.at("m"))) == want));
                }
            }
        BOOST_TEST(want.size() == (size > 1'000'000 ? 1u : 4u), names_in(want));
    }
    BOOST_TEST(entries_of(s.dir) == std::set<std::string>{"m"});
}

BOOST_AUTO_TEST_CASE(a_file_of_the_reference_implementation_is_written_as_it_is) {
    auto const golden = fs::path(CAIRN_GOLDEN) / "formats";
    for (auto const* name : {"safetensors/torch_kinds/kinds.safetensors",
                             "hf/quantised_blocks/model-00001-of-00001.safetensors",
                             "hf/transformers_sharded/model-00002-of-00003.safetensors"}) {
        auto const tree = cairn::load_tree((golden / name).string(), {}, cairn::file_store());
        support::scratch s;
        cairn::safetensors_writer_options o;
        if (std::string(name).find("kinds") != std::string::npos)
            o.text["note"] = "h\xc3\xa9llo \xe2\x9c\x93";
        auto const id = (s.dir / "x.safetensors").string();
        cairn::save(tree, id, cairn::safetensors_writer(o));
        BOOST_TEST((content_of(id) == content_of(golden / name)), name);
        BOOST_TEST(entries_of(s.dir) == std::set<std::string>{"x.safetensors"});
    }
}

BOOST_AUTO_TEST_CASE(an_index_has_the_checksum_of_each_tensor) {
    for (auto const how : {held::rows, held::columns}) {
        cairn::memory_store store;
        cairn::safetensors_writer_options o;
        o.max_file_size = 100'000;
        auto const report = save_on(store, many_kinds(how), 3, "m", o);
        auto place = store.at("m");
        auto const index = cairn::read_whole(place, st::index_name);
        auto const notes = st::decode_notes(index);
        BOOST_TEST(notes.save_id == report.save_id);
        state_part const all(many_kinds(held::whole), 0, 1);
        BOOST_TEST(notes.crcs.size() == all.dict().size());
        for (auto const& [fqn, entry] : all.dict()) {
            auto const& v = entry.as_tensor().shards.at(0).view;
            cairn::byte_span const bytes(v.data, static_cast<std::size_t>(v.bytes()));
            BOOST_TEST(notes.crcs.at(fqn) == cairn::format::crc32(bytes), fqn);
        }
    }
}

BOOST_AUTO_TEST_CASE(tied_weights_are_stored_under_one_name_and_the_report_says_so) {
    cairn::memory_store store;
    std::vector<float> w{1, 2, 3}, other{4};
    cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
        cairn::state_dict const sd{{"embed", w}, {"head", w}, {"other", other}};
        auto const r = cairn::save(sd, "m", me, cairn::safetensors_writer(store));
        if (me.rank() != 0) return;
        BOOST_TEST_REQUIRE(r.warnings.size() == 1u);
        BOOST_TEST(says(r.warnings[0], "'head' is not stored: it is tied to 'embed'"));
    });
    std::vector<float> got(3), rest(1);
    cairn::load(cairn::state_dict{{"embed", got}, {"other", rest}}, "m", store);
    BOOST_TEST((got == w && rest == other));
    BOOST_TEST(says(failure_of([&] {
                        cairn::load(cairn::state_dict{{"head", got}}, "m", store);
                    }),
                    "'head'"));
}

BOOST_AUTO_TEST_CASE(what_the_format_does_not_have_is_refused_by_name_or_left_out) {
    cairn::memory_store store;
    std::vector<float> w{1, 2};
    int step = 3;
    cairn::state_dict const sd{{"w", w}, {"step", std::ref(step)}};
    auto const why = failure_of([&] { cairn::save(sd, "m", cairn::safetensors_writer(store)); });
    BOOST_TEST((says(why, "'step'") && says(why, "skip_values")));
    cairn::safetensors_writer_options o;
    o.skip_values = true;
    auto const r = cairn::save(sd, "m", cairn::safetensors_writer(store, o));
    BOOST_TEST_REQUIRE(r.warnings.size() == 1u);
    BOOST_TEST(says(r.warnings[0], "1 values are not stored, e.g. 'step'"));
    std::vector<float> got(2);
    cairn::load(cairn::state_dict{{"w", got}}, "m", store);
    BOOST_TEST((got == w));
    std::vector<std::complex<double>> z(2);
    BOOST_TEST(
        says(failure_of([&] {
                 cairn::save(cairn::state_dict{{"z", z}}, "m", cairn::safetensors_writer(store));
             }),
             "complex128"));
    BOOST_TEST(contents_of(store.at("m")).size() == 1u);
}

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
    BOOST_TEST(says(bare, "RenamingStore"));
}

/// The one who began first finds at the end that it is no longer what it was.
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
    auto const leave = [&](const std::string& name, const save_intent* i, hours since) {
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
        for (auto const& p : all) fs::last_write_time(p, fs::last_write_time(p) - since);
    };
    auto const own = intent_of(id_a), others = of_another_host(id_b);
    auto const stays = [&](const std::string& name, const save_intent* i, hours since = hours(0)) {
        leave(name, i, since);
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
    BOOST_TEST(stays(".m.saving-" + id_a, nullptr));
    BOOST_TEST(!stays(".m.saving-" + id_a + ".over", nullptr));
    BOOST_TEST(stays(".m.saving-something", &own, hours(25)));
    BOOST_TEST(stays(".mm.saving-" + id_a, &own, hours(25)));
    {
        cairn::detail::running_save const runs(id_a);
        BOOST_TEST(stays(".m.saving-" + id_a, &own, hours(25)));
    }
}

/// Every operation of the store fails in turn, before or after its effect.
BOOST_AUTO_TEST_CASE(each_operation_of_an_export_may_fail) {
    using support::fault;
    std::vector<part_of_state> parts{{"columns", dtype::float32, {4, 6}, held::columns},
                                     {"rows", dtype::float32, {7, 5}, held::rows}};
    cairn::safetensors_writer_options o;
    o.max_file_size = 100;  // two files
    auto const content = [&](unsigned seed) {
        cairn::memory_store m;
        save_on(m, parts, 1, "m", o, seed);
        return without_ids(contents_of(m.at("m")));
    };
    auto const before = content(1), saved = content(2);
    BOOST_TEST(before.size() == 3u);
    int tried = 0;
    for (int const faulty : {0, 1})
        for (bool const has_old : {false, true})
            for (bool const afterwards : {false, true})
                for (auto const what : {support::thrown::cairn_error, support::thrown::number})
                    for (int at = 0;; ++at) {
                        cairn::memory_store base;
                        if (has_old) save_on(base, parts, 2, "m", o, 1);
                        fault const f{at, what, afterwards};
                        support::fault_store<cairn::memory_store> const bad(base, f),
                            good(base, fault{});
                        auto const all = support::on_ranks_that_stay(2, [&](auto& me, int rank) {
                            state_part const mine(parts, rank, 2, 2);
                            (void)cairn::save(
                                mine.dict(), "m", support::patient_save(), me,
                                cairn::safetensors_writer(rank == faulty ? bad : good, o));
                        });
                        if (bad.hit().empty()) break;
                        ++tried;
                        BOOST_TEST_CONTEXT("rank " << faulty << ", " << support::words(f, bad.hit())
                                                   << support::words(all)) {
                            auto const now = without_ids(contents_of(base.at("m")));
                            auto const& old = has_old ? before : contents();
                            BOOST_TEST((now == saved || now == old), names_in(now));
                            for (auto const& t : all) {
                                BOOST_TEST(!t.raw);
                                BOOST_TEST(!t.is(cairn::errc::timed_out));
                                if (t.ok()) BOOST_TEST((now == saved));
                                if (t.e && !t.is(cairn::errc::outcome_unknown))
                                    BOOST_TEST((now == old));
                            }
                            save_on(base, parts, 2, "m", o, 3);
                            BOOST_TEST(base.hidden_places().empty());
                        }
                    }
    BOOST_TEST_MESSAGE(tried << " operations failed");
    BOOST_TEST(tried > 200);
}

BOOST_AUTO_TEST_SUITE_END()
