// SPDX-License-Identifier: Apache-2.0
// Files of torch.save that are damaged, hostile or beyond what cairn reads.
#include "torch_save_file.hpp"

#include <cairn/format/zip/directory_size.hpp>
#include <cairn/format/zip/reader.hpp>
#include <cairn/format/zip/writer.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(hostile_torch_save)

namespace {

using namespace torch_save_file;

/// Checks that a file is refused, with this code and these words in its message.
void refused(const std::string& file, cairn::errc why, const std::string& words) {
    BOOST_CHECK_EXCEPTION(opened{file}, cairn::error, [&](const cairn::error& e) {
        bool const as_told = e.code() == make_error_code(why) &&
                             std::string(e.what()).find(words) != std::string::npos;
        if (!as_told) BOOST_TEST_MESSAGE(e.what());
        return as_told;
    });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_sample_that_ends_anywhere_is_refused) {
    for (auto const* name : {"pt/zip_kinds/state.pt", "pt/legacy_kinds/state.pt"}) {
        auto const all = slurp(samples / name);
        for (std::size_t n = 0; n < all.size(); n += 1 + n / 64)
            BOOST_CHECK_THROW(opened{all.substr(0, n)}, cairn::error);
    }
}

BOOST_AUTO_TEST_CASE(a_changed_byte_of_the_pickle_is_found) {
    auto const all = slurp(samples / "pt/zip_kinds/state.pt");
    auto const at = opened(all).all.parts().pickle_offset;
    for (std::size_t i = 0; i < 2764; i += 97) {
        auto changed = all;
        changed[at + i] ^= 0x10;
        BOOST_CHECK_EXCEPTION(opened{changed}, cairn::error, [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::checksum_mismatch);
        });
    }
}

BOOST_AUTO_TEST_CASE(a_changed_byte_anywhere_is_an_error_or_other_content) {
    for (auto const* name : {"pt/zip_kinds/state.pt", "pt/legacy_kinds/state.pt"}) {
        auto const all = slurp(samples / name);
        for (std::size_t i = 0; i < all.size(); i += 7) {
            auto changed = all;
            changed[i] = static_cast<char>(~changed[i]);
            try {
                opened const o(changed);
                for (auto const& [key, entry] : o.all.entries())
                    if (auto const* v = std::get_if<ts::stored_value>(&entry.what))
                        (void)o.all.read_value(*v, reads(o.file));
            } catch (const cairn::error&) {
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_call_of_os_system_is_kept_as_it_is_and_not_made) {
    opened const o(slurp(samples / "hostile/pt_runs_a_command/state.pt"));
    auto const v = o.at("a");
    BOOST_REQUIRE(v.is<cairn::value::opaque_t>());
    BOOST_TEST(v.get_if<cairn::value::opaque_t>()->what() == "class posix.system");
    BOOST_TEST(!std::filesystem::exists("cairn_was_here"));
}

BOOST_AUTO_TEST_CASE(tensors_of_other_kinds_are_refused_by_name_and_harm_nobody) {
    struct kind {
        const char *function, *words;
    };
    for (auto const& k : {kind{"_rebuild_sparse_tensor", "a sparse tensor"},
                          {"_rebuild_qtensor", "a quantised tensor"},
                          {"_rebuild_nested_tensor", "a nested tensor"},
                          {"_rebuild_meta_tensor_no_storage", "meta"},
                          {"_rebuild_of_the_future", "torch._utils._rebuild_of_the_future"}}) {
        pickled p;
        p.begin_dict();
        p.key("odd");
        p.w.global("torch._utils", k.function);
        p.w.integer(1);
        p.w.op(0x85);
        p.w.op('R');
        p.key("good");
        p.tensor("0", 4, 0, {2, 2}, {2, 1});
        p.key("step");
        p.w.integer(3);
        p.end_dict();
        opened const o(p.zip({{"0", std::string(16, 'x')}}));
        BOOST_TEST(std::get<ts::refused>(o.all.entries().at("odd").what).why.find(k.words) !=
                   std::string::npos);
        BOOST_TEST(o.tensor("good").at.length == 16u);
        BOOST_TEST((o.at("step") == cairn::value(3)));
        auto const m = ts::describe(o.all, "state.pt", o.file.size());
        BOOST_TEST(m.unsupported.count("odd") == 1u);
        BOOST_TEST(m.entries.size() == 2u);
    }
}

BOOST_AUTO_TEST_CASE(a_tensor_of_an_unknown_class_or_dtype_is_refused_by_name) {
    pickled p;
    p.begin_dict();
    p.key("odd");
    p.w.global("torch._tensor", "_rebuild_from_type_v2");
    p.w.mark();
    p.w.global("torch._utils", "_rebuild_tensor_v2");
    p.w.global("mine", "Tensor");
    p.w.op(')');
    p.w.none();
    p.w.op('t');
    p.w.op('R');
    p.key("type");
    p.tensor("0", 4, 0, {4}, {1}, "QInt32Storage");
    p.end_dict();
    opened const o(p.zip({{"0", std::string(16, 'x')}}));
    BOOST_TEST(std::get<ts::refused>(o.all.entries().at("odd").what).why ==
               "a tensor of class mine.Tensor");
    BOOST_TEST(std::get<ts::refused>(o.all.entries().at("type").what).why ==
               "storage torch.QInt32Storage");
}

BOOST_AUTO_TEST_CASE(files_of_other_kinds_are_refused_by_name) {
    using cairn::errc;
    refused("", errc::corrupt, "an empty file");
    refused(std::string(257, 'a') + "ustar" + std::string(300, '\0'), errc::unsupported,
            "a tar archive");
    refused("GGUF" + std::string(60, '\0'), errc::unsupported, "a GGUF file");
    refused("version https://git-lfs.github.com/spec/v1\n", errc::unsupported,
            "a pointer of Git LFS");
    refused(std::string(60, 'x'), errc::unsupported, "something else");
    pickled p;
    p.begin_dict();
    p.end_dict();
    refused(p.text(), errc::unsupported, "a pickle without an archive");
    pickled script;
    script.begin_dict();
    script.end_dict();
    refused(script.zip({}, {{"constants.pkl", "x"}}), errc::unsupported, "TorchScript");
    pickled module;
    module.w.global("mine", "Net");
    module.w.op(')');
    module.w.op(0x81);
    refused(module.zip({}), errc::unsupported, "class mine.Net");
}

BOOST_AUTO_TEST_CASE(a_compressed_record_is_refused) {
    pickled p;
    p.begin_dict();
    p.key("t");
    p.tensor("0", 4, 0, {4}, {1});
    p.end_dict();
    auto file = p.zip({{"0", std::string(16, 'x')}});
    auto const entry = file.find("PK\1\2");
    file[entry + 10] = 8;  // the method of its first record
    refused(file, cairn::errc::unsupported, "a compressed record");
}

BOOST_AUTO_TEST_CASE(a_zip_whose_storages_are_not_those_of_the_pickle_is_refused) {
    auto const with = [](std::uint64_t count, std::vector<record> records) {
        pickled p;
        p.begin_dict();
        p.key("t");
        p.tensor("0", count, 0, {1}, {1});
        p.end_dict();
        return p.zip(records);
    };
    using cairn::errc;
    refused(with(4, {}), errc::corrupt, "a record 'data/0'");
    refused(with(4, {{"1", std::string(16, 'x')}}), errc::corrupt, "a record 'data/0'");
    refused(with(4, {{"0", std::string(15, 'x')}}), errc::corrupt, "15 bytes");
    refused(with(std::uint64_t{1} << 60, {{"0", std::string(16, 'x')}}), errc::corrupt, "bytes");
    refused(with((std::uint64_t{1} << 60) + 1, {{"0", std::string(16, 'x')}}), errc::corrupt,
            "too large");
}

BOOST_AUTO_TEST_CASE(a_tensor_that_leaves_its_storage_is_refused) {
    auto const with = [](std::int64_t offset, std::vector<std::int64_t> shape,
                         std::vector<std::int64_t> strides) {
        pickled p;
        p.begin_dict();
        p.key("t");
        p.tensor("0", 4, offset, shape, strides);
        p.end_dict();
        return p.zip({{"0", std::string(16, 'x')}});
    };
    using cairn::errc;
    BOOST_CHECK_NO_THROW(opened{with(0, {2, 2}, {2, 1})});
    BOOST_CHECK_NO_THROW(opened{with(3, {100, 100}, {0, 0})});
    refused(with(5, {1}, {1}), errc::corrupt, "beyond the storage");
    refused(with(1, {2, 2}, {2, 1}), errc::corrupt, "beyond the storage");
    refused(with(0, {2, 2}, {3, 1}), errc::corrupt, "beyond the storage");
    refused(with(0, {2, 2}, {INT64_MAX, 1}), errc::corrupt, "beyond the storage");
    refused(with(INT64_MAX, {1}, {1}), errc::corrupt, "beyond the storage");
    refused(with(-1, {1}, {1}), errc::corrupt, "a negative");
    refused(with(0, {2}, {-1}), errc::corrupt, "a negative");
    refused(with(0, {2}, {1, 1}), errc::corrupt, "strides of another rank");
    refused(with(0, {INT64_MAX, INT64_MAX, 4}, {0, 0, 1}), errc::corrupt, "elements");
}

BOOST_AUTO_TEST_CASE(a_legacy_file_whose_keys_and_storages_disagree_is_refused) {
    auto const with = [](std::vector<std::string> keys, std::vector<record> storages,
                         std::uint64_t count = 4) {
        pickled p;
        p.begin_dict();
        p.key("t");
        p.tensor("7", count, 0, {1}, {1}, "FloatStorage", true);
        p.end_dict();
        return p.legacy(keys, storages);
    };
    using cairn::errc;
    std::string const four(16, 'x');
    BOOST_CHECK_NO_THROW((opened{with({"7"}, {{"7", four}})}));
    refused(with({}, {}), errc::corrupt, "no key '7'");
    refused(with({"8"}, {{"8", four}}), errc::corrupt, "a key '8' of no storage");
    refused(with({"7", "7"}, {{"7", four}, {"7", four}}), errc::corrupt, "twice");
    refused(with({"7"}, {}), errc::corrupt, "the end of the file");
    refused(with({"7"}, {{"7", std::string(12, 'x')}}), errc::corrupt, "3 elements");
    refused(with({"7"}, {{"7", four}}, std::uint64_t{1} << 59), errc::corrupt, "4 elements");
    auto const whole = with({"7"}, {{"7", four}});
    refused(whole.substr(0, whole.size() - 1), errc::corrupt, "the end of the file");
}

BOOST_AUTO_TEST_CASE(dicts_that_are_shared_do_not_unfold_without_end) {
    // 40 levels, each with the level below twice: 2^40 names.
    pickled p;
    p.w.op('}');
    for (int level = 0; level < 40; ++level) {
        auto const below = p.w.put();
        p.begin_dict();
        for (auto const* key : {"a", "b"}) {
            p.key(key);
            p.w.get(below);
        }
        p.end_dict();
    }
    refused(p.zip({}), cairn::errc::unsupported, "");
    // And within itself.
    pickled q;
    q.w.op('}');
    auto const self = q.w.put();
    q.key("a");
    q.w.get(self);
    q.w.op('s');
    refused(q.zip({}), cairn::errc::unsupported, "");
}

BOOST_AUTO_TEST_CASE(values_that_are_shared_do_not_unfold_without_end) {
    // A long tuple of opaque and of plain content, under many names.
    for (bool const opaque : {false, true}) {
        pickled p;
        p.w.mark();
        for (int i = 0; i < 20000; ++i) p.w.integer(i % 7);
        if (opaque) {
            p.w.global("mine", "Thing");
        }
        p.w.op('t');
        auto const big = p.w.put();
        p.w.op('0');
        p.begin_dict();
        for (int i = 0; i < 10000; ++i) {
            p.key(std::to_string(i));
            p.w.get(big);
        }
        p.end_dict();
        opened const o(p.zip({}));
        std::size_t known = 0, beyond = 0;
        for (auto const& [name, entry] : o.all.entries()) {
            auto const* v = std::get_if<ts::stored_value>(&entry.what);
            if (v == nullptr)
                ++beyond;
            else if (known++ < 3)
                BOOST_TEST(o.at(name).is<cairn::value::opaque_t>() == !v->opaque.empty());
        }
        BOOST_TEST(known != 0u);
        BOOST_TEST(beyond != 0u);
        BOOST_TEST(known + beyond == 10000u);
    }
}

BOOST_AUTO_TEST_CASE(a_value_with_a_str_that_python_3_does_not_read_is_refused_by_name) {
    for (std::string const text : {"a\xff", "\xc3\xa4"}) {
        pickled p;
        p.begin_dict();
        p.key("odd");
        p.w.global("mine", "Thing");
        p.w.string(text);
        p.w.op(0x85);
        p.w.op('R');
        p.end_dict();
        opened const o(p.zip({}));
        auto const& what = o.all.entries().at("odd").what;
        if (text != "a\xff")
            BOOST_TEST(o.at("odd").is<cairn::value::opaque_t>());
        else
            BOOST_TEST(std::get<ts::refused>(what).why ==
                       "mine.Thing (a str of Python 2 that is not UTF-8)");
    }
}

BOOST_AUTO_TEST_CASE(a_list_that_many_names_share_is_not_scanned_for_each) {
    pickled p;
    p.w.op(']');
    auto const list = p.w.put();
    p.w.mark();
    for (int i = 0; i < 100000; ++i) p.w.none();
    p.w.op('e');
    p.w.op('0');
    p.begin_dict();
    for (int i = 0; i < 2000; ++i) {
        p.w.integer(i);
        p.w.get(list);
    }
    p.end_dict();
    refused(p.zip({}), cairn::errc::unsupported, "names");
}

BOOST_AUTO_TEST_CASE(values_that_share_more_storages_than_the_file_has_keep_nobody_from_the_rest) {
    auto const with = [](int values) {
        pickled p;
        p.begin_dict();
        for (int i = 0; i < values; ++i) {
            p.key(std::to_string(i));
            p.tensor("0", 25000, 0, {1}, {1});
            p.w.op(0x85);
        }
        p.key("weight");
        p.tensor("0", 25000, 0, {1}, {1});
        p.end_dict();
        return p.zip({{"0", std::string(100000, 'x')}});
    };
    for (int const values : {1, 40}) {
        opened const o(with(values));
        BOOST_TEST(o.at("0").is<cairn::value::opaque_t>());
        BOOST_TEST(o.tensor("weight").at.length == 100000u);
        for (int i = 1; i < values; ++i) {
            auto const& what = o.all.entries().at(std::to_string(i)).what;
            BOOST_TEST(std::get<ts::refused>(what).why.find("storages that many values share") !=
                       std::string::npos);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_name_of_a_class_writes_no_opcodes_into_a_copy) {
    auto const hostile = [](pickled& p) {
        for (std::string const s : {"mine", "A\n0cos\n"}) {
            p.w.op(0x8c);  // protocol 4: two strings of the stack
            p.w.op(static_cast<std::uint8_t>(s.size()));
            for (char c : s) p.w.op(static_cast<std::uint8_t>(c));
        }
        p.w.op(0x93);
    };
    pickled p;
    p.begin_dict();
    p.key("t");
    hostile(p);
    p.end_dict();
    refused(p.zip({}), cairn::errc::corrupt, "a line break in the name of a class");

    pickled storage;
    storage.begin_dict();
    storage.key("t");
    storage.w.mark();
    storage.key("storage");
    hostile(storage);
    storage.key("0");
    storage.key("cpu");
    storage.w.integer(4);
    storage.w.op('t');
    storage.w.op('Q');
    storage.w.op(0x85);
    storage.end_dict();
    opened const o(storage.zip({{"0", "abcd"}}));
    BOOST_TEST(std::get<ts::refused>(o.all.entries().at("t").what).why ==
               "a tensor inside a value (something else)");
}

BOOST_AUTO_TEST_CASE(a_directory_is_read_up_to_the_length_that_is_written) {
    namespace zip = cairn::format::zip;
    auto const written = [](std::size_t records, std::size_t name) {
        cairn::detail::wire_writer w;
        std::vector<zip::record> all(records, {"f/" + std::string(name, 'x')});
        for (std::size_t i = 0; i < all.size(); ++i) {
            auto const number = std::to_string(1'000'000 + i);
            all[i].name.replace(2, number.size(), number);
            all[i].header = w.size();
            zip::local_header(w, all[i], 1);
        }
        zip::directory(w, all, w.size());
        auto const b = w.take();
        return std::string(reinterpret_cast<const char*>(b.data()), b.size());
    };
    auto file = written(270, 65'000);  // more than 16 MiB
    BOOST_TEST(zip::reader(torch_save_file::reads(file), file.size()).entries().size() == 270u);

    auto const limit = std::to_string(zip::most_directory_bytes);
    auto const refuses = [&](auto&& f) {
        BOOST_CHECK_EXCEPTION(f(), cairn::error, [&](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::unsupported) &&
                   std::string(e.what()).find(limit) != std::string::npos;
        });
    };
    cairn::detail::wire_writer w;
    std::vector<zip::record> const large(4200, {std::string(65'000, 'x')});
    refuses([&] { zip::directory(w, large, 0); });
    BOOST_TEST(w.size() == 0u);
    // Its bytes are not there, but the size of the file says so.
    auto const claimed = zip::most_directory_bytes + 1;
    cairn::detail::wire_writer end;
    zip::directory(end, {}, claimed);
    end.set_u64(40, claimed);
    end.set_u64(48, 0);
    end.set_u64(64, claimed);
    auto const tail = end.take();
    auto const source = [&](std::uint64_t at, std::span<std::byte> into) {
        BOOST_TEST_REQUIRE(at >= claimed);
        std::memcpy(into.data(), tail.data() + (at - claimed), into.size());
    };
    cairn::format::read_at const read(source);
    refuses([&] { (void)zip::reader(read, claimed + tail.size()).entries(); });
}

BOOST_AUTO_TEST_CASE(names_that_two_leaves_share_are_refused) {
    pickled p;
    p.begin_dict();
    p.key("a.b");
    p.w.integer(1);
    p.key("a");
    p.begin_dict();
    p.key("b");
    p.w.integer(2);
    p.end_dict();
    p.end_dict();
    refused(p.zip({}), cairn::errc::unsupported, "two tensors or values of this name");
}

BOOST_AUTO_TEST_SUITE_END()
