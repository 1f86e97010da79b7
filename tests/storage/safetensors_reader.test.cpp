// SPDX-License-Identifier: Apache-2.0
// What a directory of safetensors files may have, and what may be wrong with it.
#include "safetensors_samples.hpp"
#include "support/error_codes.hpp"
#include "support/forwarding_store.hpp"
#include "support/replaced_when_opened.hpp"
#include "support/scratch.hpp"

#include <cairn/cairn.hpp>
#include <cairn/catalog/verify.hpp>
#include <cairn/completion.hpp>
#include <cairn/convert.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/chunk_reader.hpp>
#include <cairn/storage/safetensors_reader.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

/// A web server whose replicas have other tags for the same files. Each open meets the next one.
class replicas : public support::forwarding_store<cairn::memory_store> {
public:
    struct reader {
        cairn::memory_store::reader inner;
        bool other;
        std::uint64_t size() const { return inner.size(); }
        void read(std::uint64_t at, std::span<std::byte> into) const { inner.read(at, into); }
        cairn::object_tag tag() const { return {inner.tag().text + (other ? "b" : "a")}; }
    };
    explicit replicas(cairn::memory_store s) : forwarding_store(std::move(s)) {}
    replicas at(const std::string& id) const {
        auto there = *this;
        there.store_ = store_.at(id);
        return there;
    }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    reader open(std::string_view n) {
        auto inner = store_.open(n);
        return {std::move(inner), opened_->fetch_add(1) % 2 != 0};
    }

private:
    std::shared_ptr<std::atomic<int>> opened_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace

BOOST_AUTO_TEST_SUITE(safetensors_directories)

using namespace safetensors_samples;

BOOST_AUTO_TEST_CASE(an_index_decides_and_other_files_are_ignored) {
    cairn::memory_store store;
    auto place = store.at("m");
    put(place, "model-1.safetensors", file_of({{"a", "[2]", 2}, {"b", "[2]", 2}}, 1));
    put(place, "below/2.safetensors", file_of({{"b", "[2]", 2}}, 2));
    put(place, "model.safetensors", file_of({{"a", "[2]", 2}, {"c", "[2]", 2}}, 3));
    put(place, "broken.safetensors", cairn::byte_vector(3));
    put_index(place, R"({"a":"model-1.safetensors","b":"below/2.safetensors"})");
    BOOST_TEST(loaded(store, "m", "a", 2) == "1");
    BOOST_TEST(loaded(store, "m", "b", 2) == "2");
    BOOST_TEST(loaded(store, "m/model.safetensors", "a", 2) == "3");
    auto const notes = [&] {
        std::string all;
        for (auto const& line : cairn::verify(place).unverified) all += line + "\n";
        return all;
    };
    BOOST_TEST(notes().find("'model.safetensors' is not read") != std::string::npos, notes());
    place.remove("model.safetensors");
    BOOST_TEST(notes().find("is not read") == std::string::npos, notes());
    put(place, "model.safetensors", file_of({{"a", "[2]", 2}, {"c", "[2]", 2}}, 3));
    BOOST_TEST(loaded(store, "m", "c", 2).find("'c'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_index_of_another_name_decides_only_where_there_is_no_model_safetensors) {
    cairn::memory_store store;
    auto place = store.at("m");
    put(place, "old-1.safetensors", file_of({{"a", "[2]", 2}}, 1));
    put(place, "old-2.safetensors", file_of({{"a", "[2]", 2}}, 2));
    put_index(place, R"({"a":"old-1.safetensors"})", "old.safetensors.index.json");
    BOOST_TEST(loaded(store, "m", "a", 2) == "1");
    put(place, "model.safetensors", file_of({{"a", "[2]", 2}}, 3));
    BOOST_TEST(loaded(store, "m", "a", 2) == "3");
    put_index(place, R"({"a":"old-2.safetensors"})", "model.fp16.safetensors.index.json");
    BOOST_TEST(loaded(store, "m", "a", 2) == "3");
    put_index(place, R"({"a":"old-2.safetensors"})");
    BOOST_TEST(loaded(store, "m", "a", 2) == "2");
}

BOOST_AUTO_TEST_CASE(an_index_that_its_files_contradict_is_an_error_that_names_both) {
    cairn::memory_store store;
    auto const why = [&](const std::string& id, const std::string& map) {
        auto place = store.at(id);
        put(place, "1.safetensors", file_of({{"a", "[2]", 2}}, 1));
        put_index(place, map);
        return loaded(store, id, "a", 2);
    };
    auto const has = [](const std::string& text, const std::vector<std::string>& parts) {
        for (auto const& p : parts)
            if (text.find(p) == text.npos) {
                BOOST_TEST_MESSAGE(text);
                return false;
            }
        return true;
    };
    BOOST_TEST(has(why("lacks", R"({"a":"1.safetensors","b":"1.safetensors"})"),
                   {"'b'", "1.safetensors", "index.json", "none of this name"}));
    BOOST_TEST(has(why("gone", R"({"a":"1.safetensors","b":"2.safetensors"})"),
                   {"2.safetensors", "no such file", "index.json"}));
    for (auto const* bad : {"../1.safetensors", "/etc/passwd", "", "x/../../y"})
        BOOST_TEST(has(why(std::string("leaves") + std::to_string(std::strlen(bad)),
                           std::string(R"({"a":")") + bad + "\"}"),
                       {"'a'", "or below", bad}));
    BOOST_TEST(has(why("url", R"({"a":"https://host/1.safetensors"})"), {"'a'", "or below"}));
}

BOOST_AUTO_TEST_CASE(files_without_an_index_belong_together_and_share_no_name) {
    cairn::memory_store store;
    auto place = store.at("m");
    put(place, "1.safetensors", file_of({{"a", "[2]", 2}}, 1));
    put(place, "2.safetensors", file_of({{"b", "[2]", 2}}, 2));
    BOOST_TEST(loaded(store, "m", "a", 2) == "1");
    BOOST_TEST(loaded(store, "m", "b", 2) == "2");
    put(place, "3.safetensors", file_of({{"a", "[2]", 2}}, 3));
    auto const why = loaded(store, "m", "b", 2);
    BOOST_TEST(why.find("1.safetensors") != why.npos, why);
    BOOST_TEST(why.find("3.safetensors") != why.npos, why);
}

BOOST_AUTO_TEST_CASE(what_others_leave_in_a_directory_does_not_count) {
    cairn::memory_store store;
    auto place = store.at("m");
    put(place, "model.safetensors", file_of({{"a", "[2]", 2}}, 1));
    put(place, "._model.safetensors.index.json", cairn::byte_vector(3));
    put(place, "._x.safetensors", cairn::byte_vector(3));
    put(place, "unet/y.safetensors", cairn::byte_vector(3));
    BOOST_TEST(loaded(store, "m", "a", 2) == "1");
    put(place, "consolidated.safetensors.index.json", cairn::byte_vector(3));
    put(place, "2.safetensors", file_of({{"a", "[2]", 2}}, 2));
    put_index(place, R"({"a":"2.safetensors"})");
    BOOST_TEST(loaded(store, "m", "a", 2) == "2");
    place.remove("2.safetensors");
    auto const why = loaded(store, "m", "a", 2);
    BOOST_TEST(why.find("leftover of an older export") != why.npos, why);
}

BOOST_AUTO_TEST_CASE(a_tensor_of_an_unknown_dtype_keeps_nobody_from_the_rest) {
    cairn::memory_store store;
    auto place = store.at("m");
    auto const why = [&](const char* name) { return loaded(store, "m", name, 2); };
    put(place, "1.safetensors", file_of({{"a", "[2]", 2}, {"odd", "[3]", 5, "Q13"}}, 1));
    for (bool const indexed : {false, true}) {
        if (indexed) put_index(place, R"({"a":"1.safetensors","odd":"1.safetensors"})");
        BOOST_TEST(why("a") == "1");
        BOOST_TEST(why("odd").find("found Q13") != std::string::npos, why("odd"));
        auto const v = cairn::verify(place);
        BOOST_TEST(!v.damaged);
        auto const line = "'odd': dtype Q13, which this version of cairn does not know";
        BOOST_TEST(std::count(v.unverified.begin(), v.unverified.end(), line) == 1);
    }
    place.remove("model.safetensors.index.json");
    put(place, "2.safetensors", file_of({{"odd", "[5]", 5}}, 1));
    BOOST_TEST(why("a").find("one dtype of each tensor") != std::string::npos, why("a"));
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_told) {
    cairn::memory_store store;
    put(store.at("m"), "model-00001-of-00003.safetensors", file_of({{"a", "[2]", 2}}, 1));
    auto why = loaded(store, "m", "a", 2);
    BOOST_TEST(why.find("3 files") != why.npos, why);
    why = loaded(store, "m/none.safetensors", "a", 2);
    BOOST_TEST(why.find("neither") != why.npos, why);
    std::string const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0";
    put(store.at("lfs"), "model.safetensors", std::as_bytes(std::span(pointer)));
    why = loaded(store, "lfs", "a", 2);
    BOOST_TEST(why.find("git lfs pull") != why.npos, why);
}

BOOST_AUTO_TEST_CASE(shards_without_an_index_are_all_there_whatever_stands_beside_them) {
    cairn::memory_store store;
    auto place = store.at("m");
    put(place, "adapter.safetensors", file_of({{"a", "[2]", 2}}, 1));
    put(place, "model-00001-of-00002.safetensors", file_of({{"b", "[2]", 2}}, 2));
    auto const why = loaded(store, "m", "a", 2);
    BOOST_TEST(why.find("2 files, by the name of 'model-00001-of-00002") != why.npos, why);
    put(place, "vae-00001-of-00002.safetensors", file_of({{"c", "[2]", 2}}, 3));
    BOOST_TEST(loaded(store, "m", "a", 2).find("2 files") != std::string::npos);
    place.remove("vae-00001-of-00002.safetensors");
    put(place, "model-00002-of-00002.safetensors", file_of({{"c", "[2]", 2}}, 3));
    BOOST_TEST(loaded(store, "m", "c", 2) == "3");
    put(place, "shard-00001-00002-of-00004.safetensors", file_of({{"d", "[2]", 2}}, 4));
    BOOST_TEST(loaded(store, "m", "d", 2) == "4");
}

BOOST_AUTO_TEST_CASE(links_of_a_cache_are_read) {
    support::scratch s;
    namespace fs = std::filesystem;
    cairn::file_store blobs(s.dir / "blobs");
    put(blobs, "0123", file_of({{"a", "[2]", 2}}, 5));
    fs::create_directories(s.dir / "snapshots/main");
    fs::create_symlink("../../blobs/0123", s.dir / "snapshots/main/model.safetensors");
    for (auto const* id : {"snapshots/main", "snapshots/main/model.safetensors"}) {
        std::vector<std::uint8_t> x(2);
        cairn::load(cairn::state_dict{{"a", x}}, id, cairn::file_store(s.dir));
        BOOST_TEST(int{x[1]} == 5);
    }
}

BOOST_AUTO_TEST_CASE(a_directory_may_be_named_as_a_file) {
    cairn::memory_store store;
    put(store.at("run/model.safetensors"), "model.safetensors", file_of({{"a", "[2]", 2}}, 4));
    BOOST_TEST(loaded(store, "run/model.safetensors", "a", 2) == "4");
    std::vector<float> w(3, 1.0f);
    cairn::save(cairn::state_dict{{"w", w}}, "x.safetensors", store);
    w.assign(3, 0.0f);
    cairn::load(cairn::state_dict{{"w", w}}, "x.safetensors", store);
    BOOST_TEST(w[2] == 1.0f);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_dcp_comes_before_files_beside_it) {
    cairn::memory_store store;
    std::vector<std::uint8_t> a(2, 7);
    cairn::save(cairn::state_dict{{"a", a}}, "m", store);
    put(store.at("m"), "model.safetensors", file_of({{"a", "[2]", 2}}, 1));
    BOOST_TEST(loaded(store, "m", "a", 2) == "7");
    cairn::memory_store none;
    BOOST_TEST(loaded(none, "m", "a", 2).find(".metadata") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(empty_tensors_and_those_without_dimensions_load) {
    cairn::memory_store store;
    put(store.at("m"), "model.safetensors", file_of({{"none", "[0,3]", 0}, {"one", "[]", 1}}, 9));
    std::vector<std::uint8_t> none;
    std::uint8_t one = 0;
    auto const r = cairn::load(
        cairn::state_dict{{"none", cairn::tensor_view(cairn::dtype::u8, {0, 3}, none.data())},
                          {"one", cairn::scalar_tensor(one)}},
        "m", store);
    BOOST_TEST(int{one} == 9);
    BOOST_TEST(!r.unverified.empty());
}

BOOST_AUTO_TEST_CASE(ranks_load_their_columns) {
    support::scratch s;
    cairn::byte_vector b = file_of({{"a", "[2,6]", 12}}, 0);
    for (std::size_t i = 0; i < 12; ++i) b[b.size() - 12 + i] = static_cast<std::byte>(i);
    put(cairn::file_store(s.dir), "w.safetensors", b);
    cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
        std::vector<std::uint8_t> mine(4);
        cairn::state_dict sd{
            {"a", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::u8, {2, 2}, mine.data()),
                                       {2, 6}, cairn::device_mesh::line(3), {cairn::shard_along{1}},
                                       me.rank())}};
        for (auto const& id : {s.dir.string(), (s.dir / "w.safetensors").string()}) {
            mine.assign(4, 0xee);
            cairn::load(sd, id, me);
            auto const c = static_cast<std::uint8_t>(2 * me.rank());
            std::vector<std::uint8_t> const want{c, static_cast<std::uint8_t>(c + 1),
                                                 static_cast<std::uint8_t>(c + 6),
                                                 static_cast<std::uint8_t>(c + 7)};
            if (mine != want) throw std::runtime_error("other columns");
            mine.assign(4, 0xee);
            cairn::load(sd, id, me, cairn::safetensors_reader(cairn::file_store()));
            if (mine != want) throw std::runtime_error("other columns");
        }
    });
}

BOOST_AUTO_TEST_CASE(a_file_that_is_replaced_after_its_header_was_read_is_not_read) {
    cairn::memory_store store;
    put(store.at("m"), "model.safetensors", file_of({{"a", "[2]", 2}}, 1));
    using support::is;
    std::vector<std::uint8_t> a(2);
    cairn::state_dict const sd{{"a", a}};
    // A load begins again, several times.
    (void)cairn::load(sd, "m", support::replaced_when_opened(store, 3));
    BOOST_TEST(a[1] == 1);
    cairn::memory_store to;
    auto const convert = [&](int times) {
        return cairn::convert({support::replaced_when_opened(store, times), "m"}, "out", to);
    };
    BOOST_CHECK_EXCEPTION((void)convert(1000), cairn::error, is(cairn::errc::concurrent_save));
    BOOST_TEST(to.at("out").list().empty());
    (void)convert(0);

    support::scratch dir;
    auto const place = dir.dir / "m";
    std::filesystem::create_directories(place);
    auto const files = cairn::file_store(place.string());
    put(files, "model.safetensors", file_of({{"a", "[2]", 2}}, 1));
    cairn::safetensors_reader reader{files};
    reader.reset("");
    auto const m = reader.read_metadata();
    cairn::load_plan plan;
    auto& item = plan.items.emplace_back();
    item.fqn = "a";
    item.kind = cairn::item_kind::tensor;
    item.source_offsets = item.target_offsets = {0};
    item.shape = {2};
    reader.set_up_reader(m, {});
    (void)reader.prepare_local_load_plan(plan);
    put(files, "next", file_of({{"a", "[2]", 2}}, 2));
    std::filesystem::rename(place / "next", place / "model.safetensors");
    BOOST_CHECK_EXCEPTION((void)reader.prepare_local_load_plan(plan), cairn::error,
                          is(cairn::errc::concurrent_save));
}

BOOST_AUTO_TEST_CASE(a_verification_ends_with_the_first_tensor_of_a_file_that_is_replaced) {
    cairn::memory_store store;
    put(store.at("m"), "model.safetensors",
        file_of({{"a", "[2]", 2}, {"b", "[2]", 2}, {"c", "[2]", 2}}, 1));
    auto const r = cairn::verify(support::replaced_when_opened(store, 1000).at("m"));
    BOOST_TEST(r.findings.size() == 1u);
    BOOST_TEST(!r.damaged);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_written_while_it_is_read_is_noticed_at_its_end) {
    support::scratch s;
    auto const place = s.dir / "m";
    std::filesystem::create_directories(place);
    auto const file = place / "model.safetensors";
    auto const files = cairn::file_store(place.string());
    put(files, "model.safetensors", file_of({{"a", "[2]", 2}, {"b", "[2]", 2}}, 1));
    cairn::load_plan plan;
    for (auto const* name : {"a", "b"}) {
        auto& item = plan.items.emplace_back();
        item.fqn = name;
        item.kind = cairn::item_kind::tensor;
        item.source_offsets = item.target_offsets = {0};
        item.shape = {2};
    }
    for (bool const in_pieces : {false, true}) {
        // Clocks of file systems are coarse.
        std::filesystem::last_write_time(
            file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
        cairn::safetensors_reader reader{files, 1};
        reader.reset("");
        auto const m = reader.read_metadata();
        cairn::storage_setup setup;
        setup.in_pieces = in_pieces;
        if (in_pieces) setup.checked = cairn::checks_of_pieces();
        reader.set_up_reader(m, setup);
        std::vector<std::uint8_t> read(2);
        bool written = true;
        cairn::read_target target;
        target.resolve_converted = [&](const cairn::read_item&) {
            return cairn::tensor_view(cairn::dtype::u8, {2}, read.data());
        };
        target.commit_tensor = [&](const cairn::read_item&, const cairn::tensor_view&) {
            if (!std::exchange(written, true))  // in place, as torch.save does
                std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).put('\x42');
        };
        auto const run = [&] {
            (void)cairn::await_completion<cairn::read_result>(
                [&](auto done) { reader.read_data(plan, target, std::move(done)); });
        };
        run();
        written = false;
        BOOST_CHECK_EXCEPTION(run(), cairn::error, support::is(cairn::errc::concurrent_save));
        BOOST_TEST(written);
        put(files, "next", file_of({{"a", "[2]", 2}, {"b", "[2]", 2}}, 1));
        std::filesystem::rename(place / "next", file);
    }
}

BOOST_AUTO_TEST_CASE(replicas_may_have_other_versions_of_one_file) {
    cairn::memory_store store;
    std::vector<std::uint8_t> a(200, 3), found(200);
    cairn::safetensors_writer_options o;
    o.checksums_in_files = true;
    (void)cairn::save(cairn::state_dict{{"a", a}}, "m", cairn::safetensors_writer(store, o));
    cairn::state_dict const sd{{"a", found}};
    (void)cairn::load(sd, "m", replicas(store));
    BOOST_TEST(found == a);
    (void)cairn::convert({replicas(store), "m"}, "out", store);
    (void)cairn::load(sd, "out", store);
    // Neither is damage mistaken for another version.
    auto place = store.at("m");
    auto b = cairn::read_whole(place, "model.safetensors");
    b.back() ^= std::byte{4};
    place.publish("model.safetensors", b, std::nullopt);
    BOOST_CHECK_EXCEPTION((void)cairn::load(sd, "m", replicas(store)), cairn::error,
                          support::is(cairn::errc::checksum_mismatch));
}

BOOST_AUTO_TEST_SUITE_END()
