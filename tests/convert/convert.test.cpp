// SPDX-License-Identifier: Apache-2.0
#include "sources.hpp"
#include "support/allocations.hpp"
#include "support/counting_store.hpp"
#include "support/error_codes.hpp"
#include "support/scratch.hpp"
#include "support/sha256.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/catalog/verify.hpp>
#include <cairn/convert.hpp>
#include <cairn/format/pickle/writer.hpp>
#include <cairn/format/torch/read_metadata.hpp>
#include <cairn/format/torch/write_metadata.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/storage/torch_save_writer.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(convert)

namespace {

namespace fs = std::filesystem;
using convert_sources::damage;
using convert_sources::numbers;
using support::is;

const fs::path golden = CAIRN_GOLDEN;

support::whole all_of(const fs::path& checkpoint) {
    return support::load_whole(cairn::file_store(), checkpoint.string());
}
/// Samples of DCP are in a folder beside what is expected of them.
fs::path place_of(const fs::path& sample) {
    return fs::exists(sample / "checkpoint") ? sample / "checkpoint" : sample;
}
cairn::metadata metadata_of(const std::string& checkpoint) {
    cairn::checkpoint_reader reader{cairn::file_store()};
    reader.reset(checkpoint);
    return reader.read_metadata();
}
/// What PyTorch reads.
cairn::metadata pickle_of(const std::string& checkpoint) {
    cairn::file_store place(checkpoint);
    return cairn::format::torch::parse_metadata_pickle(cairn::read_whole(place, ".metadata"));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_format_becomes_the_same_checkpoint_on_any_number_of_ranks) {
    support::scratch s;
    for (auto const* source :
         {"torch-2.14.1/kinds", "torch-2.14.1/kinds_3_files", "torch-2.14.1/meshes_4_ranks", "zstd",
          "formats/hf/transformers_sharded", "formats/hf/dcp_sharded_3_ranks",
          "formats/pt/zip_kinds/state.pt", "formats/pt/legacy_kinds/state.pt"}) {
        auto const from = place_of(golden / source);
        auto const wanted = all_of(from);
        BOOST_REQUIRE(!wanted.tensors.empty());
        for (int const ranks : {1, 3}) {
            BOOST_TEST_CONTEXT(source << " on " << ranks << " ranks") {
                auto const to = (s.dir / source / std::to_string(ranks)).string();
                cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
                    (void)cairn::convert(from.string(), to, me);
                });
                BOOST_TEST((all_of(to) == wanted));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(what_has_no_checksum_is_said_once_for_each_file) {
    support::scratch s;
    auto const from = (golden / "formats/hf/transformers_sharded").string();
    auto const r = cairn::convert(from, (s.dir / "m").string());
    std::size_t items = 0, files = 0;
    for (auto const& line : r.unverified) {
        auto const at = line.find(": ");
        if (line.find("written without a checksum") == line.npos) continue;
        ++files;
        items += std::stoul(line.substr(at + 2));
    }
    BOOST_TEST(items == all_of(from).tensors.size());
    BOOST_TEST(r.unverified.size() == files + 1);  // and that nothing tells whether they fit
}

BOOST_AUTO_TEST_CASE(an_item_that_is_read_in_pieces_is_said_once) {
    support::scratch s;
    constexpr std::size_t elements = 2 * 1024 * 1024 + 7;  // three pieces of 4 MiB
    std::string const header = R"({"w":{"dtype":"F32","shape":[)" + std::to_string(elements) +
                               R"(],"data_offsets":[0,)" + std::to_string(4 * elements) + "]}}";
    auto const from = s.dir / "model.safetensors";
    std::ofstream f(from, std::ios::binary);
    for (unsigned i = 0; i < 8; ++i) f.put(static_cast<char>(header.size() >> (8 * i) & 0xff));
    f << header << std::string(4 * elements, 'x');
    f.close();
    auto const r = cairn::convert(from.string(), (s.dir / "m").string());
    auto const said = [&](const std::string& line) {
        return line.find(": 1 item was written without a checksum") != line.npos;
    };
    BOOST_TEST(std::count_if(r.unverified.begin(), r.unverified.end(), said) == 1);
}

BOOST_AUTO_TEST_CASE(quantised_weights_become_what_they_stand_for_on_request) {
    support::scratch s;
    auto const from = (golden / "formats/hf/quantised_blocks").string();
    auto const to = (s.dir / "m").string();
    cairn::convert_options o;
    o.dequantise = cairn::dequantise_options{.block = {{4, 4}}};
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        (void)cairn::convert(from, to, o, me, cairn::safetensors_writer());
    });
    auto const got = all_of(to);
    BOOST_TEST(got.tensors.size() == 2U);
    BOOST_TEST(support::sha256(got.tensors.at("q.weight").bytes) ==
               "8e910ace1575730acaffdb94dcdf3168928a3e3cd9c06d6f5ba902daffb591c1");
    BOOST_TEST((got.tensors.at("plain.weight") == all_of(from).tensors.at("plain.weight")));
}

BOOST_AUTO_TEST_CASE(codes_and_scales_do_not_become_another_dtype) {
    support::scratch s;
    auto const from = (golden / "formats/hf/quantised_blocks").string();
    cairn::convert_options o;
    o.floats_as = cairn::dtype::bfloat16;
    for (auto const* name : {"q.weight", "q.weight_scale_inv"}) {
        auto const to = (s.dir / name).string();
        o.wants = [&](std::string_view fqn) { return fqn == name; };
        BOOST_CHECK_EXCEPTION(
            (void)cairn::convert(from, to, o), cairn::error, [&](const cairn::error& e) {
                return is(e, cairn::errc::invalid_argument) && e.context().fqn == name;
            });
        BOOST_TEST(!fs::exists(fs::path(to) / ".metadata"));
    }
    o.wants = [](std::string_view fqn) { return fqn == "plain.weight"; };
    BOOST_CHECK_NO_THROW((void)cairn::convert(from, (s.dir / "plain").string(), o));
    o.wants = nullptr;
    o.dequantise = cairn::dequantise_options{.block = {{4, 4}}};
    BOOST_CHECK_NO_THROW((void)cairn::convert(from, (s.dir / "all").string(), o));
}

BOOST_AUTO_TEST_CASE(a_tied_weight_stays_one_and_names_keep_their_paths) {
    support::scratch s;
    auto const one = (s.dir / "one").string(), two = (s.dir / "two").string();
    auto w = numbers(6000), v = numbers(60);
    std::string text = "t";
    cairn::state_dict const sd{
        {"model", cairn::state_dict{{"a.b", w}, {"c", w}, {"d", v}, {"text", std::ref(text)}}}};
    (void)cairn::save(sd, one);
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        auto const r = cairn::convert(one, two, me);
        BOOST_TEST(r.unverified.empty());
        BOOST_TEST(r.left_out.empty());
    });
    BOOST_TEST((all_of(one) == all_of(two)));
    auto const a = metadata_of(one), b = metadata_of(two);
    BOOST_TEST((a.paths == b.paths));
    std::uint64_t bytes = 0;
    for (auto const& [name, size] : b.file_sizes) bytes += size;
    BOOST_TEST(bytes < 2 * w.size() * sizeof(float));
}

BOOST_AUTO_TEST_CASE(a_tied_weight_of_any_format_is_exported_under_the_preferred_name) {
    support::scratch s;
    auto w = numbers(600);
    auto v = w;
    auto const second = cairn::tensor_view(cairn::dtype::f32, {300}, v.data() + 300);
    cairn::state_dict const sd{
        {"a", w}, {"b", w}, {"of_v", second}, {"of_v_too", second}, {"v", v}};
    auto const dcp = (s.dir / "dcp").string(), pt = (s.dir / "m.pt").string();
    (void)cairn::save(sd, dcp);
    (void)cairn::save(sd, pt, cairn::torch_save_writer());
    for (auto const& from : {dcp, pt}) {
        auto const to = (s.dir / "export").string(), again = (s.dir / "again.pt").string();
        cairn::safetensors_writer_options o;
        o.prefers = [](std::string_view fqn) { return fqn == "b" || fqn == "of_v_too"; };
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            (void)cairn::convert(from, to, me, cairn::safetensors_writer(o));
        });
        std::string names;
        for (auto const& [fqn, entry] : metadata_of(to).entries) names += fqn + ' ';
        BOOST_TEST(names == "b of_v_too v ", from);
        (void)cairn::convert(from, again, cairn::torch_save_writer());
        BOOST_TEST((all_of(again) == all_of(from)));
        BOOST_TEST(fs::file_size(again) < fs::file_size(pt) + 1000);
    }
}

BOOST_AUTO_TEST_CASE(what_metadata_has_besides_survives_conversions_between_checkpoints_of_dcp) {
    support::scratch s;
    for (auto const* source : {"megatron_subclass", "megatron", "other_forms"}) {
        BOOST_TEST_CONTEXT(source) {
            auto const from = (golden / source).string(), one = (s.dir / source / "one").string(),
                       two = (s.dir / source / "two").string();
            auto const wanted = metadata_of(from);
            BOOST_TEST(!wanted.foreign.members.empty());
            (void)cairn::convert(from, one);
            cairn::run_ranks(
                3, [&](cairn::thread_group::member& me) { (void)cairn::convert(one, two, me); });
            for (auto const& to : {one, two}) {
                BOOST_TEST((metadata_of(to).foreign == wanted.foreign));
                // As PyTorch reads it.
                BOOST_TEST((pickle_of(to).foreign == wanted.foreign));
                BOOST_TEST(cairn::verify(cairn::file_store(to)).whole());
            }
        }
    }
    auto const m = metadata_of((s.dir / "megatron_subclass/two").string());
    BOOST_TEST(m.foreign.name == "MCoreMetadata");
    BOOST_TEST(m.foreign.module == "megatron.core.dist_checkpointing.strategies.torch");
    BOOST_TEST(m.foreign.members.count("mcore_data") == 1u);
    BOOST_TEST(metadata_of((s.dir / "other_forms/two").string()).foreign.name.empty());
}

BOOST_AUTO_TEST_CASE(planner_data_of_other_planners_survives_conversions) {
    support::scratch s;
    auto const one = (s.dir / "one").string(), two = (s.dir / "two").string();
    auto w = numbers(60), v = numbers(6);
    (void)cairn::save(cairn::state_dict{{"w", w}, {"v", v}}, one);
    auto m = metadata_of(one);
    m.save_id.clear();
    namespace pickle = cairn::format::pickle;
    pickle::writer p;
    p.op('}');
    p.mark();
    p.string("w");
    p.string("w");
    p.op(0x85);
    p.string("plan");
    p.integer(7);
    p.op('u');
    auto const data = p.finish();
    m.foreign.members["planner_data"] = data;
    auto const bytes = cairn::format::torch::write_metadata_pickle(m);
    std::ofstream(fs::path(one) / ".metadata", std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    BOOST_TEST(metadata_of(one).unknown_members.count("Metadata.planner_data") == 1u);
    (void)cairn::convert(one, two);
    auto const found = pickle_of(two);
    BOOST_TEST(found.foreign.members.count("planner_data") == 1u);
    BOOST_TEST((found.foreign == metadata_of(one).foreign));
    BOOST_TEST((found.paths == metadata_of(one).paths));
    BOOST_TEST(found.paths.size() == 1u);
    BOOST_TEST(cairn::verify(cairn::file_store(two)).whole());
}

BOOST_AUTO_TEST_CASE(unknown_members_of_entries_survive_conversions) {
    support::scratch s;
    auto const one = (s.dir / "one").string(), two = (s.dir / "two").string();
    auto w = numbers(60), v = numbers(6);
    (void)cairn::save(cairn::state_dict{{"w", w}, {"v", v}, {"n", 3}, {"plain", 4}}, one);
    auto m = metadata_of(one);
    m.save_id.clear();
    auto const pickle_of_text = [](std::string_view text) {
        cairn::format::pickle::writer p;
        p.string(text);
        return p.finish();
    };
    auto& more = m.foreign.of_entries;
    more["w"] = {{"TensorStorageMetadata.scale", pickle_of_text("per row")},
                 {"TensorProperties.6", pickle_of_text("seventh")}};
    more["n"] = {{"BytesStorageMetadata.codec", pickle_of_text("none")}};
    auto const bytes = cairn::format::torch::write_metadata_pickle(m);
    std::ofstream(fs::path(one) / ".metadata", std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    auto wanted = metadata_of(one).foreign;
    BOOST_TEST_REQUIRE(wanted.of_entries.size() == 2u);
    for (auto const& [fqn, members] : more)
        for (auto const& member : members)
            BOOST_TEST(wanted.of_entries.at(fqn).count(member.first) == 1u);
    BOOST_TEST(
        (metadata_of(one).unknown_members ==
         std::set<std::string, std::less<>>{"BytesStorageMetadata.codec", "TensorProperties.6",
                                            "TensorStorageMetadata.scale"}));
    (void)cairn::convert(one, two);
    BOOST_TEST((pickle_of(two).foreign == wanted));
    BOOST_TEST((metadata_of(two).foreign == wanted));
    BOOST_TEST(cairn::verify(cairn::file_store(two)).whole());
    // Of what is not converted, nothing is kept.
    auto const three = (s.dir / "three").string();
    cairn::convert_options o;
    o.wants = [](std::string_view fqn) { return fqn != "n"; };
    (void)cairn::convert(two, three, o);
    wanted.of_entries.erase("n");
    BOOST_TEST((metadata_of(three).foreign == wanted));
}

BOOST_AUTO_TEST_CASE(floats_become_another_dtype_and_only_what_is_wanted_is_converted) {
    support::scratch s;
    auto const one = (s.dir / "one").string(), two = (s.dir / "two").string();
    auto w = numbers(100'000), v = numbers(60);
    std::vector<std::int64_t> n{1, 2, 3};
    (void)cairn::save(cairn::state_dict{{"w", w}, {"optimizer", v}, {"n", n}}, one);
    cairn::convert_options o;
    o.floats_as = cairn::dtype::bfloat16;
    o.wants = [](std::string_view fqn) { return fqn != "optimizer"; };
    (void)cairn::convert(one, two, o);
    auto const found = all_of(two);
    BOOST_TEST(found.tensors.size() == 2u);
    BOOST_TEST((found.tensors.at("w").type == cairn::dtype::bfloat16));
    BOOST_TEST((found.tensors.at("n").type == cairn::dtype::int64));
    std::vector<float> back(w.size());
    cairn::load_options converting;
    converting.planner.dtypes = cairn::dtype_policy::convert;
    converting.planner.partial = true;
    (void)cairn::load(cairn::state_dict{{"w", back}}, two, converting);
    for (std::size_t i = 0; i < w.size(); ++i)
        if (std::abs(back[i] - w[i]) > w[i] / 256) BOOST_FAIL("element " << i << ": " << back[i]);
}

BOOST_AUTO_TEST_CASE(a_conversion_of_nothing_is_refused_and_leaves_the_target) {
    support::scratch s;
    auto const one = (s.dir / "one").string(), to = (s.dir / "to.safetensors").string();
    auto w = numbers(60);
    (void)cairn::save(cairn::state_dict{{"w", w}}, one);
    (void)cairn::convert(one, to, cairn::safetensors_writer());
    cairn::convert_options o;
    o.wants = [](std::string_view fqn) { return fqn == "v"; };
    for (auto const& from : {one, to})
        BOOST_CHECK_EXCEPTION(
            (void)cairn::convert(from, to, o, cairn::safetensors_writer()), cairn::error,
            [](const cairn::error& e) { return is(e, cairn::errc::invalid_argument); });
    BOOST_TEST((all_of(to) == all_of(one)));
    // Of an empty checkpoint nothing is missing.
    (void)cairn::save(cairn::state_dict{}, one);
    BOOST_CHECK_NO_THROW((void)cairn::convert(one, (s.dir / "empty").string(), o));
}

BOOST_AUTO_TEST_CASE(memory_does_not_grow_with_the_checkpoint) {
    support::scratch s;
    auto const one = (s.dir / "one").string(), two = (s.dir / "two").string();
    constexpr std::size_t elements = std::size_t{24} << 20;
    {
        auto w = numbers(elements);
        cairn::torch_writer_options o;
        o.thread_count = 1;
        (void)cairn::save(cairn::state_dict{{"w", w}}, one,
                          cairn::torch_writer(cairn::file_store(), o));
    }
    {
        support::allocations const counted;
        (void)cairn::convert(one, two);
        (void)cairn::convert(one, two + ".pt", cairn::torch_save_writer());
        (void)cairn::convert(one, two + ".safetensors", cairn::safetensors_writer());
        BOOST_TEST(counted.peak() < std::size_t{32} << 20);
    }
    std::vector<float> w(elements);
    for (auto const* end : {"", ".pt", ".safetensors"}) {
        w.assign(w.size(), 0);
        (void)cairn::load(cairn::state_dict{{"w", w}}, two + end);
        BOOST_TEST(bool(w == numbers(elements)), end);
    }
}

/// DCP to safetensors to torch.save to DCP, each on another number of ranks.
BOOST_AUTO_TEST_CASE(random_states_come_back_through_every_format) {
    constexpr cairn::dtype types[] = {cairn::dtype::float32,   cairn::dtype::bfloat16,
                                      cairn::dtype::float64,   cairn::dtype::int64,
                                      cairn::dtype::uint8,     cairn::dtype::boolean,
                                      cairn::dtype::complex64, cairn::dtype::float8_e4m3fn};
    for (unsigned seed = 1; seed <= 12; ++seed) {
        support::scratch s;
        std::minstd_rand random(seed);
        auto const below = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % n; };
        std::deque<std::vector<std::byte>> memory;
        cairn::state_dict sd;
        for (auto n = 1 + below(12); n > 0; --n) {
            auto const type = types[below(std::ssize(types))];
            cairn::index_vector shape;
            for (auto d = below(4); d > 0; --d) shape.push_back(below(9) == 0 ? 0 : 1 + below(40));
            auto& m = memory.emplace_back(static_cast<std::size_t>(shape.product()) *
                                          cairn::size_of(type));
            for (auto& b : m)
                b = static_cast<std::byte>(type == cairn::dtype::boolean ? below(2) : below(256));
            sd["t" + std::to_string(n)] = cairn::tensor_view(type, shape, m.data());
        }
        std::string const dcp = (s.dir / "dcp").string(), hf = (s.dir / "hf").string(),
                          pt = (s.dir / "state.pt").string(), back = (s.dir / "back").string();
        (void)cairn::save(sd, dcp);
        auto const on_ranks = [&](const std::string& from, const std::string& to, auto writer) {
            auto const ranks = static_cast<int>(1 + below(4));
            cairn::convert_options o;
            o.dim = static_cast<int>(below(2));
            cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
                (void)cairn::convert(from, to, o, me, writer());
            });
        };
        BOOST_TEST_CONTEXT("seed " << seed) {
            on_ranks(dcp, hf, [&] {
                return cairn::safetensors_writer({.max_file_size = 1000 + 100 * seed});
            });
            on_ranks(hf, pt, [] { return cairn::torch_save_writer(); });
            on_ranks(pt, back, [] { return cairn::torch_writer(cairn::file_store()); });
            auto const wanted = all_of(dcp);
            BOOST_TEST(bool(all_of(hf) == wanted));
            BOOST_TEST(bool(all_of(pt) == wanted));
            BOOST_TEST(bool(all_of(back) == wanted));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_damaged_source_is_named_and_leaves_no_target) {
    support::scratch s;
    // PyTorch's items have one checksum each, cairn's one for each block.
    auto const own = s.dir / "own", torch = s.dir / "torch";
    auto w = numbers(100'000);
    (void)cairn::save(cairn::state_dict{{"w", w}}, own.string());
    fs::copy(golden / "torch-2.14.1/meshes_4_ranks", torch, fs::copy_options::recursive);
    for (auto const& from : {own, torch}) {
        auto const place = place_of(from), to = from / "converted";
        cairn::checkpoint_reader reader{cairn::file_store()};
        reader.reset(place.string());
        auto const m = reader.read_metadata();
        for (auto const& [fqn, entry] : m.entries) {
            auto const* t = std::get_if<cairn::tensor_metadata>(&entry);
            if (t == nullptr || t->shape.product() == 0) continue;
            auto const at = t->chunks.location(0);
            damage(place / at.file, at.offset + at.length / 2);
            BOOST_CHECK_EXCEPTION((void)cairn::convert(place.string(), to.string()), cairn::error,
                                  [](const cairn::error& e) { return !e.context().file.empty(); });
            BOOST_TEST(!fs::exists(to / ".metadata"));
            damage(place / at.file, at.offset + at.length / 2);
            break;
        }
        BOOST_CHECK_NO_THROW((void)cairn::convert(place.string(), to.string()));
    }
}

BOOST_AUTO_TEST_CASE(files_stay_open_from_piece_to_piece) {
    constexpr std::size_t mib = std::size_t{1} << 20;
    cairn::memory_store const store;
    {
        auto w = numbers(24 * mib / sizeof(float));  // 6 pieces
        (void)cairn::save(cairn::state_dict{{"w", w}}, "a", cairn::torch_writer(store));
    }
    support::counting_store source{store};
    std::atomic<int> opened{0};
    source.on_open([&](std::string_view name) { opened += name.ends_with(".distcp") ? 1 : 0; });
    (void)cairn::convert({source, "a"}, "b", cairn::torch_writer(store));
    BOOST_TEST(opened == 1);
}

BOOST_AUTO_TEST_CASE(a_source_that_is_not_there_is_an_error_on_every_rank) {
    support::scratch s;
    int failed = 0;
    std::mutex m;
    auto const from = (s.dir / "none").string(), to = (s.dir / "to").string();
    cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
        try {
            (void)cairn::convert(from, to, me);
        } catch (const cairn::error& e) {
            std::lock_guard const lock(m);
            failed += is(e, cairn::errc::not_found);
        }
    });
    BOOST_TEST(failed == 3);
    BOOST_TEST(!fs::exists(fs::path(to) / ".metadata"));
}

BOOST_AUTO_TEST_SUITE_END()
