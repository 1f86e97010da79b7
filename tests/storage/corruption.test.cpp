// SPDX-License-Identifier: Apache-2.0
// Every byte of a small checkpoint changed in turn, every truncation, files of other saves.
#include "support/data_files.hpp"
#include "support/whole.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(corruption)

namespace {

using bytes = std::vector<std::byte>;

cairn::memory_store small_checkpoint(float first) {
    cairn::memory_store store;
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        std::vector<float> rows{first, 2, 3, static_cast<float>(me.rank())};
        cairn::state_dict sd{
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {2, 2}, rows.data()),
                                       {4, 2}, cairn::device_mesh::line(2), {cairn::shard_along{0}},
                                       me.rank())},
            {"b", std::vector<double>{1, 2, 3}},
            {"step", 7},
            {"name", "run"}};
        cairn::save_options o;
        o.storage.payload_alignment = 64;
        cairn::save(sd, "c", o, me, store);
    });
    return store;
}

bytes contents(cairn::memory_store& store, const std::string& name) {
    auto r = store.open(name);
    bytes b(static_cast<std::size_t>(r.size()));
    r.read(0, b);
    return b;
}

struct tally {
    std::size_t flips = 0, detected = 0, harmless = 0, wrong = 0;
};

/// A name of a dtype that was changed is that of one which is not known: nobody can ask for it.
void nothing_is_left_out(const cairn::memory_store& store) {
    cairn::torch_reader reader(store);
    reader.reset("c");
    auto const m = reader.read_metadata();
    if (!m.unsupported.empty())
        throw cairn::error(cairn::errc::unsupported, {.fqn = m.unsupported.begin()->first});
}

/// Loads after each change of one object; what loads without an error must equal `good`.
template <class Change>
void try_one(cairn::memory_store& store, const std::string& name, const bytes& changed,
             const support::whole& good, tally& t, Change&& what) {
    store.publish(name, changed, std::nullopt);
    ++t.flips;
    try {
        if (support::load_whole(store, "c") == good) {
            ++t.harmless;
        } else {
            nothing_is_left_out(store);
            ++t.wrong;
            what();
        }
    } catch (const cairn::error&) {
        ++t.detected;
    }
}

tally flip_all(cairn::memory_store store, const support::whole& good, bool truncate) {
    tally t;
    auto const place = store.at("c");
    std::vector<std::string> names;
    for (auto const& i : cairn::memory_store(place).list()) names.push_back(i.name);
    for (auto const& n : names) {
        auto const name = "c/" + n;
        auto const original = contents(store, name);
        for (std::size_t i = 0; i < original.size(); i += CAIRN_FLIP_STRIDE) {
            for (unsigned mask : {0x01u, 0x80u}) {
                auto b = original;
                b[i] ^= static_cast<std::byte>(mask);
                try_one(store, name, b, good, t, [] {});
            }
            if (!truncate) continue;
            bytes const cut(original.begin(), original.begin() + static_cast<std::ptrdiff_t>(i));
            try_one(store, name, cut, good, t, [] {});
        }
        store.publish(name, original, std::nullopt);
    }
    return t;
}

}  // namespace

BOOST_AUTO_TEST_CASE(corruption_of_our_own_checkpoints_is_detected_or_harmless) {
    auto store = small_checkpoint(1);
    auto const good = support::load_whole(store, "c");
    auto const t = flip_all(store, good, true);
    std::cout << "corruption of cairn's: " << t.flips << " changes, " << t.detected << " detected, "
              << t.harmless << " harmless, " << t.wrong << " wrong data unnoticed\n";
    BOOST_TEST(t.wrong == 0u);
    BOOST_TEST(t.detected > t.flips / 4);
    BOOST_TEST((support::load_whole(store, "c") == good));
}

BOOST_AUTO_TEST_CASE(corruption_of_pytorchs_is_detected_where_a_checksum_or_rule_can) {
    cairn::memory_store store;
    std::filesystem::path const dir =
        std::filesystem::path(CAIRN_GOLDEN) / "torch-2.14.1/fsdp1_linear_2_ranks/checkpoint";
    for (auto const& e : std::filesystem::directory_iterator(dir)) {
        std::ifstream f(e.path(), std::ios::binary);
        std::string const s{std::istreambuf_iterator<char>(f), {}};
        store.publish("c/" + e.path().filename().string(), std::as_bytes(std::span(s)),
                      std::nullopt);
    }
    auto const good = support::load_whole(store, "c");
    auto const t = flip_all(store, good, false);
    std::cout << "corruption of PyTorch's: " << t.flips << " changes, " << t.detected
              << " detected, " << t.harmless << " harmless, " << t.wrong
              << " that nothing can catch\n";
    BOOST_TEST(t.wrong == 0u);
    BOOST_TEST(t.detected > t.flips / 4);
}

BOOST_AUTO_TEST_CASE(another_saves_data_file_is_noticed) {
    auto store = small_checkpoint(1);
    auto other = small_checkpoint(9);
    for (auto const* stem : {"c/__0_0", "c/__1_0"}) {
        auto const name = support::data_file(store, stem);
        auto const original = contents(store, name);
        store.publish(name, contents(other, support::data_file(other, stem)), std::nullopt);
        BOOST_CHECK_EXCEPTION(support::load_whole(store, "c"), cairn::error, [](const auto& e) {
            return e.code() == cairn::make_error_code(cairn::errc::foreign_file);
        });
        store.publish(name, original, std::nullopt);
    }
}

BOOST_AUTO_TEST_SUITE_END()
