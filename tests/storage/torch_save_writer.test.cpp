// SPDX-License-Identifier: Apache-2.0
// What a save as a file of torch.save writes, from any number of ranks.
#include "support/error_codes.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/storage/torch_save_writer.hpp>
#include <cairn/testing/storage.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace torch_save_exports {

namespace fs = std::filesystem;

enum class held { rows, columns, whole };

/// One rank's part of a state: tensors, a tied one, values, and values that it alone has.
struct rank_state {
    rank_state(held how, int rank, int ranks) {
        cairn::state_dict model;
        for (auto const& [name, shape] : std::vector<std::pair<std::string, cairn::index_vector>>{
                 {"layers.0.weight", {40, 5000}},
                 {"layers.1.weight", {7, 5}},
                 {"bias", {9}},
                 {"scalar", {}},
                 {"empty", {0, 3}}}) {
            auto& w = memory.emplace_back(static_cast<std::size_t>(shape.product()));
            std::iota(w.begin(), w.end(), static_cast<float>(name.size()));
            cairn::tensor_view const all(cairn::dtype::float32, shape, w.data());
            std::size_t const d = how == held::columns && shape.size() > 1 ? 1 : 0;
            if (how == held::whole || shape.empty()) {
                model[name] = all;
            } else {
                auto const b = cairn::boxes_of(shape, cairn::device_mesh::line(ranks),
                                               {cairn::shard_along{static_cast<int>(d)}}, rank)
                                   .at(0);
                cairn::sharded_view v{shape, cairn::dtype::float32, {}};
                if (!b.empty()) v.shards.push_back(cairn::shard(b, cairn::subview(all, b)));
                model[name] = v;
            }
        }
        model["tied"] = model.at("layers.0.weight");
        model["step"] = std::ref(step);
        dict["model"] = model;
        dict["rng." + std::to_string(rank)] = std::ref(rank_number = rank);
    }
    std::list<std::vector<float>> memory;
    std::int64_t step = 7;
    std::int64_t rank_number = 0;
    cairn::state_dict dict;
};

void save(held how, int ranks, const std::string& id, auto... writer) {
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        rank_state const mine(how, me.rank(), ranks);
        (void)cairn::save(mine.dict, id, me, writer()...);
    });
}

/// Notes the files that lie aside when a save begins to commit, with their sizes.
struct seen_aside {
    fs::path place;
    std::map<std::string, std::uintmax_t>* sizes;  ///< Null: another rank's.

    void notify(const cairn::verb_event& e) {
        bool const now = e.what == cairn::verb_event::kind::phase_begin && e.phase == "commit";
        if (sizes == nullptr || !now) return;
        for (auto const& f : fs::recursive_directory_iterator(place))
            if (auto const name = f.path().filename().string(); name.starts_with("side."))
                (*sizes)[name] = fs::file_size(f.path());
    }
};

}  // namespace torch_save_exports

BOOST_AUTO_TEST_SUITE(torch_save_writing)

using namespace torch_save_exports;

BOOST_AUTO_TEST_CASE(a_file_has_what_any_number_of_ranks_hold) {
    support::scratch s;
    for (auto const how : {held::rows, held::columns, held::whole}) {
        for (int const ranks : {1, 3}) {
            BOOST_TEST_CONTEXT(static_cast<int>(how) << " on " << ranks << " ranks") {
                auto const dcp = (s.dir / "dcp").string(), file = (s.dir / "model.pt").string();
                save(how, ranks, dcp);
                save(how, ranks, file, [] { return cairn::torch_save_writer(); });
                auto const wanted = support::load_whole(cairn::file_store(), dcp);
                auto const found = support::load_whole(cairn::file_store(), file);
                BOOST_TEST(bool(found == wanted));
                // A tied weight has one storage.
                BOOST_TEST(fs::file_size(file) < 1'000'000u);
                for (auto const& e : fs::directory_iterator(s.dir))
                    BOOST_TEST((e.path().filename() == "dcp" || e.path().filename() == "model.pt"),
                               e.path());
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(weights_alone_are_written_once_in_whole_pages) {
    support::scratch s;
    std::int64_t const rows = 4, columns = 100'000;
    std::map<std::string, std::uintmax_t> aside;
    std::int64_t step = 7;
    auto const save_rows = [&](const std::string& name, bool with_values) {
        aside.clear();
        cairn::run_ranks(static_cast<int>(rows), [&](cairn::thread_group::member& me) {
            std::vector<std::uint8_t> mine(static_cast<std::size_t>(columns));
            std::iota(mine.begin(), mine.end(), static_cast<std::uint8_t>(me.rank()));
            cairn::box const row{{me.rank(), 0}, {1, columns}};
            cairn::sharded_view w{{rows, columns}, cairn::dtype::uint8, {}};
            w.shards.push_back(cairn::shard(
                row, cairn::tensor_view(cairn::dtype::uint8, {1, columns}, mine.data())));
            cairn::state_dict all{{"w", w}};
            if (with_values) all["step"] = std::ref(step);
            (void)cairn::save(all, (s.dir / name).string(), me, cairn::torch_save_writer(),
                              seen_aside{s.dir, me.rank() == 0 ? &aside : nullptr});
        });
        std::vector<std::uint8_t> w(static_cast<std::size_t>(rows * columns));
        (void)cairn::load(cairn::state_dict{{"w", cairn::tensor_view(cairn::dtype::uint8,
                                                                     {rows, columns}, w.data())}},
                          (s.dir / name).string());
        for (std::size_t i = 0; i < w.size(); ++i)
            if (w[i] != static_cast<std::uint8_t>(i / 100'000 + i % 100'000))
                BOOST_FAIL("element " << i);
    };
    save_rows("weights.pt", false);
    BOOST_TEST_REQUIRE(aside.size() == 4u);
    for (auto const* name : {"side.1", "side.2", "side.3"})
        BOOST_TEST(aside[name] <= 2u * 4095 + 12);
    // The values' length decides where the elements begin.
    save_rows("all.pt", true);
    for (auto const* name : {"side.1", "side.2", "side.3"}) BOOST_TEST(aside[name] > 100'000u);
}

BOOST_AUTO_TEST_CASE(nothing_is_replaced_that_must_stay) {
    support::scratch s;
    auto const file = (s.dir / "model.pt").string();
    save(held::whole, 1, file, [] { return cairn::torch_save_writer(); });
    auto const size = fs::file_size(file);
    BOOST_CHECK_EXCEPTION(
        save(held::whole, 1, file, [] { return cairn::torch_save_writer({.overwrite = false}); }),
        cairn::error, support::is(cairn::errc::already_exists));
    fs::create_directory(s.dir / "folder.pt");
    BOOST_CHECK_EXCEPTION(save(held::whole, 1, (s.dir / "folder.pt").string(),
                               [] { return cairn::torch_save_writer(); }),
                          cairn::error, support::is(cairn::errc::already_exists));
    BOOST_TEST(fs::file_size(file) == size);
}

BOOST_AUTO_TEST_SUITE_END()
