// SPDX-License-Identifier: Apache-2.0
// The native index says what was written, and any damage to it is noticed.
#include <cairn/format/native/index.hpp>

#include "cost.hpp"
#include "message.hpp"
#include "support/whole.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(native_index)

namespace {

namespace fs = std::filesystem;
namespace native = cairn::format::native;
using bytes = std::vector<std::byte>;
using cost::is_refused;

const fs::path golden = fs::path(CAIRN_GOLDEN) / "cairn_index";

bytes slurp(const fs::path& p) {
    std::ifstream f(p, std::ios::binary);
    BOOST_REQUIRE_MESSAGE(f, p);
    std::string const s{std::istreambuf_iterator<char>(f), {}};
    auto const b = std::as_bytes(std::span(s));
    return {b.begin(), b.end()};
}

/// Metadata of any shape and size, as no planner makes it.
class invented {
public:
    explicit invented(unsigned seed) : random_(seed) {}

    cairn::metadata operator()() {
        cairn::metadata m;
        m.save_id = std::string(below(2) * 32, 'a');
        for (auto n = below(4); n > 0; --n)
            m.file_sizes["file " + std::to_string(below(6))] = any();
        for (auto n = below(6); n > 0; --n) {
            auto const key = std::string(below(40), 'k') + std::to_string(below(100));
            if (below(4) == 0)
                m.entries[key] = cairn::value_metadata{location({})};
            else
                m.entries[key] = tensor();
            if (below(2) == 0) m.paths[key] = {key, static_cast<std::int64_t>(below(9)) - 4};
        }
        return m;
    }

private:
    std::uint64_t below(std::uint64_t n) { return random_() % n; }
    /// Small, large and huge ones.
    std::uint64_t any() { return random_() >> below(64); }

    cairn::storage_location location(std::span<const std::int64_t> lengths) {
        cairn::storage_location at;
        at.file = "file " + std::to_string(below(9));
        at.offset = any();
        at.length = any();
        if (below(20) == 0) at.transforms = {"stream.zstd/1"};
        if (below(3) == 0) return at;
        cairn::item_layout layout{any(), any(), static_cast<std::uint32_t>(any()),
                                  static_cast<std::uint32_t>(any()),
                                  cairn::detail::row_major_strides_of(lengths)};
        if (below(10) == 0) layout.strides = cairn::index_vector(lengths.size(), -3);
        at.layout = std::move(layout);
        return at;
    }
    cairn::tensor_metadata tensor() {
        cairn::tensor_metadata t;
        t.type = static_cast<cairn::dtype>(below(cairn::dtype_count));
        t.requires_grad = below(2) == 0;
        for (auto n = below(10) == 0 ? below(64) : below(4); n > 0; --n)
            t.shape.push_back(static_cast<std::int64_t>(below(3)));
        bool const alike = below(3) == 0;
        cairn::chunk first;
        for (auto n = below(4) == 0 ? below(300) : below(4); n > 0; --n) {
            cairn::chunk c;
            for (std::size_t d = 0; d < t.shape.size(); ++d) {
                c.region.offsets.push_back(static_cast<std::int64_t>(any() >> 2));
                c.region.shape.push_back(static_cast<std::int64_t>(below(3)));
            }
            c.at = location(c.region.shape);
            if (t.chunks.empty()) first = c;
            t.chunks.push_back(alike ? first : c);
        }
        return t;
    }

    std::mt19937_64 random_;
};

/// Of several blocks, with everything that there is; the same on every machine.
cairn::metadata varied() {
    cairn::metadata m;
    m.save_id = "0123456789abcdef0123456789abcdef";
    m.file_sizes = {{"__0_0.distcp", 1'000'000}, {"__1_0.distcp", 5}, {"empty", 0}};
    cairn::tensor_metadata t;
    t.shape = {8000, 3};
    t.requires_grad = true;
    for (std::uint32_t i = 0; i < 8000; ++i) {
        cairn::chunk c;
        c.region = {{i, 0}, {1, 3}};
        c.at = {"__" + std::to_string(i % 2) + "_0.distcp",
                4096 * std::uint64_t{i},
                700,
                {},
                cairn::item_layout{512, 12, i * 2654435761u, ~i, {3, 1}}};
        if (i == 7) c.at.layout->strides = {1, 3};
        if (i == 9) c.at.transforms = {"stream.zstd/1"};
        if (i == 11) c.at.layout.reset();
        t.chunks.push_back(c);
    }
    m.entries["rows"] = t;
    t.chunks = {};
    m.entries["nothing stored"] = t;
    t.shape = {};
    t.type = cairn::dtype::bfloat16;
    t.chunks.push_back({{{}, {}}, {"__0_0.distcp", 9, 10, {}, cairn::item_layout{1, 2, 3, 4, {}}}});
    m.entries["scalar"] = t;
    m.entries["step"] = cairn::value_metadata{{"__1_0.distcp", 64, 20, {}, {}}};
    m.paths = {{"rows", {std::string("model"), std::string("rows")}},
               {"step", {std::string("groups"), std::int64_t{0}}}};
    return m;
}

/// An opened object that counts what is read of it.
struct counted_file {
    const bytes& content;
    std::size_t read_bytes = 0;
    std::uint64_t size() const { return content.size(); }
    void read(std::uint64_t at, std::span<std::byte> into) {
        BOOST_REQUIRE(at + into.size() <= content.size());
        read_bytes += into.size();
        std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(at), into.size(), into.begin());
    }
};

void must_not_be_read(const bytes& file) {
    BOOST_CHECK_THROW((void)native::parse_metadata_file(file), cairn::error);
}

}  // namespace

/// The files below are as cairn once wrote them; they never change.
BOOST_AUTO_TEST_CASE(the_index_of_a_checkpoint_says_what_its_pickle_says) {
    auto const file = slurp(golden / ".metadata");
    auto const f = native::parse_metadata_file(file);
    BOOST_TEST(f.has_index);
    BOOST_TEST(f.meta.save_id.size() == 32u);
    BOOST_TEST(f.meta.file_sizes.size() == 3u);
    native::check_pickle_agrees(file);
    auto const loaded = [](const fs::path& p) {
        return support::load_whole(cairn::file_store(), p.string());
    };
    BOOST_TEST((loaded(golden) ==
                loaded(fs::path(CAIRN_GOLDEN) / "torch-2.14.1" / "kinds" / "checkpoint")));
}

BOOST_AUTO_TEST_CASE(an_index_is_written_as_ever) {
    auto const kinds = slurp(golden / ".metadata");
    BOOST_TEST((native::make_metadata_file(native::parse_metadata_file(kinds).meta) == kinds));
    auto const all = slurp(golden / "varied.metadata");
    BOOST_TEST((native::parse_metadata_file(all).meta == varied()));
    BOOST_TEST((native::make_metadata_file(varied(), false) == all));
}

BOOST_AUTO_TEST_CASE(an_index_says_what_was_written) {
    std::size_t chunks = 0;
    for (unsigned seed = 0; seed < 600; ++seed) {
        auto const m = invented(seed)();
        BOOST_TEST_CONTEXT("seed " << seed) {
            BOOST_TEST((native::decode_metadata(native::encode_metadata(m)) == m));
            auto const pickle = cairn::format::torch::write_metadata_pickle({});
            auto const file = native::append_index(pickle, m);
            BOOST_TEST((native::parse_metadata_file(file).meta == m));
            counted_file opened{file};
            auto const root = native::read_root(opened);
            BOOST_REQUIRE(root.has_value());
            BOOST_TEST(root->heading.save_id == m.save_id);
        }
        for (auto const& [key, entry] : m.entries)
            if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry))
                chunks += t->chunks.size();
    }
    BOOST_TEST(chunks > 5000u);
}

BOOST_AUTO_TEST_CASE(an_index_whose_bytes_have_changed_is_refused) {
    cairn::commit_record const record{7, 1'700'000'000'000, 100, {{"loss", 0.5}}, {}};
    auto const file = native::make_metadata_file(varied(), false, &record);
    auto const tail = native::find_index(file, file.size());
    BOOST_REQUIRE(tail.has_value());
    BOOST_TEST(tail->blocks() > 2u);
    auto const root = file.size() - static_cast<std::size_t>(tail->root_length());
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < root; i += 5003) places.push_back(i);
    for (std::size_t i = root; i < file.size(); ++i) places.push_back(i);
    for (auto const i : places) {
        BOOST_TEST_CONTEXT("byte " << i << " of " << file.size()) {
            auto bad = file;
            bad[i] ^= std::byte{0x10};
            must_not_be_read(bad);
        }
    }
    for (std::size_t n = 0; n < file.size(); n += n + 300 < file.size() ? 9973 : 1)
        must_not_be_read({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n)});
}

BOOST_AUTO_TEST_CASE(the_metadata_of_a_checkpoint_whose_bytes_have_changed_is_refused) {
    auto const file = slurp(golden / ".metadata");
    for (std::size_t i = 0; i < file.size(); i += i + 100 < file.size() ? 7 : 1) {
        BOOST_TEST_CONTEXT("byte " << i << " of " << file.size()) {
            auto bad = file;
            bad[i] ^= std::byte{0x10};
            must_not_be_read(bad);
        }
    }
}

/// A key that many chunks share has room, however few bytes they take.
BOOST_AUTO_TEST_CASE(an_index_has_room_for_the_long_name_of_many_chunks) {
    cairn::metadata m;
    cairn::tensor_metadata t;
    t.shape = {30'000};
    auto const file = std::string(30, 'f');
    for (std::int64_t i = 0; i < 30'000; ++i) {
        auto const n = static_cast<std::uint64_t>(i);
        t.chunks.push_back(
            {{{i}, {1}}, {file, n * 900, 900, {}, cairn::item_layout{512, 4, 1, 2, {1}}}});
    }
    m.entries[std::string(750, 'k')] = std::move(t);
    BOOST_TEST((native::decode_metadata(native::encode_metadata(m)) == m));
    BOOST_TEST((native::parse_metadata_file(native::make_metadata_file(m, false)).meta == m));
}

/// Two blocks that changed places have the same bytes in sum.
BOOST_AUTO_TEST_CASE(an_index_whose_blocks_have_changed_places_is_refused) {
    auto file = native::make_metadata_file(varied(), false);
    auto const tail = native::find_index(file, file.size());
    auto const block = static_cast<std::ptrdiff_t>(native::index_tail::block);
    auto const at = file.end() - static_cast<std::ptrdiff_t>(tail->index_length);
    std::swap_ranges(at, at + block, at + block);
    must_not_be_read(file);
}

/// What a save wants to know of the checkpoint that it replaces.
BOOST_AUTO_TEST_CASE(the_root_of_an_index_is_read_alone) {
    auto const m = varied();
    auto const file = native::make_metadata_file(m);
    BOOST_TEST(file.size() > 5 * native::index_tail::block);
    counted_file opened{file};
    auto const root = native::read_root(opened);
    BOOST_REQUIRE(root.has_value());
    BOOST_TEST(opened.read_bytes <= native::index_tail::block);
    BOOST_TEST(root->heading.save_id == m.save_id);
    std::map<std::string, std::optional<std::uint64_t>> files;
    for (auto const& f : root->heading.files) files[f.name] = f.size;
    BOOST_TEST(files.size() == 3u);
    BOOST_TEST((files.at("__0_0.distcp") == 1'000'000));
    BOOST_TEST((files.at("empty") == 0));
}

BOOST_AUTO_TEST_CASE(an_index_may_have_more_files_than_one_read_holds) {
    cairn::metadata m;
    m.save_id = std::string(32, 'b');
    for (int i = 0; i < 10'000; ++i) m.file_sizes["__" + std::to_string(i) + "_0.distcp"] = 1;
    auto const file = native::make_metadata_file(m);
    counted_file opened{file};
    auto const root = native::read_root(opened);
    BOOST_REQUIRE(root.has_value());
    BOOST_TEST(root->heading.files.size() == 10'000u);
    BOOST_TEST((native::parse_metadata_file(file).meta == m));
}

BOOST_AUTO_TEST_CASE(pytorchs_files_have_no_root) {
    for (auto const& file :
         {cairn::format::torch::write_metadata_pickle(varied()), bytes(), bytes(3)}) {
        counted_file opened{file};
        BOOST_TEST(!native::read_root(opened).has_value());
    }
}

BOOST_AUTO_TEST_CASE(an_index_of_a_later_version_is_not_taken_for_damage) {
    auto file = native::make_metadata_file(varied(), false);
    file.back() = std::byte{'!'};
    BOOST_CHECK_EXCEPTION(
        (void)native::parse_metadata_file(file), cairn::error, [](const cairn::error& e) {
            return e.code() == cairn::make_error_code(cairn::errc::checksum_mismatch);
        });
    file.back() = std::byte{'3'};
    auto const says_so = [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(cairn::errc::unsupported);
    };
    BOOST_CHECK_EXCEPTION((void)native::parse_metadata_file(file), cairn::error, says_so);
    counted_file opened{file};
    BOOST_CHECK_EXCEPTION((void)native::read_root(opened), cairn::error, says_so);
}

namespace {

/// A message that says one tensor, whose chunks somebody else has encoded.
bytes with_chunks(std::size_t rank, std::uint64_t count,
                  const std::function<void(cairn::detail::wire_writer&)>& chunks) {
    return message_of([&](cairn::detail::wire_writer& w) {
        w.varint(1);
        w.string("w");
        w.u8(1);
        cairn::detail::put(w, cairn::dtype::float32);
        cairn::detail::put(w, cairn::index_vector(rank, 1));
        w.varint(count);
        chunks(w);
        w.varint(0);
    });
}
/// Columns of no bytes, except the one that `wide` names.
void columns(cairn::detail::wire_writer& w, std::size_t rank, std::size_t wide = SIZE_MAX,
             std::uint8_t width = 8, std::uint64_t base = 0) {
    for (std::size_t k = 0; k < 2 * rank + 6; ++k) {
        w.u8(k == wide ? width : 0);
        w.varint(k == wide ? base : 0);
    }
}
void decode(const bytes& b) {
    (void)native::decode_metadata(b);
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_of_no_bytes_do_not_become_chunks) {
    for (auto const rank : std::initializer_list<std::size_t>{0, 1, 2, 64}) {
        for (auto const count : {std::uint64_t{1} << 20, std::uint64_t{1} << 62, UINT64_MAX}) {
            auto const b = with_chunks(rank, count, [&](auto& w) { columns(w, rank); });
            is_refused(b.size(), [&] { decode(b); });
        }
        // As few bytes as there may be.
        auto const least = std::max<std::size_t>(12, 8 + 2 * rank);
        auto const b = with_chunks(rank, 10'000, [&](auto& w) {
            columns(w, rank);
            w.fill(10'000 * least, std::byte{0});
        });
        cost::costs_little(b.size(), [&] { decode(b); });
    }
}

BOOST_AUTO_TEST_CASE(columns_that_cairn_does_not_write_are_refused) {
    auto const row = [](cairn::detail::wire_writer& w, std::uint64_t v, std::size_t width) {
        auto const known = std::min<std::size_t>(width, 8);
        w.low_bytes(v, known);
        w.fill(std::max<std::size_t>(width + 8, 12) - known, std::byte{0});
    };
    auto const refused = [&](std::size_t wide, std::uint8_t width, std::uint64_t base,
                             std::uint64_t v) {
        BOOST_TEST_CONTEXT("column " << wide) {
            auto const b = with_chunks(1, 1, [&](auto& w) {
                columns(w, 1, wide, width, base);
                row(w, v, width);
            });
            is_refused(b.size(), [&] { decode(b); });
        }
    };
    refused(0, 9, 0, 0);                             // 9 bytes wide
    refused(0, 8, 0, (std::uint64_t{1} << 62) + 1);  // an offset that no tensor has
    refused(1, 8, 0, UINT64_MAX);                    // a length
    refused(2, 1, 0, 1);                             // a second file, of one
    refused(2, 8, UINT64_MAX, UINT64_MAX);
    refused(7, 1, 0, 4);  // flags
    refused(7, 1, 0, 2);  // a chunk that stands whole elsewhere, and does not
    auto const two = with_chunks(2, 1, [&](auto& w) {
        columns(w, 2, 2, 8);
        row(w, 7, 8);
    });
    cost::costs_little(two.size(), [&] { decode(two); });  // whose rows are as they should be
    auto const huge = with_chunks(2, 1, [&](auto& w) {
        for (std::size_t k = 0; k < 10; ++k) {
            w.u8(0);
            w.varint(k == 2 || k == 3 ? std::uint64_t{1} << 62 : 0);
        }
        row(w, 0, 0);
    });
    is_refused(huge.size(), [&] { decode(huge); });
}

BOOST_AUTO_TEST_CASE(the_files_of_an_index_have_different_names) {
    cairn::detail::wire_writer w;
    w.u8(4);
    w.u8(0);
    w.varint(0);
    w.u64(2);
    w.varint(0);
    w.varint(0);
    w.string("");
    w.varint(2);
    for (int i = 0; i < 2; ++i) {
        w.string("f");
        w.u8(0);
    }
    auto const b = w.take();
    is_refused(b.size(), [&] { decode(b); });
}

BOOST_AUTO_TEST_SUITE_END()
