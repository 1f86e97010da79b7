// SPDX-License-Identifier: Apache-2.0
// What a reader of any format gets from chunk_reader: exact reads without checksums, bytes that
// several tensors share, as many requests as the store wants.
#include "support/counting_store.hpp"
#include "support/error_codes.hpp"
#include "support/forwarding_store.hpp"
#include "support/known_reader.hpp"
#include "support/scratch.hpp"

#include <cairn/cairn.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/storage/chunk_reader.hpp>
#include <cairn/storage/threads_per_rank.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(chunk_reader)

namespace {

using cairn::dtype;
using support::counted;
using support::known_reader;
using support::stored;
using support::with_file;

/// A region of a tensor, as a rank has it.
cairn::sharded_view part_of(cairn::index_vector whole, const cairn::box& part, float* memory) {
    cairn::sharded_view v{std::move(whole), dtype::float32, {}};
    v.shards.emplace_back(part, cairn::tensor_view(dtype::float32, part.shape, memory));
    return v;
}

/// Says `errc::checksum_mismatch`, and names this tensor.
auto is_mismatch_of(std::string fqn) {
    return [fqn = std::move(fqn)](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::checksum_mismatch) &&
               e.context().fqn == fqn;
    };
}

/// Holds up each thread that opens, and each that reads, until as many do so.
class crowded_store : public support::forwarding_store<cairn::memory_store> {
    struct crowd {
        std::mutex m{};
        std::condition_variable came{};
        std::size_t here = 0, most = 0;
        bool given_up = false;

        void meet(std::size_t expected) {
            std::unique_lock lock(m);
            most = std::max(most, ++here);
            came.notify_all();
            given_up = !came.wait_for(lock, std::chrono::seconds(30), [&] {
                return most >= expected || given_up;
            }) || given_up;
            --here;
        }
    };

public:
    crowded_store(cairn::memory_store s, std::size_t wanted, std::size_t expected)
        : forwarding_store(std::move(s)), wanted_(wanted), expected_(expected) {}
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    struct reader {
        cairn::memory_store::reader h;
        std::shared_ptr<crowd> all;
        std::size_t expected;
        void read(std::uint64_t at, std::span<std::byte> into) {
            all->meet(expected);
            h.read(at, into);
        }
        std::uint64_t size() { return h.size(); }
    };
    reader open(std::string_view n) {
        opening_->meet(std::min({wanted_, expected_, store_.list().size()}));
        return {store_.open(n), crowd_, expected_};
    }
    std::size_t requests_in_flight() const { return wanted_; }
    std::size_t most() const { return crowd_->most; }
    /// Whether so many opened at once.
    bool has_opened_all() const { return !opening_->given_up; }

private:
    std::size_t wanted_, expected_;
    std::shared_ptr<crowd> crowd_ = std::make_shared<crowd>();
    std::shared_ptr<crowd> opening_ = std::make_shared<crowd>();
};
static_assert(cairn::ManyRequestsStore<crowded_store>);

/// How many threads read 16 files at once, if the store wants so many requests.
std::size_t readers_at_once(std::size_t wanted, std::size_t expected, int threads) {
    constexpr std::size_t files = 16;
    cairn::memory_store store;
    cairn::metadata m;
    cairn::state_dict sd;
    std::vector<std::vector<float>> got(files, std::vector<float>(4));
    auto const content = counted(4);
    for (std::size_t i = 0; i < files; ++i) {
        auto const name = "t" + std::to_string(i);
        store.publish(name, std::as_bytes(std::span(content)), std::nullopt);
        m.entries[name] = stored(dtype::float32, {4}, name, 0, 16);
        sd[name] = got[i];
    }
    crowded_store crowded(store, wanted, expected);
    (void)cairn::load(sd, "", known_reader(crowded, m, {}, threads));
    BOOST_TEST((got == std::vector<std::vector<float>>(files, content)));
    BOOST_TEST(crowded.has_opened_all());
    return crowded.most();
}

}  // namespace

/// Nothing has to be read beside what is wanted, for nothing could be checked with it.
BOOST_AUTO_TEST_CASE(a_payload_without_a_checksum_is_read_where_it_is_wanted_and_reported) {
    constexpr std::int64_t rows = 400, columns = 50'000;  // 200 kB each
    auto const content = counted(rows * columns);
    support::counting_store counting(with_file("w.raw", content));
    cairn::metadata m;
    m.entries["w"] = stored(dtype::float32, {rows, columns}, "w.raw", 0, rows * columns * 4);
    std::vector<float> got(3 * 10);
    cairn::state_dict sd{{"w", part_of({rows, columns}, {{7, 20}, {3, 10}}, got.data())}};
    auto const report = cairn::load(sd, "", known_reader(counting, m));
    for (std::int64_t i = 0; i < 30; ++i)
        BOOST_TEST(got[static_cast<std::size_t>(i)] ==
                   content[static_cast<std::size_t>((7 + i / 10) * columns + 20 + i % 10)]);
    std::uint64_t const row = columns * 4;
    for (std::uint64_t r = 0; r < rows; ++r) {
        auto const is_wanted = r >= 7 && r < 10;
        BOOST_TEST(counting.reads("w.raw", r * row + 80, 40).first == (is_wanted ? 1 : 0));
        BOOST_TEST(counting.reads("w.raw", r * row, 80).second == 0);
        BOOST_TEST(counting.reads("w.raw", r * row + 128, row - 128).second == 0);
    }
    BOOST_TEST_REQUIRE(report.unverified.size() == 1u);
    BOOST_TEST(report.unverified[0].ends_with("w.raw': 1 item was written without a checksum"));
}

BOOST_AUTO_TEST_CASE(a_payload_of_another_length_than_its_shape_is_refused) {
    auto const store = with_file("w.raw", counted(100));
    cairn::metadata m;
    m.entries["w"] = stored(dtype::float32, {100}, "w.raw", 0, 396);
    std::vector<float> got(100, -1.0f);
    BOOST_CHECK_EXCEPTION(
        (void)cairn::load(cairn::state_dict{{"w", got}}, "", known_reader(store, m)), cairn::error,
        [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::corrupt) &&
                   e.context().expected.starts_with("400 bytes") &&
                   e.context().found == "396 bytes" && e.context().fqn == "w";
        });
    BOOST_TEST(got[0] == -1.0f);
}

/// As in a file of `torch.save`: a matrix, its transpose, the end of it, every other column.
BOOST_AUTO_TEST_CASE(tensors_that_share_a_storage_are_read_once_and_each_in_its_own_way) {
    auto content = counted(32 * 64);
    cairn::metadata m;
    auto const length = content.size() * 4;
    m.entries["all"] = stored(dtype::float32, {32, 64}, "f", 0, length);
    m.entries["end"] = stored(dtype::float32, {64}, "f", 0, length);
    m.entries["gaps"] = stored(dtype::float32, {32, 32}, "f", 0, length);
    m.entries["turned"] = stored(dtype::float32, {64, 32}, "f", 0, length);
    auto crc = std::make_shared<std::optional<std::uint32_t>>();
    cairn::item_finder finder;
    finder.find_chunk = [crc](cairn::open_file&, const std::string& fqn,
                              const cairn::tensor_metadata& t, std::size_t chunk) {
        cairn::payload p;
        p.type = t.type;
        p.shape = t.chunks[chunk].region.shape;
        p.strides = cairn::row_major_strides(p.shape);
        if (fqn == "turned") p.strides = {1, 64};
        if (fqn == "gaps") p.strides = {64, 2};
        if (fqn == "end") p.first = 31 * 64;
        p.length = t.chunks[chunk].at.length;
        p.crc = *crc;
        return p;
    };
    for (bool const checked : {false, true}) {
        for (bool const gaps : {false, true}) {
            if (checked) *crc = cairn::format::crc32(std::as_bytes(std::span(content)));
            support::counting_store counting(with_file("f", content));
            std::vector<float> all(32 * 64), end(64), strided(32 * 32), turned(64 * 32);
            using view = cairn::tensor_view;
            cairn::state_dict sd{{"all", view(dtype::float32, {32, 64}, all.data())},
                                 {"end", end},
                                 {"turned", view(dtype::float32, {64, 32}, turned.data())}};
            if (gaps) sd["gaps"] = view(dtype::float32, {32, 32}, strided.data());
            (void)cairn::load(sd, "", known_reader(counting, m, finder));
            BOOST_TEST((all == content));
            BOOST_TEST((end == std::vector<float>(content.end() - 64, content.end())));
            bool right = true;
            for (std::size_t r = 0; r < 32; ++r) {
                for (std::size_t c = 0; c < 64; ++c) {
                    right = right && turned[c * 32 + r] == content[r * 64 + c];
                    if (gaps && c % 2 == 0)
                        right = right && strided[r * 32 + c / 2] == content[r * 64 + c];
                }
            }
            BOOST_TEST(right);
            BOOST_TEST((counting.reads("f", 0, length) == std::pair(1, 1)));
        }
    }
    content[3] = -1.0f;
    std::vector<float> end(64);
    BOOST_CHECK_EXCEPTION((void)cairn::load(cairn::state_dict{{"end", end}}, "",
                                            known_reader(with_file("f", content), m, finder)),
                          cairn::error, is_mismatch_of("end"));
}

BOOST_AUTO_TEST_CASE(elements_beyond_their_payload_are_never_read) {
    auto const store = with_file("f", counted(64));
    cairn::metadata m;
    m.entries["w"] = stored(dtype::float32, {4, 4}, "f", 0, 64);
    cairn::payload p;
    p.shape = {4, 4};
    p.length = 64;
    auto const load = [&](cairn::index_vector strides, std::uint64_t first) {
        p.strides = std::move(strides);
        p.first = first;
        cairn::item_finder finder;
        finder.find_chunk = [&](auto&&...) { return p; };
        std::vector<float> got(16);
        cairn::tensor_view const w(dtype::float32, {4, 4}, got.data());
        (void)cairn::load(cairn::state_dict{{"w", w}}, "", known_reader(store, m, finder));
    };
    BOOST_CHECK_NO_THROW(load({4, 1}, 0));
    BOOST_CHECK_NO_THROW(load({1, 4}, 0));
    for (auto const& [strides, first] :
         std::vector<std::pair<cairn::index_vector, std::uint64_t>>{{{4, 1}, 1},
                                                                    {{5, 1}, 0},
                                                                    {{-4, 1}, 12},
                                                                    {{INT64_MAX, 1}, 0},
                                                                    {{4, 1}, UINT64_MAX},
                                                                    {{4}, 0}})
        BOOST_CHECK_EXCEPTION(load(strides, first), cairn::error, [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::corrupt);
        });
    auto const is_corrupt = support::is(cairn::errc::corrupt);
    p.block_crcs = {1, 2};
    BOOST_CHECK_EXCEPTION(load({4, 1}, 0), cairn::error, is_corrupt);
    p.block_crcs = {};
    for (auto const offset : {std::uint64_t{208}, UINT64_MAX}) {
        p.offset = offset;
        BOOST_CHECK_EXCEPTION(load({4, 1}, 0), cairn::error, is_corrupt);
    }
    p.offset = 0;
    p.content.resize(63);
    BOOST_CHECK_EXCEPTION(load({4, 1}, 0), cairn::error, is_corrupt);
}

/// A format may look them up by their names, and know no offsets.
BOOST_AUTO_TEST_CASE(values_at_one_offset_are_each_asked_for) {
    cairn::metadata m;
    for (auto const* name : {"a", "b"})
        m.entries[name] = cairn::value_metadata{{"f", 0, 8, {}, {}}};
    cairn::item_finder finder;
    finder.read_value = [](cairn::open_file&, const std::string& fqn, auto&&) {
        return cairn::value(fqn);
    };
    std::string a, b;
    (void)cairn::load(cairn::state_dict{{"a", std::ref(a)}, {"b", std::ref(b)}}, "",
                      known_reader(with_file("f", counted(2)), m, finder));
    BOOST_TEST(a == "a");
    BOOST_TEST(b == "b");
}

/// What a finder has decoded is not in the file.
BOOST_AUTO_TEST_CASE(content_is_delivered_also_where_a_store_reads_past_the_caches) {
    auto const content = counted(1 << 18);
    cairn::metadata m;
    m.entries["w"] = stored(dtype::float32, {1 << 18}, "f", 0, 1 << 20);
    cairn::item_finder finder;
    finder.find_chunk = [&](auto&&...) {
        cairn::payload p;
        p.shape = {1 << 18};
        p.strides = {1};
        p.length = 1 << 20;
        auto const bytes = std::as_bytes(std::span(content));
        p.content.assign(bytes.begin(), bytes.end());
        return p;
    };
    support::scratch const s;
    std::vector<float> const other(1 << 18, -1.0f);
    std::ofstream(s.dir / "f", std::ios::binary)
        .write(reinterpret_cast<const char*>(other.data()), 1 << 20);
    std::vector<float> got(1 << 18);
    (void)cairn::load(cairn::state_dict{{"w", got}}, "",
                      known_reader(cairn::file_store(s.dir), m, finder));
    BOOST_TEST((got == content));
}

/// Whichever of the tensors is found first.
BOOST_AUTO_TEST_CASE(a_checksum_of_any_tensor_in_shared_bytes_is_compared) {
    auto content = counted(64);
    cairn::metadata m;
    for (auto const* name : {"a", "b"}) m.entries[name] = stored(dtype::float32, {64}, "f", 0, 256);
    for (std::string const checked : {"a", "b"}) {
        cairn::item_finder finder;
        finder.find_chunk = [&](cairn::open_file&, const std::string& fqn, auto&&...) {
            cairn::payload p;
            p.shape = {64};
            p.strides = {1};
            p.length = 256;
            if (fqn == checked) p.crc = 1;
            return p;
        };
        std::vector<float> a(64), b(64);
        BOOST_CHECK_EXCEPTION((void)cairn::load(cairn::state_dict{{"a", a}, {"b", b}}, "",
                                                known_reader(with_file("f", content), m, finder)),
                              cairn::error, support::is(cairn::errc::checksum_mismatch));
    }
}

/// A value in a format that has none is an error of the load, not a crash.
BOOST_AUTO_TEST_CASE(a_value_that_nobody_decodes_is_refused) {
    cairn::metadata m;
    m.entries["step"] = cairn::value_metadata{{"f", 0, 8, {}, {}}};
    std::int64_t step = 3;
    BOOST_CHECK_EXCEPTION((void)cairn::load(cairn::state_dict{{"step", std::ref(step)}}, "",
                                            known_reader(with_file("f", counted(2)), m)),
                          cairn::error, [](const cairn::error& e) {
                              return e.code() == make_error_code(cairn::errc::unsupported) &&
                                     e.context().fqn == "step";
                          });
    BOOST_TEST(step == 3);
}

BOOST_AUTO_TEST_CASE(a_store_gets_as_many_requests_at_once_as_it_wants) {
    auto const cores = static_cast<std::size_t>(cairn::threads_per_rank(1));
    if (cores < 12) BOOST_TEST(readers_at_once(12, 12, 0) == 12u);
    // Never fewer than there are cores, and exactly as many as the caller says.
    BOOST_TEST(readers_at_once(1, std::min<std::size_t>(cores, 16), 0) ==
               std::min<std::size_t>(cores, 16));
    BOOST_TEST(readers_at_once(12, 3, 3) == 3u);
}

/// Their locations are all the same, and have no length.
BOOST_AUTO_TEST_CASE(chunks_that_only_their_finder_locates_are_read_at_once) {
    cairn::metadata m;
    cairn::state_dict sd;
    std::vector<float> got(16);
    for (std::size_t i = 0; i < 4; ++i) {
        auto const name = std::to_string(i);
        m.entries[name] = stored(dtype::float32, {4}, "f", 0, 0);
        sd[name] = cairn::tensor_view(dtype::float32, {4}, got.data() + 4 * i);
    }
    cairn::item_finder finder;
    finder.find_chunk = [](cairn::open_file&, const std::string& fqn, auto&&...) {
        cairn::payload p;
        p.shape = {4};
        p.strides = {1};
        p.offset = std::stoull(fqn) * 16;
        p.length = 16;
        return p;
    };
    crowded_store const crowded(with_file("f", counted(16)), 4, 4);
    (void)cairn::load(sd, "", known_reader(crowded, m, finder, 4));
    BOOST_TEST((got == counted(16)));
    BOOST_TEST(crowded.most() == 4u);
}

BOOST_AUTO_TEST_SUITE_END()
