// SPDX-License-Identifier: Apache-2.0
// Files of torch.save loaded like checkpoints: whole, by rows on several ranks, as trees.
#include "format/torch_save_file.hpp"
#include "support/counting_store.hpp"
#include "support/error_codes.hpp"
#include "support/expected.hpp"
#include "support/replaced_when_opened.hpp"
#include "support/sha256.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>
#include <cairn/detail/parallel.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/detail/source_pieces.hpp>
#include <cairn/storage/torch_save_reader.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <latch>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(torch_save_reader)

namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using torch_save_file::pickled, torch_save_file::samples;

cairn::torch_save_reader reader(const fs::path& folder) {
    return cairn::torch_save_reader(cairn::file_store(folder.string()));
}

/// The file of each sample, by its folder.
std::map<fs::path, std::string> files() {
    std::map<fs::path, std::string> all;
    for (auto const& dir : fs::directory_iterator(samples / "pt"))
        for (auto const& e : fs::directory_iterator(dir.path()))
            if (auto name = e.path().filename().string(); name != "expected.json")
                all[dir.path()] = name;
    return all;
}

support::whole load_whole(cairn::torch_save_reader from, const std::string& file,
                          cairn::load_report* report = nullptr) {
    from.reset(file);
    auto w = support::room_for(from.read_metadata());
    auto sd = support::views(w);
    auto found = cairn::load(sd, file, from);
    if (report != nullptr) *report = std::move(found);
    return w;
}

/// A store with one file.
cairn::memory_store holding(const std::string& file) {
    cairn::memory_store store;
    store.publish("f.pt", std::as_bytes(std::span(file)), std::nullopt);
    return store;
}

/// Four float32 of a file with one tensor.
std::vector<float> four(const std::string& file) {
    auto const w = load_whole(cairn::torch_save_reader(holding(file)), "f.pt");
    auto const& bytes = w.tensors.at("t").bytes;
    std::vector<float> v(bytes.size() / sizeof(float));
    std::memcpy(v.data(), bytes.data(), bytes.size());
    return v;
}
std::string as_bytes(const std::vector<float>& v, bool swapped) {
    std::string s(v.size() * sizeof(float), '\0');
    std::memcpy(s.data(), v.data(), s.size());
    for (std::size_t i = 0; swapped && i < s.size(); i += sizeof(float))
        std::reverse(s.begin() + static_cast<std::ptrdiff_t>(i),
                     s.begin() + static_cast<std::ptrdiff_t>(i + sizeof(float)));
    return s;
}
/// A zip with the tensor `t`.
std::string with_tensor(const std::string& storage, const char* flag, const char* byteorder,
                        const std::vector<std::int64_t>& shape = {4},
                        const std::vector<std::int64_t>& strides = {1},
                        const char* type = "FloatStorage") {
    pickled p;
    p.begin_dict();
    p.key("t");
    p.tensor("0", storage.size() / 4, 0, shape, strides, type, false, flag);
    p.end_dict();
    return p.zip({{"0", storage}}, {}, byteorder);
}

}  // namespace

BOOST_AUTO_TEST_CASE(samples_load_whole_as_pytorch_says) {
    BOOST_TEST(files().size() == 5u);
    for (auto const& [dir, file] : files()) {
        BOOST_TEST_CONTEXT(dir) {
            auto const w = load_whole(reader(dir), file);
            auto const want = json::parse(support::slurp(dir / "expected.json"));
            auto const& tensors = want.at("tensors").as_object();
            BOOST_TEST(w.tensors.size() == tensors.size());
            for (auto const& [key, x] : tensors) {
                BOOST_TEST_CONTEXT(key) {
                    auto const it = w.tensors.find(std::string(key));
                    BOOST_REQUIRE((it != w.tensors.end()));
                    auto const& t = it->second;
                    BOOST_TEST(cairn::name_of(t.type) ==
                               std::string_view(x.at("dtype").as_string()));
                    cairn::index_vector shape;
                    for (auto const& n : x.at("shape").as_array()) shape.push_back(n.as_int64());
                    BOOST_TEST((t.shape == shape));
                    BOOST_TEST(support::sha256(t.bytes) ==
                               std::string_view(x.at("sha256").as_string()));
                }
            }
            auto const& objects = want.at("objects").as_object();
            BOOST_TEST(w.objects.size() == objects.size());
            for (auto const& [key, x] : objects) {
                auto const it = w.objects.find(std::string(key));
                BOOST_REQUIRE((it != w.objects.end()));
                auto v = support::plain(it->second);
                if (v.is_object() && v.as_object().empty()) v = {{"dict", json::array()}};
                BOOST_TEST(v == x, key);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(samples_load_by_rows_on_other_numbers_of_ranks) {
    for (auto const& [folder, name] : files()) {
        auto const& dir = folder;
        auto const& file = name;
        auto const w = load_whole(reader(dir), file);
        auto from = reader(dir);
        from.reset(file);
        auto const m = from.read_metadata();
        for (int n : {1, 3}) {
            cairn::run_ranks(n, [&](cairn::thread_group::member& me) {
                support::rows r(m, me.rank(), n);
                cairn::load(r, file, me, reader(dir));
                if (!r.equals(w)) throw std::runtime_error(dir.string() + ": rows differ");
            });
        }
        BOOST_TEST(!m.entries.empty());
    }
}

BOOST_AUTO_TEST_CASE(a_tree_has_the_nesting_of_the_file) {
    auto const tree = cairn::load_tree("last.pt", {}, reader(samples / "pt/training_state"));
    auto const& groups = tree.at("optimizer").as_dict().at("param_groups");
    BOOST_TEST(tree.at("epoch").as_value().as<int>() == 3);
    BOOST_TEST(tree.at("model").as_dict().at("conv.weight").as_tensor().global_shape.size() == 4u);
    BOOST_TEST(groups.as_list().size() == 2u);
    // Also what must be changed while it is read: a conjugate.
    auto const kinds = cairn::load_tree("state.pt", {}, reader(samples / "pt/zip_kinds"));
    BOOST_TEST(kinds.at("model").as_dict().size() == 27u);
}

BOOST_AUTO_TEST_CASE(a_load_without_a_reader_knows_the_file_by_its_name) {
    for (auto const& [dir, file] : files())
        BOOST_TEST(cairn::load_tree((dir / file).string()).size() != 0u);
    // A directory of such a name is a checkpoint's place.
    cairn::memory_store store;
    cairn::state_dict sd{{"step", 7}};
    cairn::save(sd, "c.pt", store);
    BOOST_TEST(cairn::load_tree("c.pt", {}, store).at("step").as_value().as<int>() == 7);
}

BOOST_AUTO_TEST_CASE(a_load_says_what_has_no_checksum) {
    cairn::load_report zip, legacy;
    (void)load_whole(reader(samples / "pt/zip_kinds"), "state.pt", &zip);
    (void)load_whole(reader(samples / "pt/legacy_kinds"), "state.pt", &legacy);
    BOOST_TEST(zip.unverified.empty());
    BOOST_REQUIRE(legacy.unverified.size() == 1u);
    BOOST_TEST(legacy.unverified[0].find("without a checksum") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(elements_are_read_in_either_byte_order_and_as_views) {
    std::vector<float> const v{1, -2, 3, 4};
    BOOST_TEST(four(with_tensor(as_bytes(v, false), nullptr, "little")) == v);
    BOOST_TEST(four(with_tensor(as_bytes(v, true), nullptr, "big")) == v);
    std::vector<float> const negative{-1, 2, -3, -4};
    BOOST_TEST(four(with_tensor(as_bytes(v, false), "neg", "little")) == negative);
    BOOST_TEST(four(with_tensor(as_bytes(v, true), "neg", "big")) == negative);
    std::vector<float> const column{1, 1, -2, -2, 3, 3};
    BOOST_TEST(four(with_tensor(as_bytes(v, false), nullptr, "little", {3, 2}, {1, 0})) == column);
    // The conjugates of two complex numbers.
    std::vector<float> const conjugates{1, 2, 3, -4};
    for (bool const big : {false, true}) {
        pickled p;
        p.begin_dict();
        p.key("t");
        p.tensor("0", 2, 0, {2}, {1}, "ComplexFloatStorage", false, "conj");
        p.end_dict();
        BOOST_TEST(four(p.zip({{"0", as_bytes(v, big)}}, {}, big ? "big" : "little")) ==
                   conjugates);
    }
}

BOOST_AUTO_TEST_CASE(a_damaged_storage_is_found_and_named) {
    std::vector<float> const v{1, -2, 3, 4};
    for (auto const* flag : {static_cast<const char*>(nullptr), "neg"}) {
        auto file = with_tensor(as_bytes(v, false), flag, "little");
        auto const at = file.find(as_bytes(v, false));
        file[at + 5] ^= 1;
        BOOST_CHECK_EXCEPTION(four(file), cairn::error, [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::checksum_mismatch) &&
                   e.context().fqn == "t" && e.context().file.find("f.pt") != std::string::npos;
        });
    }
}

BOOST_AUTO_TEST_CASE(a_conversion_reads_a_storage_with_gaps_twice) {
    constexpr std::size_t rows = 4500, columns = 2000;
    std::string storage(4 * rows * columns, '\0');
    for (std::size_t i = 0; i < storage.size(); ++i)
        storage[i] = static_cast<char>((i / 4 * 2654435761U) >> (8 * (i % 4)) & 0x3f);
    for (auto const* order : {"little", "big"}) {
        pickled p;
        p.begin_dict();
        p.key("half");
        p.tensor("0", rows * columns, columns / 2, {rows, columns / 2}, {columns, 1});
        p.end_dict();
        auto file = p.zip({{"0", storage}}, {}, order);
        auto const at = file.find(storage.substr(0, 100));
        auto const source = holding(file);
        support::counting_store counting{source};
        cairn::memory_store to;
        cairn::convert({counting, "f.pt"}, "m", to);
        BOOST_TEST(
            (support::load_whole(to, "m") == load_whole(cairn::torch_save_reader(source), "f.pt")));
        BOOST_TEST(counting.reads("f.pt", at, storage.size()).second <= 3u);
        file[at + 100] ^= 1;  // of an element that nothing has
        BOOST_CHECK_EXCEPTION(cairn::convert({holding(file), "f.pt"}, "other", to), cairn::error,
                              [](const cairn::error& e) {
                                  return e.code() ==
                                         make_error_code(cairn::errc::checksum_mismatch);
                              });
    }
}

BOOST_AUTO_TEST_CASE(a_conversion_reads_a_transposed_tensor_or_a_lazy_view_once_or_twice) {
    constexpr std::int64_t rows = 2048, columns = 2048;  // four pieces
    std::string storage(4 * rows * columns, '\0');
    for (std::size_t i = 0; i < storage.size(); ++i)
        storage[i] = static_cast<char>((i / 4 * 2654435761U) >> (8 * (i % 4)) & 0x3f);
    for (auto const* flag : {static_cast<const char*>(nullptr), "neg"}) {
        auto const file = with_tensor(storage, flag, "little", {columns, rows},
                                      flag == nullptr ? std::vector<std::int64_t>{1, columns}
                                                      : std::vector<std::int64_t>{rows, 1});
        auto const at = file.find(storage.substr(0, 100));
        auto const source = holding(file);
        support::counting_store counting{source};
        cairn::memory_store to;
        cairn::convert({counting, "f.pt"}, "m", to);
        BOOST_TEST(
            (support::load_whole(to, "m") == load_whole(cairn::torch_save_reader(source), "f.pt")));
        BOOST_TEST(counting.reads("f.pt", at, storage.size()).second <= 2);
    }
}

BOOST_AUTO_TEST_CASE(threads_do_not_read_again_what_others_have_read_meanwhile) {
    constexpr std::int64_t rows = 20, columns = 64;
    support::counting_store source{holding(with_tensor(
        std::string(4 * rows * columns, '\1'), nullptr, "little", {rows, columns}, {1, rows}))};
    cairn::detail::source_pieces pieces(cairn::any_store(source), "f.pt");
    std::latch together(rows);  // each has a reader of its own
    source.on_open([&](std::string_view) { together.arrive_and_wait(); });
    auto const halves = [&](std::uint64_t at) {
        cairn::detail::for_each_in_parallel(rows, rows, [&](std::size_t i) {
            std::vector<std::byte> half(2 * columns);
            pieces.read("t", cairn::box({static_cast<std::int64_t>(i), 0}, {1, columns}),
                        cairn::dtype::f32, at, half);
        });
    };
    halves(0);
    auto const before = source.calls("f.pt");
    halves(2 * columns);
    BOOST_TEST(source.calls("f.pt") == before);
}

BOOST_AUTO_TEST_CASE(a_small_read_repeats_no_lines_about_the_ones_before_it) {
    pickled p;
    p.begin_dict();
    for (auto const* name : {"a", "b"}) {
        p.key(name);
        p.w.global("collections", "deque");
        p.w.op(')');
        p.w.op('R');
    }
    p.key("n");
    p.w.integer(1);
    p.end_dict();
    auto const source = holding(p.zip({}));
    for (bool const together : {false, true}) {
        cairn::torch_save_reader from{source, 1};
        from.reset("f.pt");
        auto const m = from.read_metadata();
        cairn::storage_setup setup;
        setup.in_pieces = true;
        if (together) setup.checked = cairn::checks_of_pieces();
        from.set_up_reader(m, setup);
        std::size_t said = 0, values = 0;
        for (auto const& entry : m.entries) {
            cairn::load_plan plan;
            plan.items.emplace_back().fqn = entry.first;
            cairn::read_target target;
            target.load_value = [&](const cairn::read_item&, const cairn::value&) { ++values; };
            said = cairn::await_completion<cairn::read_result>([&](auto done) {
                       from.read_data(plan, target, std::move(done));
                   }).unverified.size();
        }
        BOOST_TEST(values == 3U);
        BOOST_TEST(said == (together ? 0U : 1U));
        if (together) BOOST_TEST(setup.checked->notes.lines().size() == 1U);
    }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_replaced_after_its_metadata_was_read_is_not_read) {
    auto const source = holding(with_tensor(std::string(16, '\1'), nullptr, "little"));
    cairn::memory_store to;
    auto const convert = [&](int times) {
        return cairn::convert({support::replaced_when_opened(source, times), "f.pt"}, "m", to);
    };
    BOOST_CHECK_EXCEPTION((void)convert(1000), cairn::error,
                          support::is(cairn::errc::concurrent_save));
    BOOST_TEST(to.at("m").list().empty());
    (void)convert(0);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_harms_nobody_else) {
    pickled p;
    p.begin_dict();
    p.key("odd");
    p.w.global("torch._utils", "_rebuild_sparse_tensor");
    p.w.integer(1);
    p.w.op(0x85);
    p.w.op('R');
    p.key("date");
    p.w.global("datetime", "date");
    p.w.string("x");
    p.w.op(0x85);
    p.w.op('R');
    p.key("t");
    p.tensor("0", 4, 0, {4}, {1});
    p.end_dict();
    auto const store = holding(p.zip({{"0", as_bytes({5, 6, 7, 8}, false)}}));
    cairn::load_report report;
    auto const w = load_whole(cairn::torch_save_reader(store), "f.pt", &report);
    BOOST_TEST(w.tensors.size() == 1u);
    BOOST_TEST(w.objects.at("date").is<cairn::value::opaque_t>());
    std::string lines;
    for (auto const& line : report.unverified) lines += line + "\n";
    BOOST_TEST(lines.find("'odd': a sparse tensor") != std::string::npos);
    BOOST_TEST(lines.find("class datetime.date") != std::string::npos);
    std::vector<float> odd(4);
    cairn::state_dict sd{{"odd", odd}};
    BOOST_CHECK_EXCEPTION(cairn::load(sd, "f.pt", cairn::torch_save_reader(store)), cairn::error,
                          [](const cairn::error& e) {
                              return e.code() == make_error_code(cairn::errc::unsupported) &&
                                     e.context().found == "a sparse tensor";
                          });
    // A tree has the rest.
    BOOST_TEST(cairn::load_tree("f.pt", {}, cairn::torch_save_reader(store)).size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_directory_with_an_index_is_a_model_in_several_files) {
    cairn::memory_store store;
    auto place = store.at("m");
    auto const put = [&](const std::string& name, const std::string& bytes) {
        place.publish(name, std::as_bytes(std::span(bytes)), std::nullopt);
    };
    auto const shard = [](const std::vector<std::string>& tensors, float content) {
        pickled p;
        p.begin_dict();
        for (auto const& name : tensors) {
            p.key(name);
            p.tensor("0", 4, 0, {4}, {1});
        }
        p.end_dict();
        return p.zip({{"0", as_bytes(std::vector<float>(4, content), false)}});
    };
    auto const loaded = [&](const std::string& id, const std::string& fqn) {
        std::vector<float> x(4);
        auto const r = cairn::load(cairn::state_dict{{fqn, x}}, id, store);
        return std::pair(x[3], r.unverified);
    };
    auto const why = [&](const std::string& id) {
        try {
            (void)loaded(id, "l.a");
            return std::string("nothing");
        } catch (const cairn::error& e) {
            return std::string(e.what());
        }
    };
    put("pytorch_model-00001-of-00002.bin", shard({"l.a", "l.unnamed"}, 1));
    BOOST_TEST(why("m").find("one of the 2 files of a model") != std::string::npos, why("m"));
    put("pytorch_model.bin.index.json", R"({"weight_map":{
        "l.a":"pytorch_model-00001-of-00002.bin","l.b":"pytorch_model-00002-of-00002.bin"}})");
    BOOST_TEST(why("m").find("pytorch_model-00002-of-00002.bin") != std::string::npos, why("m"));
    put("pytorch_model-00002-of-00002.bin", shard({"l.b", "l.a"}, 2));
    put("x.bin.index.json", "{}");
    BOOST_TEST(loaded("m", "l.a").first == 1);
    BOOST_TEST(loaded("m", "l.b").first == 2);
    BOOST_TEST(loaded("m", "l.b").second.empty());
    put("pytorch_model.bin", shard({"l.b"}, 3));
    auto const beside = loaded("m", "l.b");
    BOOST_TEST(beside.first == 2);
    BOOST_TEST_REQUIRE(beside.second.size() == 1);
    BOOST_TEST(beside.second[0].starts_with("'pytorch_model.bin' is not read"), beside.second[0]);
    auto const [x, notes] = loaded("m/pytorch_model-00002-of-00002.bin", "l.a");
    BOOST_TEST(x == 2);
    BOOST_TEST_REQUIRE(notes.size() == 1);
    BOOST_TEST(notes[0].find("one of 2 files") != std::string::npos, notes[0]);
    cairn::checkpoint_reader reader(store);
    reader.reset("m");
    BOOST_TEST(reader.read_metadata().entries.size() == 2);
    put("pytorch_model-00002-of-00002.bin", shard({"l.a"}, 2));
    BOOST_TEST(why("m").find("'l.b'") != std::string::npos, why("m"));
    put("model.safetensors", "x");
    BOOST_TEST(why("m").find("model.safetensors") != std::string::npos, why("m"));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_not_there_or_none_of_torch_save_is_named) {
    cairn::state_dict none;
    auto const store = holding(std::string(100, 'x'));
    auto const fails = [&](const char* id, cairn::errc why, const char* words) {
        BOOST_CHECK_EXCEPTION(cairn::load(none, id, cairn::torch_save_reader(store)), cairn::error,
                              [&](const cairn::error& e) {
                                  return e.code() == make_error_code(why) &&
                                         std::string(e.what()).find(words) != std::string::npos;
                              });
    };
    fails("g.pt", cairn::errc::not_found, "g.pt");
    fails("f.pt", cairn::errc::unsupported, "f.pt");
    fails("", cairn::errc::not_found, "the name of a file");
}

BOOST_AUTO_TEST_SUITE_END()
