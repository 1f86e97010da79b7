// SPDX-License-Identifier: Apache-2.0
// Data files that are missing, cut short or replaced are noticed before memory changes.
#include "support/counting_store.hpp"
#include "support/crafted.hpp"
#include "support/data_files.hpp"

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

BOOST_AUTO_TEST_SUITE(missing_files)

namespace {

using cairn::errc;
using member = cairn::thread_group::member;

/// What a rank of two holds: rows of one tensor, a value of all, a value of its own.
struct part {
    explicit part(int r, float first = 0) : rank(r), rows(8) {
        for (std::size_t i = 0; i < rows.size(); ++i)
            rows[i] = first == 0 ? 0 : first + static_cast<float>(rank * 8) + static_cast<float>(i);
        step = static_cast<int>(first);
        own = first == 0 ? 0 : step + rank;
    }
    cairn::state_dict dict(int ranks = 2) {
        return {{"w",
                 cairn::shard_by_mesh(
                     cairn::tensor_view(cairn::dtype::float32, {4, 2}, rows.data()), {4 * ranks, 2},
                     cairn::device_mesh::line(ranks), {cairn::shard_along{0}}, rank)},
                {"step", std::ref(step)},
                {"own", cairn::per_rank(std::ref(own))}};
    }
    bool is(float first) const {
        part const other(rank, first);
        return rows == other.rows && step == other.step && own == other.own;
    }
    int rank;
    std::vector<float> rows;
    int step = 0, own = 0;
};

template <class Store>
void save(Store& store, float first) {
    cairn::run_ranks(2, [&](member& me) {
        part p(me.rank(), first);
        auto sd = p.dict();
        cairn::save(sd, "c", me, store);
    });
}

std::vector<std::byte> contents(cairn::memory_store& store, const std::string& name) {
    auto r = store.open(name);
    std::vector<std::byte> b(static_cast<std::size_t>(r.size()));
    r.read(0, b);
    return b;
}

/// Loads on two ranks; what each says must be `code`, with `says` in it, and memory as it was.
void fails(cairn::memory_store& store, errc code, const std::vector<std::string>& says) {
    std::vector<int> good(2, 0);
    std::string seen;
    std::mutex m;
    cairn::run_ranks(2, [&](member& me) {
        part p(me.rank());
        auto sd = p.dict();
        try {
            (void)cairn::load(sd, "c", me, store);
        } catch (const cairn::error& e) {
            std::lock_guard const lock(m);
            seen = e.what();
            bool ok = e.code() == cairn::make_error_code(code) && !e.state_modified() && p.is(0);
            for (auto const& s : says) ok = ok && seen.find(s) != seen.npos;
            good[static_cast<std::size_t>(me.rank())] = ok;
        }
    });
    BOOST_TEST_INFO(seen);
    BOOST_TEST((good == std::vector<int>{1, 1}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_missing_file_is_no_missing_checkpoint_and_leaves_memory_as_it_was) {
    for (std::string const stem : {"__0_0", "__1_0"}) {
        cairn::memory_store store;
        save(store, 100);
        auto const file = support::data_file(store.at("c"), stem);
        store.remove("c/" + file);
        fails(store, errc::missing_file,
              {file, ".metadata' names it", "no such file", "put the file back", "rank ",
               "a data file of the checkpoint is missing"});
    }
    cairn::memory_store store;
    save(store, 100);
    store.remove("c/.metadata");
    fails(store, errc::not_found, {"there is no checkpoint"});
}

BOOST_AUTO_TEST_CASE(a_file_of_another_size_is_named_and_leaves_memory_as_it_was) {
    for (std::string const stem : {"__0_0", "__1_0"}) {
        cairn::memory_store store;
        save(store, 100);
        auto const file = support::data_file(store.at("c"), stem);
        auto const whole = contents(store, "c/" + file);
        for (auto const size :
             {std::size_t{0}, std::size_t{100}, whole.size() - 1, whole.size() + 1}) {
            auto other = whole;
            other.resize(size);
            store.publish("c/" + file, other, std::nullopt);
            // Of one that lost most of what it had, what is wanted of it is said.
            auto const wanted = 2 * size < whole.size()
                                    ? std::string("at least ")
                                    : std::to_string(whole.size()) + " bytes, as '";
            fails(store, errc::corrupt,
                  {file, wanted, ".metadata' says", "found " + std::to_string(size) + " bytes",
                   "put the right one back"});
        }
        store.publish("c/" + file, whole, std::nullopt);
    }
}

BOOST_AUTO_TEST_CASE(a_missing_or_cut_file_of_pytorchs_is_named) {
    std::filesystem::path const dir =
        std::filesystem::path(CAIRN_GOLDEN) / "torch-2.14.1/fsdp1_linear_2_ranks/checkpoint";
    for (bool cut : {false, true}) {
        for (std::string const file : {"__0_0.distcp", "__1_0.distcp"}) {
            cairn::memory_store store;
            for (auto const& e : std::filesystem::directory_iterator(dir)) {
                std::ifstream f(e.path(), std::ios::binary);
                std::string s{std::istreambuf_iterator<char>(f), {}};
                auto const name = e.path().filename().string();
                if (name == file && !cut) continue;
                if (name == file) s.resize(s.size() - 1);
                store.publish("c/" + name, std::as_bytes(std::span(s)), std::nullopt);
            }
            BOOST_CHECK_EXCEPTION(
                (void)cairn::load_tree("c", {}, store), cairn::error, [&](const cairn::error& e) {
                    auto const code = cut ? errc::corrupt : errc::missing_file;
                    return e.code() == cairn::make_error_code(code) && !e.state_modified() &&
                           std::string(e.what()).find(file) != std::string::npos;
                });
        }
    }
}

/// Only what is wanted is looked for.
BOOST_AUTO_TEST_CASE(files_that_nobody_wants_may_be_missing) {
    cairn::memory_store store;
    save(store, 100);
    store.remove(support::data_file(store, "c/__1_0"));
    std::vector<float> rows(8);
    cairn::sharded_view first{{8, 2}, cairn::dtype::float32, {}};
    first.shards.emplace_back(cairn::box({0, 0}, {4, 2}),
                              cairn::tensor_view(cairn::dtype::float32, {4, 2}, rows.data()));
    cairn::state_dict sd{{"w", first}};
    BOOST_CHECK_NO_THROW((void)cairn::load(sd, "c", store));
    BOOST_TEST((rows == part(0, 100).rows));
}

/// Whenever it happens, from the first look at the metadata to the last read.
BOOST_AUTO_TEST_CASE(files_of_a_checkpoint_that_is_replaced_are_looked_for_anew) {
    int at = 0, opened = 0, loaded_new = 0;
    do {
        cairn::memory_store memory;
        save(memory, 100);
        support::counting_store<cairn::memory_store> store(memory);
        std::atomic<int> opens{0};
        store.on_open([&](std::string_view) {
            if (opens++ == at) save(memory, 500);
        });
        std::vector<int> state(2, 0);
        cairn::run_ranks(2, [&](member& me) {
            part p(me.rank());
            auto sd = p.dict();
            (void)cairn::load(sd, "c", me, store);
            state[static_cast<std::size_t>(me.rank())] = p.is(100) ? 1 : p.is(500) ? 2 : 3;
        });
        BOOST_TEST_CONTEXT("replaced before object " << at << " was opened") {
            BOOST_TEST(state[0] == state[1]);
            BOOST_TEST(state[0] != 3);
        }
        loaded_new += state[0] == 2;
        opened = opens;
    } while (at++ < opened);
    BOOST_TEST(at > 5);
    BOOST_TEST(loaded_new > 4);
}

/// PyTorch's have no save id: another one has other metadata.
BOOST_AUTO_TEST_CASE(files_of_one_of_pytorchs_that_is_replaced_are_looked_for_anew) {
    auto const as_pytorch_saves = [](float v, const std::string& file) {
        cairn::memory_store memory;
        std::vector<float> w(8, v);
        (void)cairn::save(cairn::state_dict{{"w", w}}, "c", memory);
        support::crafted c(memory, "c");
        auto m = c.metadata();
        m.save_id.clear();
        m.file_sizes.clear();
        auto& chunks = std::get<cairn::tensor_metadata>(m.entries.find("w")->second).chunks;
        chunks.edit(0, [&](cairn::chunk& one) {
            c.files[file] = std::move(c.files.at(one.at.file));
            c.files.erase(std::exchange(one.at.file, file));
        });
        c.set_pickle(m);
        c.seal();
        return c;
    };
    auto const before = as_pytorch_saves(1, "before.distcp");
    auto const after = as_pytorch_saves(2, "after.distcp");
    int at = 0, opened = 0;
    do {
        auto memory = before.store("c");
        support::counting_store<cairn::memory_store> store(memory);
        std::atomic<int> opens{0};
        store.on_open([&](std::string_view name) {
            if (!name.ends_with("before.distcp") || opens++ != at) return;
            memory.remove("c/before.distcp");
            for (auto const& [n, b] : after.files) memory.publish("c/" + n, b, std::nullopt);
        });
        std::vector<float> w(8);
        (void)cairn::load(cairn::state_dict{{"w", w}}, "c", store);
        opened = opens;
        BOOST_TEST(w[7] == (at < opened ? 2.0f : 1.0f));
    } while (at++ < opened);
    BOOST_TEST(at > 2);  // as its version is noted, and as it is read
}

/// Somebody saves faster than this load plans: it gives up, and says why.
BOOST_AUTO_TEST_CASE(missing_files_are_looked_for_a_bounded_number_of_times) {
    cairn::memory_store memory;
    save(memory, 100);
    support::counting_store<cairn::memory_store> store(memory);
    std::atomic<int> saves{0};
    store.on_open([&](std::string_view name) {
        if (name.ends_with(".metadata")) return;
        save(memory, 500);
        ++saves;
    });
    part p(0);
    auto sd = p.dict(2);
    BOOST_CHECK_EXCEPTION(
        (void)cairn::load(sd, "c", store), cairn::error, [](const cairn::error& e) {
            return e.code() == cairn::make_error_code(errc::concurrent_save) && !e.state_modified();
        });
    BOOST_TEST(saves == 8);
    BOOST_TEST(p.is(0));
}

BOOST_AUTO_TEST_SUITE_END()
