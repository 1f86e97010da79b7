// SPDX-License-Identifier: Apache-2.0
// A process that is killed at any step of a save leaves the old checkpoint or the new one, and
// nothing that the next save in that place does not collect.
#include "support/dying_store.hpp"
#include "support/sanitized.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(kills)

namespace fs = std::filesystem;

namespace {

template <class Store>
void save_value(Store store, const std::string& id, float v, int ranks,
                const cairn::save_options& o = {}) {
    cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
        std::vector<float> w(8, v);
        cairn::state_dict sd{
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {8}, w.data()),
                                       {8 * ranks}, cairn::device_mesh::line(ranks),
                                       {cairn::shard_along{0}}, me.rank())},
            {"step", static_cast<int>(v)}};
        auto mine = store;
        cairn::save(sd, id, o, me, mine);
    });
}

/// The value of the checkpoint that stands there; 0 where none does.
float standing(const std::string& id) {
    if (!fs::exists(fs::path(id) / ".metadata")) return 0;
    auto const w = support::load_whole(cairn::file_store(), id);
    auto const v = support::only_number(w.tensors.at("w"));
    if (v == -1) return v;
    return w.objects.at("step").as<int>() == static_cast<int>(v) ? v : -2;
}

std::string names(const std::string& dir) {
    std::set<std::string> all;
    for (auto const& e : fs::recursive_directory_iterator(dir))
        if (!e.is_directory()) all.insert(fs::relative(e.path(), dir).string());
    std::string s;
    for (auto const& n : all) s += n + " ";
    return s;
}
std::size_t count(const std::string& dir) {
    std::size_t n = 0;
    for (auto const& e : fs::recursive_directory_iterator(dir)) n += !e.is_directory();
    return n;
}

/// Kills a save at each step in turn, in one place; sampled under sanitizers.
/// @param each_cleaned  A good save follows each kill; else one follows them all.
int kill_saves(support::failure_points& steps, int ranks, const cairn::save_options& o, bool old,
               bool each_cleaned) {
    support::scratch dir;
    auto const id = (dir.dir / "c").string();
    auto const files = static_cast<std::size_t>(ranks) + 1;
    auto const clean = [&](float v) {
        save_value(cairn::file_store(), id, v, ranks, o);
        BOOST_TEST(standing(id) == v);
        BOOST_TEST(count(id) == files, "left: " << names(id));
    };
    if (old) save_value(cairn::file_store(), id, 1, ranks, o);
    float before = old ? 1.0f : 0.0f;
    int killed = 0;
    for (int at = steps.first();; at += steps.stride(), ++killed) {
        BOOST_TEST_CONTEXT("killed at step " << at << " of a save by " << ranks << " ranks") {
            auto const v = static_cast<float>(2 * at + 2);
            auto const how = support::in_process([&] {
                save_value(support::dying_store<cairn::file_store>(cairn::file_store(), at), id, v,
                           ranks, o);
            });
            BOOST_REQUIRE((how != support::ended::badly));
            auto const now = standing(id);
            if (how == support::ended::well) {
                BOOST_TEST(now == v);
                clean(v + 1);
                return killed;
            }
            BOOST_TEST((now == before || now == v), "what stands is " << now);
            before = now;
            if (!each_cleaned) continue;
            clean(v + 1);
            before = v + 1;
            if (!old) {  // a fresh place for each
                fs::remove_all(id);
                before = 0;
            }
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_next_save_collects_what_a_killed_one_has_left) {
    support::failure_points steps(3);
    int killed = 0;
    for (int ranks : {1, 3})
        for (bool old : {true, false})
            for (bool each_cleaned : {true, false})
                killed += kill_saves(steps, ranks, {}, old, each_cleaned);
    std::cout << "kills: " << killed << " processes killed\n";
    BOOST_TEST(killed > 100 / steps.stride());
}

BOOST_AUTO_TEST_CASE(the_next_save_collects_what_is_left_under_names_of_the_users_own) {
    cairn::save_options o;
    o.storage.file_name = [](int rank, int n) {
        return "shards/part-" + std::to_string(rank) + "-" + std::to_string(n) + ".bin";
    };
    support::failure_points steps(3);
    int killed = 0;
    for (bool old : {true, false})
        for (bool each_cleaned : {true, false})
            killed += kill_saves(steps, 2, o, old, each_cleaned);
    BOOST_TEST(killed > 30 / steps.stride());
}

BOOST_AUTO_TEST_SUITE_END()
