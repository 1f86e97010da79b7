// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose checksums are right and whose numbers are not: an error, before memory is made
// or touched for them.
#include "support/allocations.hpp"
#include "support/crafted.hpp"
#include "support/data_files.hpp"
#include "support/whole.hpp"

#include <cairn/metadata/stored_bytes.hpp>
#include <cairn/storage/detail/data_file.hpp>
#include <cairn/storage/detail/read_payload.hpp>
#include <cairn/storage/detail/stored_chunk.hpp>
#include <cairn/storage/torch_reader.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(hostile_checkpoints)

namespace {

using cairn::errc;
using cairn::index_vector;
using support::crafted;

/// "w": 6 x 4 floats, "t": transposed, "step": 7.
crafted small_checkpoint() {
    cairn::memory_store store;
    std::vector<float> w(24);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
    cairn::state_dict sd{{"w", cairn::tensor_view(cairn::dtype::f32, {6, 4}, w.data())},
                         {"t", cairn::tensor_view(cairn::dtype::f32, {4, 6}, {1, 4}, w.data() + 0)},
                         {"step", 7}};
    // Two names of one memory would be tied.
    std::vector<float> own(w);
    sd["t"] = cairn::tensor_view(cairn::dtype::f32, {4, 6}, {1, 4}, own.data());
    cairn::save(sd, "c", store);
    return {store, "c"};
}
crafted with_index(const std::function<void(cairn::metadata&)>& change) {
    auto c = small_checkpoint();
    auto m = c.metadata();
    change(m);
    c.set_index(m);
    c.seal();
    return c;
}
crafted with_pickle(const std::function<void(cairn::metadata&)>& change) {
    auto c = small_checkpoint();
    auto m = c.metadata();
    m.save_id.clear();
    m.file_sizes.clear();
    change(m);
    c.set_pickle(m);
    c.seal();
    return c;
}
cairn::tensor_metadata& tensor(cairn::metadata& m, const char* key = "w") {
    return std::get<cairn::tensor_metadata>(m.entries.find(key)->second);
}
/// Changes the first chunk of a tensor.
template <class F>
void edit(cairn::metadata& m, F&& f, const char* key = "w") {
    tensor(m, key).chunks.edit(0, f);
}

void is_error(const std::function<void()>& f) {
    support::allocations const count(std::size_t{96} << 20);
    BOOST_CHECK_THROW(f(), cairn::error);
    BOOST_TEST(!count.exceeded());
}
/// Neither verb nor planner may be fooled.
void is_refused(const crafted& c) {
    is_error([&] { (void)cairn::load_tree("c", {}, c.store("c")); });
    is_error([&] {
        std::vector<float> w(24), t(24);
        cairn::state_dict sd{{"w", cairn::tensor_view(cairn::dtype::f32, {6, 4}, w.data())},
                             {"t", cairn::tensor_view(cairn::dtype::f32, {4, 6}, t.data())}};
        cairn::load(sd, "c", c.store("c"));
    });
}
void is_accepted(const crafted& c) {
    auto const d = cairn::load_tree("c", {}, c.store("c"));
    BOOST_TEST(d.at("step").as_value().as<int>() == 7);
    auto const& view = d.at("t").as_tensor().shards.at(0).view;
    float x = 0;
    std::memcpy(&x, view.data + 4, sizeof x);  // row-major, [0][1]
    BOOST_TEST(x == 4.0f);
}

constexpr std::uint64_t top = ~std::uint64_t{0};

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_crafted_is_read) {
    is_accepted(small_checkpoint());
    is_accepted(with_index([](auto&) {}));
    is_accepted(with_pickle([](auto&) {}));
}

BOOST_AUTO_TEST_CASE(strides_of_the_index_stay_in_the_payload) {
    for (auto const& strides : std::vector<index_vector>{{1'000'000, 1},
                                                         {4},
                                                         {},
                                                         {4, 1, 1},
                                                         {4, 2},
                                                         {0, 1},
                                                         {0, 0},
                                                         {-4, 1},
                                                         {4, -1},
                                                         {INT64_MAX, 1},
                                                         {INT64_MIN, 1},
                                                         {5, 1}}) {
        BOOST_TEST_CONTEXT(to_string(strides)) {
            is_refused(with_index(
                [&](auto& m) { edit(m, [&](auto& c) { c.at.layout->strides = strides; }); }));
        }
    }
}

BOOST_AUTO_TEST_CASE(payloads_of_the_index_stay_in_their_items) {
    for (auto const& place : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
             {704, 4}, {704, 0}, {704, 100}, {704, top}, {top, 96}, {top - 95, 96}, {9999, 96}}) {
        auto const offset = place.first, length = place.second;
        BOOST_TEST_CONTEXT(offset << " " << length) {
            is_refused(with_index([&](auto& m) {
                edit(m, [&](auto& c) {
                    c.at.layout->payload_offset = offset;
                    c.at.layout->payload_length = length;
                });
            }));
        }
    }
}

BOOST_AUTO_TEST_CASE(items_stay_in_their_files) {
    for (auto const& place : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
             {top, 1}, {top - 1000, 1000}, {0, top}, {1 << 20, 1577}, {0, 1 << 20}, {0, 0}}) {
        auto const offset = place.first, length = place.second;
        BOOST_TEST_CONTEXT(offset << " " << length) {
            auto const set = [&](cairn::metadata& m) {
                edit(m, [&](auto& c) {
                    c.at.offset = offset;
                    c.at.length = length;
                });
            };
            is_refused(with_index(set));
            if (offset <= INT64_MAX && length <= INT64_MAX) is_refused(with_pickle(set));
        }
    }
}

/// The same, agreed upon by index and footer.
BOOST_AUTO_TEST_CASE(footers_cannot_vouch_for_an_index_that_leaves_its_bounds) {
    auto c = small_checkpoint();
    auto m = c.metadata();
    auto at = tensor(m).chunks.location(0);
    auto& b = c.files.at(at.file);
    auto const length = crafted::footer_length(b);
    auto f = support::native::decode_footer(std::span(b).last(length));
    b.resize(b.size() - length);
    for (auto& i : f.items) {
        if (i.offset != at.offset) continue;
        i.payload_length = 4;
        at.layout->payload_length = 4;
    }
    edit(m, [&](auto& one) { one.at = at; });
    auto const again = support::native::encode_footer(f);
    b.insert(b.end(), again.begin(), again.end());
    c.set_index(m);
    c.seal();
    is_refused(c);
}

/// Nothing in PyTorch's files would show it: one of them would get what is the other's.
BOOST_AUTO_TEST_CASE(tensors_of_pytorchs_have_bytes_of_their_own) {
    cairn::memory_store store;
    std::vector<float> a(24, 1.0f), b(24, 2.0f);
    cairn::state_dict sd{{"a", a}, {"b", b}};
    cairn::save(sd, "c", store);
    crafted c(store, "c");
    auto m = c.metadata();
    m.save_id.clear();
    m.file_sizes.clear();
    auto const at = tensor(m, "a").chunks.location(0);
    edit(
        m, [&](auto& one) { one.at = at; }, "b");
    c.set_pickle(m);
    c.seal();
    is_error([&] { (void)cairn::load_tree("c", {}, c.store("c")); });
    is_error([&] { (void)cairn::load(sd, "c", c.store("c")); });
    is_error([&] {
        cairn::torch_reader reader(c.store("c"));
        reader.reset("c");
        (void)reader.read_metadata();
    });
}

BOOST_AUTO_TEST_CASE(room_is_made_for_what_is_stored_only) {
    // As much as the pickle says, of one real item of a few bytes.
    for (int const bits : {30, 50, 58}) {
        auto const n = std::int64_t{1} << bits;
        auto const claim = [&](cairn::metadata& m) {
            tensor(m).shape = {n};
            edit(m, [&](auto& c) { c.region = {{0}, {n}}; });
        };
        is_refused(with_pickle(claim));
        is_refused(with_index([&](auto& m) {
            claim(m);
            edit(m, [&](auto& c) {
                c.at.layout->strides = {1};
                c.at.layout->payload_length = static_cast<std::uint64_t>(n) * 4;
            });
        }));
    }
    // An item as large as that, of a file that is not.
    auto const large = [](cairn::metadata& m) {
        std::int64_t const n = std::int64_t{1} << 40;
        tensor(m).shape = {n};
        edit(m, [&](cairn::chunk& c) {
            c.region = {{0}, {n}};
            c.at.offset = 100'000;
            c.at.length = (std::uint64_t{1} << 42) + 1000;
            c.at.layout->strides = {1};
            c.at.layout->payload_length = std::uint64_t{1} << 42;
            m.file_sizes[c.at.file] = std::uint64_t{1} << 43;
        });
    };
    is_refused(with_index(large));
    is_refused(with_pickle(large));
    // Of a file that is not there.
    for (bool const index : {false, true}) {
        auto const gone = [&](cairn::metadata& m) {
            large(m);
            edit(m, [](auto& c) { c.at.file = "gone"; });
            m.file_sizes.clear();
            if (index) m.file_sizes["gone"] = std::uint64_t{1} << 43;
        };
        is_refused(index ? with_index(gone) : with_pickle(gone));
    }
    // Compressed, says the metadata.
    is_refused(with_pickle([&](auto& m) {
        large(m);
        edit(m, [](auto& c) {
            c.at.offset = 0;
            c.at.length = 1000;
            c.at.transforms = {"zstd"};
        });
    }));
}

/// Thousands of names for one item: each would get memory of its own.
BOOST_AUTO_TEST_CASE(tied_names_are_bounded) {
    auto const tie = [](std::size_t n) {
        cairn::memory_store store;
        std::vector<float> w(std::size_t{1} << 16, 2.0f);
        cairn::save(cairn::state_dict{{"w", w}}, "c", store);
        crafted c(store, "c");
        auto m = c.metadata();
        for (std::size_t i = 1; i < n; ++i)
            m.entries["w" + std::to_string(i)] = m.entries.find("w")->second;
        c.set_index(m);
        return c;
    };
    is_error([&] { (void)cairn::load_tree("c", {}, tie(5000).store("c")); });
    BOOST_TEST(cairn::load_tree("c", {}, tie(50).store("c")).size() == 50u);
}

BOOST_AUTO_TEST_CASE(lists_stay_as_long_as_what_is_in_them) {
    for (auto const index :
         {std::int64_t{1'000'000'000}, std::int64_t{1'000'000}, INT64_MAX, std::int64_t{-1}}) {
        is_error([&] {
            auto const c = with_index([&](auto& m) {
                for (std::int64_t i = 0; i < 40; ++i) {
                    auto const key = "step" + std::to_string(i);
                    m.paths["step"] = {std::string("step"), index, index - i};
                    m.paths["w"] = {std::string("step"), index - 1};
                }
            });
            (void)cairn::load_tree("c", {}, c.store("c"));
        });
    }
    auto const few = with_index([](auto& m) {
        m.paths["w"] = {std::string("l"), std::int64_t{1000}};
    });
    BOOST_TEST(cairn::load_tree("c", {}, few.store("c")).at("l").as_list().size() == 1001u);
    // Each a level of nesting, which is walked, and let go, by recursion.
    is_error([] {
        auto const c = with_index([](auto& m) {
            m.paths["w"] = cairn::key_path(200'000, cairn::path_element(std::string("w")));
        });
        (void)cairn::load_tree("c", {}, c.store("c"));
    });
}

/// Otherwise one of them would be missing from the tree.
BOOST_AUTO_TEST_CASE(each_name_has_a_path_of_its_own) {
    using cairn::key_path;
    for (auto const& both :
         {std::pair<key_path, key_path>{{"w"}, {"w"}}, {{"x"}, {"x", "y"}}, {{"x", "y"}, {"x"}}}) {
        auto const c = with_index([&](auto& m) {
            m.paths["t"] = both.first;
            m.paths["w"] = both.second;
        });
        is_error([&] { (void)cairn::load_tree("c", {}, c.store("c")); });
    }
}

/// A part of the checkpoint can be loaded where only its files were copied to.
BOOST_AUTO_TEST_CASE(files_that_are_not_wanted_need_not_be_there) {
    cairn::memory_store store;
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        std::vector<float> w(8, static_cast<float>(me.rank()));
        cairn::state_dict sd{{"w" + std::to_string(me.rank()),
                              cairn::tensor_view(cairn::dtype::f32, {8}, w.data())}};
        cairn::save(sd, "c", me, store);
    });
    auto const gone = support::data_file(store, "c/__1_0");
    store.remove(gone);
    std::vector<float> w(8, 9.0f);
    cairn::load(cairn::state_dict{{"w0", w}}, "c", store);
    BOOST_TEST(w[3] == 0.0f);
    BOOST_TEST(cairn::load_tree("c", {.prefix = "w0"}, store).size() == 1u);
    BOOST_CHECK_EXCEPTION((void)cairn::load_tree("c", {}, store), cairn::error,
                          [&](const std::exception& e) {
                              std::string const text = e.what();
                              return text.find(gone.substr(2)) != text.npos;
                          });
}

/// What a planner asks for is held against what is stored, and the window that it gives.
BOOST_AUTO_TEST_CASE(parts_and_windows_stay_in_bounds) {
    auto const c = small_checkpoint();
    auto const m = c.metadata();
    auto store = c.store("c").at("c");
    auto const& chunk = m.tensor("w")->chunks[0];
    auto const read = [&](const cairn::box& from, const cairn::tensor_view& to) {
        cairn::open_file file(store.open(chunk.at.file), "file");
        auto p = cairn::detail::find_payload(file, "w", *m.tensor("w"), chunk, m.save_id);
        std::vector<std::byte> scratch;
        cairn::detail::payload_reader(file, {{"w", std::move(p), {{from, to}}}}, scratch).run();
    };
    std::vector<float> into(24);
    auto const window = [&](index_vector shape, cairn::dtype type = cairn::dtype::f32) {
        return cairn::tensor_view(type, std::move(shape), into.data());
    };
    read({{2, 0}, {4, 4}}, window({4, 4}));
    BOOST_TEST(into[0] == 8.0f);
    is_error([&] { read({{3, 0}, {4, 4}}, window({4, 4})); });
    is_error([&] { read({{-1, 0}, {4, 4}}, window({4, 4})); });
    is_error([&] { read({{INT64_MAX, 0}, {4, 4}}, window({4, 4})); });
    is_error([&] { read({{0}, {4}}, window({4})); });
    is_error([&] { read({{0, 0}, {6, 4}}, window({4, 4})); });
    read({{2, 0}, {2, 2}}, window({2, 2}, cairn::dtype::i32));  // converted
    is_error([&] { read({{0, 0}, {2, 2}}, window({2, 4}, cairn::dtype::i8)); });
}

BOOST_AUTO_TEST_SUITE_END()
