// SPDX-License-Identifier: Apache-2.0
// What PyTorch has saved and cairn does not know: values of other classes, and other dtypes.
#include <cairn/catalog/latest.hpp>
#include <cairn/catalog/verify.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/torch/read_metadata.hpp>
#include <cairn/format/torch/value_item.hpp>
#include <cairn/load_tree.hpp>
#include <cairn/metadata/detail/locations.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/save.hpp>

#include "support/counting_store.hpp"
#include "support/whole.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(unknown)

namespace {

using cairn::value;

const std::string values = std::string(CAIRN_GOLDEN) + "/unknown_values";
const std::string dtypes = std::string(CAIRN_GOLDEN) + "/unknown_dtypes";

struct known_class {
    const char* key;
    const char* what;
};
const known_class opaque[] = {
    {"deque", "class collections.deque"},
    {"list_subclass", "class __main__.Names"},
    {"nested", "nesting deeper than 200"},
    {"shared", "shared values that expand to more than 64 times their bytes"},
    {"set", "class __builtin__.set"},
    {"numpy_scalar", "classes numpy._core.multiarray.scalar, numpy.dtype"},
    {"enum", "class __main__.Schedule"},
    {"bytes_io", "class _io.BytesIO"},
    {"dataclass", "class __main__.Config"},
    {"delta", "class datetime.timedelta"},
    {"tensors", "classes torch.FloatStorage, torch.LongStorage, torch._utils._rebuild_tensor_v2"},
};

/// The stored bytes of each value of a checkpoint.
std::map<std::string, std::vector<std::byte>> items_of(auto place) {
    cairn::torch_reader reader(place);
    auto const m = reader.read_metadata();
    std::map<std::string, std::vector<std::byte>> items;
    for (auto const& [fqn, entry] : m.entries) {
        auto const* v = std::get_if<cairn::value_metadata>(&entry);
        if (v == nullptr) continue;
        auto& b = items[fqn];
        b.resize(static_cast<std::size_t>(v->at.length));
        place.open(v->at.file).read(v->at.offset, b);
    }
    return items;
}
template <class F>
void is_unsupported(const std::string& fqn, const std::string& what, F&& f) {
    BOOST_CHECK_EXCEPTION(f(), cairn::error, [&](const cairn::error& e) {
        BOOST_TEST_INFO(e.what());
        BOOST_TEST(e.context().fqn == fqn);
        BOOST_TEST(std::string(e.what()).find(what) != std::string::npos);
        return e.code() == cairn::make_error_code(cairn::errc::unsupported);
    });
}
std::string verified(const std::string& checkpoint) {
    auto const r = cairn::verify(cairn::file_store(checkpoint));
    BOOST_TEST(r.whole());
    BOOST_TEST(!r.damaged);
    std::string lines;
    for (auto const& line : r.unverified) lines += line + '\n';
    return lines;
}

}  // namespace

BOOST_AUTO_TEST_CASE(unknown_values_are_given_as_they_are_stored) {
    auto const tree = cairn::load_tree(values, {}, cairn::file_store());
    auto const& extra = tree.at("extra").as_dict();
    auto const items = items_of(cairn::file_store(values));
    for (auto const& [key, what] : opaque) {
        BOOST_TEST_CONTEXT(key) {
            auto const v = extra.at(key).as_value();
            auto const* o = v.get_if<value::opaque_t>();
            BOOST_REQUIRE(o != nullptr);
            BOOST_TEST(o->what() == what);
            BOOST_TEST((o->item() == items.at(std::string("extra.") + key)));
        }
    }
    BOOST_TEST(tree.at("step").as_value().as<int>() == 7);
}

BOOST_AUTO_TEST_CASE(unknown_values_are_saved_again_unchanged) {
    cairn::memory_store store;
    for (int round = 0; round < 2; ++round) {
        auto tree = round == 0 ? cairn::load_tree(values, {}, cairn::file_store())
                               : cairn::load_tree("c", {}, store);
        (void)cairn::save(tree, "c", store);
        BOOST_TEST((items_of(store.at("c")) == items_of(cairn::file_store(values))));
    }
    // In a list it has a name of its own.
    auto const deque = cairn::load_tree(values, {}, cairn::file_store())
                           .at("extra")
                           .as_dict()
                           .at("deque")
                           .as_value();
    cairn::state_dict sd{{"list", value::list({1, deque})}};
    (void)cairn::save(sd, "c", store);
    BOOST_TEST((items_of(store.at("c")).at("list.1") == deque.get_if<value::opaque_t>()->item()));
    BOOST_CHECK_THROW((void)cairn::format::torch::encode_value(
                          value::list({value(value::opaque_t{{}, "class a.B"})})),
                      cairn::error);
}

BOOST_AUTO_TEST_CASE(unknown_values_load_into_no_type_and_keep_nobody_from_the_rest) {
    std::vector<float> w(6);
    int step = 0, number = 0;
    auto const load_with = [&](const std::string& key, cairn::node n) {
        cairn::state_dict sd{{"w", cairn::tensor_view(cairn::dtype::f32, {2, 3}, w.data())},
                             {"step", std::ref(step)},
                             {"extra", cairn::state_dict{{key, std::move(n)}}}};
        return cairn::load(sd, values, cairn::file_store());
    };
    std::pair<double, double> pair;
    is_unsupported("extra.set", "class __builtin__.set",
                   [&] { load_with("set", std::ref(number)); });
    is_unsupported("extra.tensors", "torch.FloatStorage",
                   [&] { load_with("tensors", std::ref(pair)); });
    value kept;
    auto const report = load_with("delta", std::ref(kept));
    BOOST_TEST(kept.is<value::opaque_t>());
    BOOST_TEST(step == 7);
    BOOST_TEST(w[5] == 5.0f);
    BOOST_TEST(report.unverified.back() ==
               "'extra.delta': class datetime.timedelta; kept as it is stored");
    is_unsupported("", "class datetime.timedelta", [&] { (void)kept.as<int>(); });
}

BOOST_AUTO_TEST_CASE(unknown_values_are_no_findings) {
    auto const said = verified(values);
    for (auto const& [key, what] : opaque)
        BOOST_TEST(said.find(std::string("'extra.") + key + "': " + what) != std::string::npos,
                   key);
    for (auto const level : {cairn::verify_level::sampled, cairn::verify_level::full}) {
        cairn::latest_options o;
        o.verify = level;
        o.quarantine = true;
        cairn::memory_store store;
        auto place = store.at("c");
        cairn::file_store golden(values);
        for (auto const& info : golden.list())
            place.publish(info.name, cairn::read_whole(golden, info.name), std::nullopt);
        BOOST_TEST(cairn::latest(store, o).value() == "c");
    }
}

BOOST_AUTO_TEST_CASE(dtypes_that_are_known_to_the_byte_are_copied_and_resharded) {
    auto const tree = cairn::load_tree(dtypes, {}, cairn::file_store());
    auto const t = tree.at("float4").as_tensor();
    BOOST_TEST((t.type == cairn::dtype::float4_e2m1fn_x2));
    BOOST_TEST((t.global_shape == cairn::index_vector{6, 8}));
    std::vector<std::byte> part(12);
    cairn::state_dict sd{
        {"float4",
         cairn::sharded_view{{6, 8},
                             cairn::dtype::float4_e2m1fn_x2,
                             {cairn::shard(cairn::box({1, 2}, {3, 4}),
                                           cairn::tensor_view(cairn::dtype::float4_e2m1fn_x2,
                                                              {3, 4}, part.data()))}}}};
    (void)cairn::load(sd, dtypes, cairn::file_store());
    for (int i = 0; i < 12; ++i)
        BOOST_TEST(std::to_integer<int>(part[static_cast<std::size_t>(i)]) ==
                   (1 + i / 4) * 8 + 2 + i % 4);
}

BOOST_AUTO_TEST_CASE(dtypes_that_are_not_known_keep_nobody_from_the_rest) {
    cairn::load_report left_out;
    cairn::load_tree_options told;
    told.report = &left_out;
    auto const tree = cairn::load_tree(dtypes, told, cairn::file_store());
    BOOST_TEST(tree.size() == 3u);
    BOOST_TEST(left_out.unverified.back().find("'quantised': dtype torch.qint8") == 0u);
    std::vector<float> w(6);
    std::vector<std::int8_t> q(8);
    cairn::state_dict sd{{"w", cairn::tensor_view(cairn::dtype::f32, {2, 3}, w.data())}};
    auto const report = cairn::load(sd, dtypes, cairn::file_store());
    BOOST_TEST(w[5] == 5.0f);
    BOOST_TEST(report.unverified.back().find("'quantised': dtype torch.qint8") == 0u);
    for (bool const partial : {true, false}) {
        cairn::state_dict naming{{"quantised", q}};
        cairn::load_options o;
        o.planner.partial = partial;
        is_unsupported("quantised", "torch.qint8",
                       [&] { (void)cairn::load(naming, dtypes, o, cairn::file_store()); });
    }
    cairn::load_options strict;
    strict.planner.strict = true;
    std::vector<std::byte> float4(48);
    int step = 0;
    cairn::state_dict most{
        {"w", cairn::tensor_view(cairn::dtype::f32, {2, 3}, w.data())},
        {"float4", cairn::tensor_view(cairn::dtype::float4_e2m1fn_x2, {6, 8}, float4.data())},
        {"step", std::ref(step)}};
    BOOST_CHECK_EXCEPTION((void)cairn::load(most, dtypes, strict, cairn::file_store()),
                          cairn::error, [](const cairn::error& e) {
                              return e.code() == make_error_code(cairn::errc::unexpected_key) &&
                                     e.context().fqn == "quantised";
                          });
    (void)cairn::load(most, dtypes, cairn::file_store());
    BOOST_TEST(step == 7);
    cairn::load_tree_options only;
    only.prefix = "quantised";
    is_unsupported("quantised", "torch.qint8",
                   [&] { (void)cairn::load_tree(dtypes, only, cairn::file_store()); });
    BOOST_TEST(verified(dtypes).find("'quantised': dtype torch.qint8") != std::string::npos);
}

/// Paths and places of what is not there, and tensor properties of six members or as a dict.
BOOST_AUTO_TEST_CASE(unknown_metadata_that_no_load_depends_on_is_ignored) {
    auto const forms = std::string(CAIRN_GOLDEN) + "/other_forms";
    auto const tree = cairn::load_tree(forms, {}, cairn::file_store());
    BOOST_TEST(tree.size() == 2u);
    BOOST_TEST(tree.at("step").as_value().as<int>() == 7);
    auto const w = tree.at("model").as_dict().at("w").as_tensor();
    BOOST_TEST((w.type == cairn::dtype::float32 && w.global_shape == cairn::index_vector{2, 3}));
    (void)verified(forms);
    auto const m = cairn::torch_reader(cairn::file_store(forms)).read_metadata();
    BOOST_TEST((m.unknown_members == std::set<std::string, std::less<>>{
                                         "Metadata.extra", "TensorProperties.5",
                                         "TensorProperties.sixth", "_StorageInfo.digest"}));
    // Nobody removes it.
    BOOST_TEST(cairn::detail::files_of(m).count("__9_0.distcp") == 1u);
}

/// The checkpoint is compared with what the ranks were told of it, which is less than was read.
BOOST_AUTO_TEST_CASE(unknown_forms_of_metadata_do_not_make_damage_a_replacement) {
    cairn::file_store golden(std::string(CAIRN_GOLDEN) + "/other_forms");
    cairn::memory_store memory;
    auto place = memory.at("c");
    for (auto const& info : golden.list()) {
        auto bytes = cairn::read_whole(golden, info.name);
        float const last[] = {3, 4, 5};
        auto const wanted = std::as_bytes(std::span(last));
        auto const found = std::search(bytes.begin(), bytes.end(), wanted.begin(), wanted.end());
        if (found != bytes.end()) *found ^= std::byte{1};
        BOOST_TEST((found != bytes.end()) == (info.name == "__0_0.distcp"));
        place.publish(info.name, bytes, std::nullopt);
    }
    support::counting_store<cairn::memory_store> store(memory);
    std::atomic<int> opened{0};
    store.on_open([&](std::string_view name) { opened += name.ends_with(".distcp"); });
    std::vector<float> w(6);
    cairn::state_dict sd{{"model", cairn::state_dict{{"w", cairn::tensor_view(cairn::dtype::f32,
                                                                              {2, 3}, w.data())}}}};
    BOOST_CHECK_EXCEPTION((void)cairn::load(sd, "c", store), cairn::error,
                          [](const cairn::error& e) {
                              BOOST_TEST_INFO(e.what());
                              return e.code() == make_error_code(cairn::errc::checksum_mismatch);
                          });
    // In one attempt of eight, and when the metadata is read, before and after it.
    BOOST_TEST(opened <= 4);
}

/// As a process alone saves its shards with PyTorch's `no_dist`.
BOOST_AUTO_TEST_CASE(shards_that_were_not_saved_keep_nobody_from_those_that_were) {
    auto const part = std::string(CAIRN_GOLDEN) + "/one_rank";
    auto const wanted = [](std::int64_t from, std::int64_t rows, std::vector<float>& memory) {
        return cairn::sharded_view{
            {4, 3},
            cairn::dtype::f32,
            {cairn::shard(cairn::box({from, 0}, {rows, 3}),
                          cairn::tensor_view(cairn::dtype::f32, {rows, 3}, memory.data()))}};
    };
    std::vector<float> w(12), plain(2);
    cairn::state_dict sd{{"w", wanted(1, 1, w)}, {"plain", plain}};
    auto const report = cairn::load(sd, part, cairn::file_store());
    BOOST_TEST(w[0] == 3.0f);
    BOOST_TEST(w[2] == 5.0f);
    BOOST_TEST(report.unverified.back() == "'w': 6 of 12 elements are stored");
    BOOST_TEST(verified(part).find("'w': 6 of 12") != std::string::npos);
    cairn::state_dict more{{"w", wanted(1, 2, w)}, {"plain", plain}};
    BOOST_CHECK_EXCEPTION((void)cairn::load(more, part, cairn::file_store()), cairn::error,
                          [](const cairn::error& e) {
                              return e.code() == make_error_code(cairn::errc::missing_key) &&
                                     e.context().fqn == "w" &&
                                     std::string(e.what()).find("3 of 6 elements") !=
                                         std::string::npos;
                          });
    BOOST_CHECK_THROW((void)cairn::load_tree(part, {}, cairn::file_store()), cairn::error);
}

/// Megatron-Core stores the state of random number generators as lists with tensors in them, and
/// plans as a member of its metadata.
BOOST_AUTO_TEST_CASE(unknown_values_of_megatron_keep_nobody_from_its_tensors) {
    auto const megatron = std::string(CAIRN_GOLDEN) + "/megatron";
    auto const tree = cairn::load_tree(megatron, {}, cairn::file_store());
    BOOST_TEST(tree.size() == 4u);
    for (auto const& [fqn, crc] : {std::pair("embedding.weight", 0xaf8892bbu),
                                   std::pair("decoder.layers.fc.weight", 0x88570406u)}) {
        auto const t = tree.at(fqn).as_tensor();
        cairn::const_tensor_view const v = t.shards.at(0).view;
        BOOST_TEST(cairn::format::crc32({v.data, static_cast<std::size_t>(v.bytes())}) == crc);
    }
    for (auto const* fqn : {"rng_state/shard_0_2", "rng_state/shard_1_2"})
        BOOST_TEST(tree.at(fqn).as_value().is<value::opaque_t>());
    BOOST_TEST(verified(megatron).find("'rng_state/shard_0_2'") != std::string::npos);
}

/// As of Megatron-Core 0.15, whose class has a member more.
BOOST_AUTO_TEST_CASE(unknown_subclasses_of_metadata_are_opened) {
    auto const megatron = std::string(CAIRN_GOLDEN) + "/megatron_subclass";
    auto const tree = cairn::load_tree(megatron, {}, cairn::file_store());
    BOOST_TEST(tree.at("step").as_value().as<int>() == 7);
    BOOST_TEST((tree.at("decoder").as_dict().at("w").as_tensor().global_shape ==
                cairn::index_vector{2, 3}));
    (void)verified(megatron);
    auto const m = cairn::torch_reader(cairn::file_store(megatron)).read_metadata();
    BOOST_TEST(m.unknown_members.count("Metadata.mcore_data") == 1u);
}

/// One that does not parse, or is no metadata at all, is damaged.
BOOST_AUTO_TEST_CASE(unknown_classes_in_metadata_are_no_damage) {
    auto const code_of = [](std::string_view pickle) {
        try {
            (void)cairn::format::torch::parse_metadata_pickle(
                std::as_bytes(std::span(pickle.data(), pickle.size())));
        } catch (const cairn::error& e) {
            return e.code();
        }
        return cairn::error_code();
    };
    std::string const dcp =
        "\x80\x02"
        "ctorch.distributed.checkpoint.metadata\nMetadata\n)\x81}";
    for (std::string const unknown : {"\x80\x02"
                                      "cmine\nMetadata\n)\x81.",
                                      "\x80\x02"
                                      "cmine\nMetadata\n)\x81Na.",
                                      "\x80\x02"
                                      "cmine\nMetadata\n.",
                                      // protocols 0 and 1
                                      "ccopy_reg\n_reconstructor\np0\n.", "(dp0\n.", "}q\x01."})
        BOOST_TEST((code_of(unknown) == cairn::errc::unsupported));
    BOOST_TEST((code_of(dcp + std::string("X\x0c\0\0\0storage_datacmine\nDict\n)\x81sb.", 33)) ==
                cairn::errc::unsupported));
    for (std::string const damaged : {"\x80\x02N.",
                                      "\x80\x02"
                                      "cmine\nMetadata\n)\x81",
                                      "cut short", "?."})
        BOOST_TEST((code_of(damaged) == cairn::errc::corrupt));
}

BOOST_AUTO_TEST_SUITE_END()
