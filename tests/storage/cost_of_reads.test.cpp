// SPDX-License-Identifier: Apache-2.0
// What a save and a load take beside the user's memory: counted in bytes, never in seconds.
#include "support/allocations.hpp"
#include "support/counting_store.hpp"

#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/object_store/read_whole.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(cost_of_reads)

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::uint64_t data_bytes(cairn::memory_store at) {
    std::uint64_t n = 0;
    for (auto const& o : at.list())
        if (o.name.ends_with(".distcp")) n += o.size;
    return n;
}

/// Reads a checkpoint of cairn's as if PyTorch had written it: without the index.
class unindexed_reader : public cairn::torch_reader {
public:
    explicit unindexed_reader(support::counting_store<cairn::memory_store> s)
        : torch_reader(std::move(s)) {}
    cairn::metadata read_metadata() {
        auto m = torch_reader::read_metadata();
        m.save_id.clear();
        for (auto& [fqn, entry] : m.entries)
            if (auto* t = std::get_if<cairn::tensor_metadata>(&entry))
                t->chunks.edit_each([](cairn::chunk& c) { c.at.layout.reset(); });
        return m;
    }
};

/// Each of its four pieces is in all columns.
void convert_transposed(std::optional<int> zstd_level) {
    std::vector<float> w(std::size_t{4} << 20);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
    cairn::memory_store memory, to;
    cairn::torch_writer_options o;
    o.zstd_level = zstd_level;
    (void)cairn::save(cairn::state_dict{{"w", cairn::tensor_view(cairn::dtype::f32, {2048, 2048},
                                                                 {1, 2048}, w.data())}},
                      "c", cairn::torch_writer(memory, o));
    support::counting_store store(memory);
    (void)cairn::convert(cairn::convert_source(store, "c"), "c", to);
    cairn::torch_reader reader(memory);
    reader.reset("c");
    auto const at = reader.read_metadata().tensor("w")->chunks.location(0);
    BOOST_TEST(at.transforms.empty() == !zstd_level.has_value());
    BOOST_TEST(store.reads(at.file, at.offset, at.length).second == 1);
    std::vector<float> found(w.size());
    (void)cairn::load(
        cairn::state_dict{{"w", cairn::tensor_view(cairn::dtype::f32, {2048, 2048}, found.data())}},
        "c", to);
    for (std::size_t k = 0; k < w.size(); k += 997)
        BOOST_TEST_REQUIRE(found[k] == w[k % 2048 * 2048 + k / 2048]);
}

}  // namespace

/// Of PyTorch's zip archive: the directory is at the end, the pickle at the beginning.
BOOST_AUTO_TEST_CASE(an_item_without_an_index_is_read_at_both_ends_and_a_small_one_at_once) {
    constexpr std::size_t piece = std::size_t{256} << 10, pieces = 4;
    std::vector<float> large(pieces * piece / sizeof(float), 1.5f), small(10, 2.5f);
    // An item of as much as is read at once.
    std::vector<float> limit(((std::size_t{64} << 10) - 8192) / sizeof(float), 3.5f);
    std::vector<float> const wanted_large = large, wanted_small = small, wanted_limit = limit;
    for (std::uint32_t const alignment : {64U, 4096U}) {
        cairn::torch_writer_options o;
        o.payload_alignment = alignment;
        cairn::memory_store store;
        (void)cairn::save(cairn::state_dict{{"large", large}, {"limit", limit}, {"small", small}},
                          "c", cairn::torch_writer(store, o));
        auto at = store.at("c");
        std::string file;
        for (auto const& object : at.list())
            if (object.name.ends_with(".distcp")) file = object.name;
        auto const reads = [&](const char* name, std::vector<float>& to) {
            support::counting_store counting(store);
            to.assign(to.size(), 0.0f);
            (void)cairn::load(cairn::state_dict{{name, to}}, "c", unindexed_reader(counting));
            return counting.calls(file);
        };
        BOOST_TEST(reads("large", large) == 2 + static_cast<int>(pieces));
        BOOST_TEST(reads("limit", limit) == 1);
        BOOST_TEST(reads("small", small) == 1);
        BOOST_TEST((large == wanted_large && limit == wanted_limit && small == wanted_small));
    }
}

/// However many tensors and chunks are read from a file, its footer is read once, and before that
/// its end, which says how long it is.
BOOST_AUTO_TEST_CASE(a_footer_is_read_once) {
    constexpr std::size_t rows = 100, tensors = 100;
    std::vector<float> w(rows * 2, 1.0f);
    std::vector<std::vector<float>> small(tensors, std::vector<float>(3, 2.0f));
    cairn::sharded_view chunks{{rows, 2}, cairn::dtype::float32, {}};
    for (std::int64_t r = 0; r < static_cast<std::int64_t>(rows); ++r)
        chunks.shards.emplace_back(
            cairn::box({r, 0}, {1, 2}),
            cairn::tensor_view(cairn::dtype::float32, {1, 2}, w.data() + 2 * r));
    cairn::state_dict sd{{"chunks", chunks}};
    for (std::size_t i = 0; i < tensors; ++i) sd["t" + std::to_string(i)] = small[i];
    cairn::memory_store store;
    (void)cairn::save(sd, "c", store);

    w.assign(w.size(), 0.0f);
    support::counting_store counting(store);
    (void)cairn::load(sd, "c", counting);
    BOOST_TEST(w.back() == 1.0f);
    int files = 0;
    auto at = store.at("c");
    for (auto const& o : at.list()) {
        if (!o.name.ends_with(".distcp")) continue;
        ++files;
        auto const bytes = cairn::read_whole(at, o.name);
        auto const tail = cairn::format::native::footer_tail_bytes;
        auto const length = cairn::format::native::footer_length(std::span(bytes).last(tail));
        BOOST_TEST_REQUIRE(length > tail + rows + tensors);
        auto const body = counting.reads(o.name, o.size - length, length - tail);
        BOOST_TEST(body.first == 1);
        BOOST_TEST(body.second == 1);
        BOOST_TEST(counting.reads(o.name, o.size - tail, tail).second <= 2);
    }
    BOOST_TEST(files == 1);
}

/// What is stored as another dtype is converted slab by slab.
BOOST_AUTO_TEST_CASE(a_conversion_takes_the_memory_of_a_slab) {
    constexpr std::size_t n = 6 * mib;
    cairn::memory_store store;
    {
        std::vector<float> w(n, 1.5f);
        (void)cairn::save(cairn::state_dict{{"w", w}}, "c", store);
    }
    std::vector<double> wide(n);
    cairn::state_dict sd{{"w", wide}};
    cairn::load_options o;
    o.planner.dtypes = cairn::dtype_policy::convert;
    {
        support::allocations const count;
        (void)cairn::load(sd, "c", o, store);
        BOOST_TEST(count.peak() < n * sizeof(float) / 2);
    }
    BOOST_TEST(wide.back() == 1.5);
}

/// Memory with gaps is gathered and scattered through one buffer for each file.
BOOST_AUTO_TEST_CASE(tensors_with_gaps_share_one_buffer) {
    constexpr std::size_t tensors = 100, side = 256;
    std::vector<std::vector<float>> memory(tensors, std::vector<float>(2 * side * side, 3.0f));
    cairn::state_dict sd;
    for (std::size_t i = 0; i < tensors; ++i)
        sd["t" + std::to_string(i)] = cairn::tensor_view(cairn::dtype::float32, {side, side},
                                                         {2 * side, 2}, memory[i].data());
    cairn::memory_store store;
    std::size_t saved = 0, loaded = 0;
    {
        support::allocations const count;
        (void)cairn::save(sd, "c", store);
        saved = count.total();
    }
    auto const stored = data_bytes(store.at("c"));
    BOOST_TEST_REQUIRE(stored >= tensors * side * side * sizeof(float));
    BOOST_TEST(saved < stored + stored / 3);  // the store's own copy is one
    for (auto& m : memory) m.assign(m.size(), 0.0f);
    {
        support::allocations const count;
        (void)cairn::load(sd, "c", store);
        loaded = count.total();
    }
    BOOST_TEST(loaded < stored / 3);
    BOOST_TEST((memory.back()[0] == 3.0f && memory.back()[1] == 0.0f));
}

BOOST_AUTO_TEST_CASE(a_conversion_reads_a_transposed_tensor_once) {
    convert_transposed(std::nullopt);
}
BOOST_AUTO_TEST_CASE(a_conversion_decodes_a_transposed_tensor_once) {
    convert_transposed(1);
}

/// Each of its two pieces is in all files.
BOOST_AUTO_TEST_CASE(a_conversion_of_columns_in_many_files_reads_each_footer_once) {
    std::vector<float> w(std::size_t{2} << 20);
    cairn::sharded_view columns{{2048, 1024}, cairn::dtype::f32, {}};
    for (std::int64_t k = 0; k < 8; ++k)
        columns.shards.emplace_back(
            cairn::box({0, 128 * k}, {2048, 128}),
            cairn::tensor_view(cairn::dtype::f32, {2048, 128}, w.data() + 2048 * 128 * k));
    cairn::torch_writer_options in_files;
    in_files.thread_count = 8;
    cairn::memory_store memory, to;
    (void)cairn::save(cairn::state_dict{{"w", columns}}, "c",
                      cairn::torch_writer(memory, in_files));
    support::counting_store store(memory);
    (void)cairn::convert(cairn::convert_source(store, "c"), "c", to);
    std::size_t files = 0;
    for (auto const& o : memory.at("c").list()) {
        if (!o.name.ends_with(".distcp")) continue;
        ++files;
        // First its last bytes, which say how long it is.
        auto const n = cairn::format::native::footer_tail_bytes;
        BOOST_TEST((store.reads(o.name, o.size - n, n) == std::pair(2, 2)));
    }
    BOOST_TEST(files == 8U);
}

BOOST_AUTO_TEST_SUITE_END()
