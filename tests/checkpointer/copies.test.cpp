// SPDX-License-Identifier: Apache-2.0
// A checkpoint that one of two places cannot give is loaded from the other one.
#include "support/data_files.hpp"
#include "tiered_run.hpp"

#include <cairn/error.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

BOOST_AUTO_TEST_SUITE(checkpointer_copies)

using namespace checkpointed_ranks;

namespace {

/// Its disk has bad sectors where data of one checkpoint are.
class worn_store : public controlled_store {
public:
    worn_store(controlled_store s, std::string worn, std::string in = {})
        : controlled_store(std::move(s)), worn_(std::move(worn)), in_(std::move(in)) {}
    worn_store at(const std::string& id) const { return {controlled_store::at(id), worn_, id}; }
    struct reader {
        decltype(std::declval<controlled_store&>().open("")) of;
        bool is_worn;
        std::uint64_t size() const { return of.size(); }
        void read(std::uint64_t at, std::span<std::byte> into) {
            if (is_worn) throw cairn::error(cairn::errc::io, {.found = "bad sectors"});
            of.read(at, into);
        }
    };
    reader open(std::string_view n) {
        if (worn_ == "all") throw cairn::error(cairn::errc::io, {.found = "bad sectors"});
        return {store_.open(n), in_ == worn_ && n.starts_with("__0_0")};
    }

private:
    std::string worn_, in_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_copy_serves_where_the_first_place_cannot_give_what_it_has) {
    for (int const n : {1, 2}) {
        tiered_run r(n);
        save_three(r);
        auto const looks = [&](const char* worn) {
            r.on_ranks([&](rank& me) {
                auto with = r.options(me);
                auto disk = worn_store(me.store, worn);
                cairn::checkpointer ckpt(me.member, disk, with);
                me.train(0);
                BOOST_TEST(ckpt.load_latest(me, quietly())->id == "step_3");
                BOOST_TEST(me.row[0] == 3.0f);
                BOOST_TEST(ckpt.latest(quietly()).value() == "step_3");
                me.train(0);
                auto const report = ckpt.load("step_2", me);
                BOOST_TEST(me.row[0] == 2.0f);
                BOOST_TEST(report.warnings.size() == (std::string(worn) == "step_2" ? 1u : 0u));
                // Without a copy it may be whole: no older one is loaded instead.
                with.upload.reset();
                cairn::checkpointer alone(me.member, disk, with);
                if (std::string(worn) == "step_3")
                    BOOST_CHECK_THROW((void)alone.load_latest(me, quietly()), cairn::error);
            });
        };
        looks("step_3");
        looks("step_2");

        // A copy that is damaged is no reason to go back either.
        auto copy = r.far.at("step_3");
        for (auto const& info : copy.list())
            if (support::is_data_file("step_3/" + info.name, "step_3/__0_0"))
                copy.remove(info.name);
        r.on_ranks([&](rank& me) {
            cairn::checkpointer ckpt(me.member, worn_store(me.store, "step_3"), r.options(me));
            auto const says_so = [](const cairn::error& e) {
                return has(e.what(), "bad sectors") && e.state_modified();
            };
            BOOST_CHECK_EXCEPTION((void)ckpt.load_latest(me, quietly()), cairn::error, says_so);
            BOOST_CHECK_EXCEPTION((void)ckpt.load("step_3", me), cairn::error,
                                  [](const cairn::error& e) { return e.state_modified(); });
        });

        // By name, also one that is damaged.
        auto place = r.base.at("step_2");
        for (auto const& info : place.list())
            if (support::is_data_file("step_2/" + info.name, "step_2/__0_0"))
                place.remove(info.name);
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer(r.options(me));
            me.train(0);
            (void)ckpt.load("step_2", me);
            BOOST_TEST(me.row[0] == 2.0f);
        });

        // Not of another commit, which has the name of this one.
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer(r.options(me, 100));
            for (int const step : {1, 2}) {  // the first one is uploaded
                me.train(step + 10);
                BOOST_TEST(ckpt.maybe_save(step, me).saved);
                (void)ckpt.wait();
            }
            me.meet();
            if (me.number == 0)
                for (auto const& info : place.list())
                    if (support::is_data_file("step_2/" + info.name, "step_2/__0_0"))
                        place.remove(info.name);
            me.meet();
            BOOST_CHECK_THROW((void)ckpt.load("step_2", me), cairn::error);
            BOOST_TEST(me.row[0] == 12.0f);
        });
    }
}

/// By name: whether the disk has it cannot be found out.
BOOST_AUTO_TEST_CASE(a_copy_serves_where_the_first_place_cannot_be_read_at_all) {
    for (int const n : {1, 2}) {
        tiered_run r(n);
        save_three(r);
        r.on_ranks([&](rank& me) {
            auto with = r.options(me);
            cairn::checkpointer ckpt(me.member, worn_store(me.store, "all"), with);
            me.train(0);
            auto const report = ckpt.load("step_2", me);
            BOOST_TEST(me.row[0] == 2.0f);
            BOOST_REQUIRE(report.warnings.size() == 1u);
            BOOST_TEST(has(report.warnings[0], "bad sectors"));
            BOOST_CHECK_EXCEPTION((void)ckpt.load("step_4", me), cairn::error,
                                  [](const cairn::error& e) { return has(e.what(), "bad"); });
        });
    }
}

BOOST_AUTO_TEST_SUITE_END()
