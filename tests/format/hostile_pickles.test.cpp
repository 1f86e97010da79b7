// SPDX-License-Identifier: Apache-2.0
// Small pickles that used to cost minutes, gigabytes or the stack.
#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/metadata_pickle.hpp>

#include <cairn/format/pickle/to_value.hpp>
#include <cairn/format/torch/value_item.hpp>

#include "cost.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(hostile_pickles)

namespace {

namespace format = cairn::format;
using bytes = std::vector<std::byte>;
using cairn::errc;
using cost::costs_little;
using cost::is_refused;

constexpr std::size_t many = 100'000;
constexpr std::size_t long_name = std::size_t{1} << 20;

cairn::chunk chunk_at(std::int64_t first, std::int64_t n, const std::string& file) {
    cairn::chunk c;
    c.region = {{first}, {n}};
    c.at = {file, static_cast<std::uint64_t>(first) * 1000, 1000, {}, {}};
    return c;
}
cairn::metadata row_of_chunks(const std::string& key, std::size_t n, const std::string& file) {
    cairn::metadata m;
    cairn::tensor_metadata t;
    t.shape = {static_cast<std::int64_t>(n)};
    for (std::size_t i = 0; i < n; ++i)
        t.chunks.push_back(chunk_at(static_cast<std::int64_t>(i), 1, file));
    m.entries[key] = std::move(t);
    return m;
}

/// A pickle that somebody else wrote; `write` leaves one value on the stack.
bytes pickle_of(const std::function<void(format::pickle::writer&)>& write) {
    format::pickle::writer w;
    write(w);
    return w.finish();
}
void read_value(const bytes& b) {
    auto const t = format::pickle::reader::read(b);
    (void)format::pickle::to_value(t)(t.root);
}
void read_metadata(const bytes& b) {
    (void)format::torch::parse_metadata_pickle(b);
}

constexpr const char* dcp = "torch.distributed.checkpoint.metadata";
constexpr const char* filesystem = "torch.distributed.checkpoint.filesystem";

/// `Metadata` whose storage_data is what `write` leaves on the stack.
bytes metadata_of(const std::function<void(format::pickle::writer&)>& write) {
    return pickle_of([&](auto& w) {
        w.global(dcp, "Metadata");
        w.op(')');
        w.op(0x81);
        w.op('}');
        w.mark();
        w.string("state_dict_metadata");
        w.op('}');
        w.string("storage_data");
        write(w);
        w.op('u');
        w.op('b');
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_shape_nested_deep_is_refused) {
    auto const b = metadata_of([](auto& w) {
        w.op('}');
        w.global(dcp, "MetadataIndex");
        w.string("w");
        w.global("torch", "Size");
        auto const size = w.put();
        for (std::size_t i = 1; i < many; ++i) w.get(size);
        w.op(')');
        for (std::size_t i = 0; i < many; ++i) {
            w.op(0x85);
            w.op('R');
        }
        w.op(0x86);
        w.op('R');
        w.global(filesystem, "_StorageInfo");
        w.string("f");
        w.integer(0);
        w.integer(1);
        w.op(0x87);
        w.op('R');
        w.op('s');
    });
    is_refused(b.size(), [&] { read_metadata(b); });
}

BOOST_AUTO_TEST_CASE(a_long_key_of_many_chunks_is_refused) {
    auto const m = row_of_chunks(std::string(long_name, 'k'), 5000, "f");
    auto const pickle = format::torch::write_metadata_pickle(m);
    is_refused(
        pickle.size(), [&] { read_metadata(pickle); }, errc::unsupported);
    auto const index = format::native::encode_metadata(m);
    is_refused(
        index.size(), [&] { (void)format::native::decode_metadata(index); }, errc::unsupported);
}

BOOST_AUTO_TEST_CASE(a_long_file_name_of_many_chunks_is_refused) {
    constexpr int chunks = 1 << 18;
    auto m = row_of_chunks("w", chunks, "f");
    auto& all = std::get<cairn::tensor_metadata>(m.entries.at("w")).chunks;
    auto const names = std::make_shared<cairn::file_names>();
    auto const long_one = std::string(long_name, 'f');
    all.number_files_in(names);
    auto const number = names->add(long_one);
    for (std::size_t i = 0; i < all.size(); ++i) all.locate(i, all.location(i), number);
    auto const index = format::native::encode_metadata(m);
    BOOST_TEST(index.size() < std::size_t{8} << 20);
    is_refused(
        index.size(), [&] { (void)format::native::decode_metadata(index); }, errc::unsupported);

    auto const pickle = metadata_of([](auto& p) {
        p.string(std::string(long_name, 'f'));
        auto const name = p.put();
        p.op('0');
        p.op('}');
        p.mark();
        for (std::int64_t i = 0; i < chunks / 4; ++i) {
            p.global(dcp, "MetadataIndex");
            p.string("w" + std::to_string(i));
            p.op(0x85);
            p.op('R');
            p.global(filesystem, "_StorageInfo");
            p.get(name);
            p.integer(i);
            p.integer(1);
            p.op(0x87);
            p.op('R');
        }
        p.op('u');
    });
    is_refused(
        pickle.size(), [&] { read_metadata(pickle); }, errc::unsupported);
}

/// What cannot be read again is not written.
BOOST_AUTO_TEST_CASE(a_long_file_name_of_many_chunks_is_not_saved) {
    auto const m = row_of_chunks("w", 20'000, std::string(4000, 'f'));
    BOOST_CHECK_EXCEPTION((void)format::native::make_metadata_file(m), cairn::error,
                          [](const cairn::error& e) {
                              return e.code() == cairn::make_error_code(errc::invalid_state);
                          });
    auto const usual = row_of_chunks(std::string(300, 'k'), 20'000, std::string(90, 'f'));
    auto const file = format::native::make_metadata_file(usual);
    costs_little(file.size(), [&] {
        BOOST_TEST((format::native::parse_metadata_file(file).meta.entries.size() == 1));
    });
}

BOOST_AUTO_TEST_CASE(shared_transforms_are_refused) {
    auto const b = metadata_of([](auto& w) {
        w.op(']');
        w.mark();
        for (std::size_t i = 0; i < many; ++i) w.string("zstd");
        w.op('e');
        auto const list = w.put();
        w.op('0');
        w.op('}');
        w.mark();
        for (std::size_t i = 0; i < many / 10; ++i) {
            w.global(dcp, "MetadataIndex");
            w.string("w" + std::to_string(i));
            w.op(0x85);
            w.op('R');
            w.global(filesystem, "_StorageInfo");
            w.mark();
            w.string("f");
            w.integer(0);
            w.integer(1);
            w.get(list);
            w.op('t');
            w.op('R');
        }
        w.op('u');
    });
    is_refused(
        b.size(), [&] { read_metadata(b); }, errc::unsupported);
}

/// One call of many arguments, looked through for each of many places.
BOOST_AUTO_TEST_CASE(calls_of_many_arguments_are_refused) {
    auto const b = metadata_of([](auto& w) {
        w.global(filesystem, "_StorageInfo");
        w.mark();
        w.string("f");
        w.integer(0);
        w.integer(1);
        for (std::size_t i = 0; i < many; ++i) w.none();
        w.op('t');
        w.op('R');
        auto const info = w.put();
        w.op('0');
        w.op('}');
        w.mark();
        for (std::size_t i = 0; i < many / 4; ++i) {
            w.global(dcp, "MetadataIndex");
            w.string("w" + std::to_string(i));
            w.op(0x85);
            w.op('R');
            w.get(info);
        }
        w.op('u');
    });
    is_refused(
        b.size(), [&] { read_metadata(b); }, errc::unsupported);
}

/// One state of many members, looked through for each of many objects.
BOOST_AUTO_TEST_CASE(states_of_many_members_are_refused) {
    auto const b = pickle_of([](auto& w) {
        w.global(dcp, "Metadata");
        w.op(')');
        w.op(0x81);
        w.op('}');
        w.mark();
        w.string("storage_data");
        w.op('}');
        w.global(dcp, "MetadataIndex");
        w.string("w");
        w.op(')');
        w.op(0x86);
        w.op('R');
        w.global(filesystem, "_StorageInfo");
        w.string("f");
        w.integer(0);
        w.integer(1);
        w.op(0x87);
        w.op('R');
        w.op('s');
        w.string("state_dict_metadata");
        w.op('}');
        w.string("w");
        w.global(dcp, "TensorStorageMetadata");
        w.op(')');
        w.op(0x81);
        w.op('}');
        w.mark();
        w.string("size");
        w.op(')');
        w.string("properties");
        w.global(dcp, "TensorProperties");
        w.op(')');
        w.op(0x81);
        w.mark();
        w.global("torch", "float32");
        for (int i = 0; i < 4; ++i) w.none();
        w.op('t');
        w.op('b');
        w.string("chunks");
        w.op(']');
        w.mark();
        w.global(dcp, "ChunkStorageMetadata");
        w.op(')');
        w.op(0x81);
        w.op('}');
        w.mark();
        for (std::size_t i = 0; i < many; ++i) {
            w.string("m" + std::to_string(i));
            w.none();
        }
        for (auto const* name : {"offsets", "sizes"}) {
            w.string(name);
            w.op(')');
        }
        w.op('u');
        w.op('b');
        auto const chunk = w.put();
        for (std::size_t i = 0; i < 1000; ++i) w.get(chunk);
        w.op('e');
        w.op('u');
        w.op('b');
        w.op('s');
        w.op('u');
        w.op('b');
    });
    is_refused(
        b.size(), [&] { read_metadata(b); }, errc::unsupported);
}

BOOST_AUTO_TEST_CASE(a_long_class_name_is_refused) {
    auto const b = pickle_of([](auto& w) {
        w.global(std::string(long_name, 'm'), "c");
        w.op(')');
        w.op('R');
    });
    is_refused(
        b.size(), [&] { read_value(b); }, errc::unsupported);
    is_refused(
        b.size(), [&] { read_metadata(b); }, errc::unsupported);
}

namespace {

/// `Metadata` of the value `key` whose planner_data is what `write` leaves on the stack.
bytes with_paths(const std::string& key,
                 const std::function<void(format::pickle::writer&)>& write) {
    return pickle_of([&](auto& w) {
        w.global(dcp, "Metadata");
        w.op(')');
        w.op(0x81);
        w.op('}');
        w.mark();
        w.string("state_dict_metadata");
        w.op('}');
        w.string(key);
        w.global(dcp, "BytesStorageMetadata");
        w.op(')');
        w.op(0x81);
        w.op('s');
        w.string("storage_data");
        w.op('}');
        w.global(dcp, "MetadataIndex");
        w.string(key);
        w.op(0x85);
        w.op('R');
        w.global(filesystem, "_StorageInfo");
        w.string("f");
        w.integer(0);
        w.integer(1);
        w.op(0x87);
        w.op('R');
        w.op('s');
        w.string("planner_data");
        write(w);
        w.op('u');
        w.op('b');
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_path_of_long_steps_is_not_made) {
    auto const b = with_paths("w", [](auto& w) {
        w.op('}');
        w.string("w");
        w.mark();
        w.string(std::string(long_name, 'p'));
        auto const step = w.put();
        for (int i = 1; i < 255; ++i) w.get(step);
        w.op('t');
        w.op('s');
    });
    costs_little(b.size(), [&] { read_metadata(b); });
}

/// PyTorch loads all of these: another planner has put them there.
BOOST_AUTO_TEST_CASE(planner_data_of_another_form_is_left_out) {
    struct form {
        std::function<void(format::pickle::writer&)> write;
        std::size_t paths;
    };
    auto const path_of = [](char collect, const std::vector<std::string>& steps) {
        return [=](auto& w) {
            w.op('}');
            w.string("a.b");
            if (collect == 'e') w.op(']');
            w.mark();
            for (auto const& s : steps) w.string(s);
            w.op(static_cast<std::uint8_t>(collect));
            w.op('s');
        };
    };
    std::vector<form> const forms{{[](auto& w) { w.string("mine"); }, 0},
                                  {[](auto& w) { w.op(']'); }, 0},
                                  {path_of('t', {"a", "b"}), 1},
                                  {path_of('e', {"a", "b"}), 1},
                                  {path_of('t', {"a", "c"}), 0},
                                  {path_of('t', {"a"}), 0},
                                  {path_of('t', {}), 0},
                                  {[](auto& w) {
                                       w.op('}');
                                       w.string("a.b");
                                       w.integer(-1);
                                       w.op('s');
                                   },
                                   0},
                                  {[](auto& w) {
                                       w.op('}');
                                       w.op(')');
                                       w.op(')');
                                       w.op('s');
                                   },
                                   0}};
    for (std::size_t i = 0; i < forms.size(); ++i) {
        BOOST_TEST_CONTEXT("form " << i) {
            auto const m = format::torch::parse_metadata_pickle(with_paths("a.b", forms[i].write));
            BOOST_TEST(m.entries.count("a.b") == 1u);
            BOOST_TEST(m.paths.size() == forms[i].paths);
            BOOST_TEST(m.unknown_members.count("Metadata.planner_data") == 1 - forms[i].paths);
        }
    }
}

/// Each level of nesting makes room for all items before it looks at the first.
BOOST_AUTO_TEST_CASE(a_list_that_holds_itself_is_refused) {
    auto const b = pickle_of([](auto& w) {
        w.op(']');
        auto const self = w.put();
        w.mark();
        w.get(self);
        for (std::size_t i = 0; i < many; ++i) w.none();
        w.op('e');
    });
    is_refused(
        b.size(), [&] { read_value(b); }, errc::unsupported);
}

/// Python has no such keys; printing one within another would double its quotes each time.
BOOST_AUTO_TEST_CASE(lists_and_dicts_are_no_keys) {
    using cairn::value;
    for (auto const& key : {value::list({1}), value::dict({{1, 2}}),
                            value::tuple({1, value::tuple({value::list({})})})}) {
        auto const v = value::dict({{key, 1}});
        BOOST_CHECK_EXCEPTION((void)format::torch::value_pickler::pickle(v), cairn::error,
                              [](const cairn::error& e) {
                                  return e.code() == cairn::make_error_code(errc::invalid_state);
                              });
    }
    auto const b = pickle_of([](auto& w) {
        w.op('}');
        w.op(']');
        w.none();
        w.op('s');
    });
    is_refused(b.size(), [&] { read_value(b); });
    auto const pair = value::dict({{value::tuple({1, "a"}), 1}, {nullptr, 2}, {1.5, 3}});
    BOOST_TEST((format::torch::decode_value(format::torch::encode_value(pair)) == pair));
}

BOOST_AUTO_TEST_CASE(a_memo_key_beyond_the_data_takes_no_memory) {
    auto const b = pickle_of([](auto& w) {
        w.none();
        for (auto const byte : {'r', '\xff', '\xff', '\xff', '\x0f'})  // LONG_BINPUT
            w.op(static_cast<std::uint8_t>(byte));
    });
    is_refused(b.size(), [&] { read_value(b); });
}

/// One byte each makes a value, or a node of the tree at least.
BOOST_AUTO_TEST_CASE(the_shortest_opcodes_cost_little) {
    for (auto const op : {'N', ')', ']', '}'}) {
        BOOST_TEST_CONTEXT(op) {
            auto const b = pickle_of([&](auto& w) {
                w.op(']');
                w.mark();
                for (std::size_t i = 0; i < 10 * many; ++i) w.op(static_cast<std::uint8_t>(op));
                w.op('e');
            });
            support::allocations const count(72 * b.size());
            BOOST_CHECK_NO_THROW(read_value(b));
            BOOST_TEST(count.peak() < 72 * b.size());
        }
    }
    // Each holds the one before.
    auto const nested = pickle_of([](auto& w) {
        w.op(')');
        for (std::size_t i = 0; i < 10 * many; ++i) w.op(0x85);
    });
    is_refused(
        nested.size(), [&] { read_value(nested); }, errc::unsupported);
}

BOOST_AUTO_TEST_SUITE_END()
