// SPDX-License-Identifier: Apache-2.0
#include "sources.hpp"
#include "support/counting_store.hpp"
#include "support/error_codes.hpp"
#include "support/scratch.hpp"

#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/storage/torch_save_writer.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// Checksums, and versions of files, of what is converted.
BOOST_AUTO_TEST_SUITE(convert_checksums)

namespace {

namespace fs = std::filesystem;
using convert_sources::damage;
using convert_sources::numbers;
using support::is;

/// Saves rows on ranks, the last rows by the first rank.
void save_rows(int ranks, std::vector<float>& all, std::int64_t columns, const fs::path& to) {
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        auto const rows = static_cast<std::int64_t>(all.size()) / columns;
        auto const begin = rows * (ranks - 1 - me.rank()) / ranks,
                   end = rows * (ranks - me.rank()) / ranks;
        cairn::tensor_view const elements(
            cairn::dtype::float32, {end - begin, columns},
            reinterpret_cast<std::byte*>(all.data() + begin * columns));
        cairn::sharded_view const mine{
            {rows, columns},
            cairn::dtype::float32,
            {cairn::shard(cairn::box({begin, 0}, {end - begin, columns}), elements)}};
        (void)cairn::save(cairn::state_dict{{"w", mine}}, to.string(), me);
    });
}

}  // namespace

/// A file of torch.save has one checksum for each tensor. Whoever reads all of a tensor in order
/// compares it with the last piece; whoever reads a part reads all of it once, and the part.
BOOST_AUTO_TEST_CASE(a_payload_with_one_checksum_is_read_once_and_checked) {
    support::scratch s;
    constexpr std::size_t mib = std::size_t{1} << 20;
    auto const w = numbers(9 * mib / sizeof(float));
    auto copy = w;
    auto const file = s.dir / "m.pt", to = s.dir / "to";
    (void)cairn::save(cairn::state_dict{{"w", copy}}, file.string(), cairn::torch_save_writer());
    for (int const ranks : {1, 2}) {
        support::counting_store source{cairn::file_store(s.dir.string())};
        cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
            (void)cairn::convert({source, "m.pt"}, to.string(), me);
        });
        auto const middle = source.reads("m.pt", 4 * mib + mib / 8, mib / 8);
        BOOST_TEST(middle.first == (ranks == 1 ? 1 : 3));
        BOOST_TEST(middle.second == (ranks == 1 ? 1 : 3));
        copy.assign(copy.size(), 0);
        (void)cairn::load(cairn::state_dict{{"w", copy}}, to.string());
        BOOST_TEST(bool(copy == w));
        for (std::uint64_t const at :
             {mib, 5 * mib, 9 * mib}) {  // of the first, second, last piece
            damage(file, at);
            auto const other = s.dir / "other";
            // One pass over the bytes is for the source and the target, if they are the same.
            for (auto const type : {cairn::dtype::float32, cairn::dtype::bfloat16}) {
                cairn::convert_options o;
                o.floats_as = type;
                cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
                    BOOST_CHECK_EXCEPTION(
                        (void)cairn::convert(file.string(), other.string(), o, me), cairn::error,
                        [](const cairn::error& e) {
                            return is(e, cairn::errc::checksum_mismatch) ||
                                   is(e, cairn::errc::rank_failed);
                        });
                });
                BOOST_TEST(!fs::exists(other / ".metadata"));
            }
            damage(file, at);
        }
    }
}

/// The checksum of the whole follows from those of its rows.
BOOST_AUTO_TEST_CASE(rows_that_are_put_together_are_checked_in_the_pass_that_writes_them) {
    support::scratch s;
    auto w = numbers(3 * 700 * 64);
    auto const from = s.dir / "from";
    save_rows(3, w, 64, from);
    auto const convert_to = [&](const char* name) {
        auto const to = s.dir / name;
        (void)cairn::convert(cairn::convert_source{cairn::file_store(), from.string()}, to.string(),
                             cairn::torch_save_writer());
        return to;
    };
    auto const whole = convert_to("whole.pt");
    std::vector<float> back(w.size());
    cairn::tensor_view const all(cairn::dtype::float32, {700 * 3, 64},
                                 reinterpret_cast<std::byte*>(back.data()));
    (void)cairn::load(cairn::state_dict{{"w", all}}, whole.string());
    BOOST_TEST(bool(back == w));

    cairn::checkpoint_reader reader{cairn::file_store()};
    reader.reset(from.string());
    auto const m = reader.read_metadata();
    auto const& chunks = m.tensor("w")->chunks;
    BOOST_REQUIRE(chunks.size() == 3);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        auto const at = chunks.location(i);
        damage(from / at.file, at.offset + at.length / 2);
        BOOST_CHECK_EXCEPTION(
            (void)convert_to("damaged.pt"), cairn::error, [&](const cairn::error& e) {
                return is(e, cairn::errc::checksum_mismatch) && e.context().file.ends_with(at.file);
            });
        BOOST_TEST(!fs::exists(s.dir / "damaged.pt"));
        damage(from / at.file, at.offset + at.length / 2);
    }
    (void)convert_to("again.pt");
}

BOOST_AUTO_TEST_CASE(a_save_of_pytorch_into_the_source_ends_a_conversion) {
    support::scratch s;
    auto const from = s.dir / "from", to = s.dir / "to";
    fs::copy(fs::path(CAIRN_GOLDEN) / "torch-2.14.1/kinds_3_files/checkpoint", from,
             fs::copy_options::recursive);
    int calls = 0;
    cairn::convert_options o;
    o.wants = [&](std::string_view) {  // after the metadata was read, and before data are
        if (calls++ != 0) return true;
        for (auto const& file : fs::directory_iterator(from)) {
            if (file.path().extension() != ".distcp") continue;
            fs::copy_file(file.path(), s.dir / "new");
            fs::last_write_time(s.dir / "new", fs::last_write_time(file) + std::chrono::seconds(1));
            fs::rename(s.dir / "new", file.path());
        }
        return true;
    };
    BOOST_CHECK_EXCEPTION((void)cairn::convert(from.string(), to.string(), o), cairn::error,
                          is(cairn::errc::concurrent_save));
    BOOST_TEST(!fs::exists(to / ".metadata"));
    BOOST_CHECK_NO_THROW((void)cairn::convert(from.string(), to.string(), o));
}

BOOST_AUTO_TEST_SUITE_END()
