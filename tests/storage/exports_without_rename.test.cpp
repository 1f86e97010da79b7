// SPDX-License-Identifier: Apache-2.0
// Exports into stores that cannot rename, as buckets cannot.
#include "flat_exports.hpp"
#include "support/fault_store.hpp"
#include "support/forwarding_store.hpp"
#include "support/meddling_store.hpp"
#include "support/sanitized.hpp"
#include "support/saved_by_ranks.hpp"

#include <cairn/convert.hpp>
#include <cairn/detail/identity.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/save_intent.hpp>
#include <cairn/storage/torch_save_writer.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(exports_without_rename)

using namespace flat_exports;

namespace {
constexpr int stride = support::stride_if_sanitized(17);

/// Another process adopts the intent of an export while its index is on the way. Then nobody can
/// read an index.
class adopting_store : public support::forwarding_store<cairn::memory_store> {
public:
    explicit adopting_store(cairn::memory_store root)
        : forwarding_store(root), root_(std::move(root)) {}
    adopting_store at(const std::string& id) const {
        adopting_store s(*this);
        s.store_ = store_.at(id);
        return s;
    }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    auto open(std::string_view n) {
        if (n == index_file && *adopted_)
            throw cairn::error(cairn::errc::io, {.file = store_.describe(n)});
        return store_.open(n);
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m,
                 const std::function<void()>& look = {}) {
        if (n == index_file) {
            auto intents = root_.at(".m.saving");
            for (auto const& [name, content] : contents_of(intents))
                if (cairn::detail::is_intent_name(name))
                    intents.publish(name, content, std::nullopt);
            *adopted_ = true;
        }
        if (look) look();
        store_.publish(n, b, std::move(m));
    }

private:
    cairn::memory_store root_;
    std::shared_ptr<bool> adopted_ = std::make_shared<bool>(false);
};
}  // namespace

BOOST_AUTO_TEST_CASE(one_file_has_its_usual_name_and_no_index) {
    for (auto const how : {held::rows, held::columns, held::whole}) {
        for (int const ranks : {1, 3}) {
            cairn::memory_store base, other;
            auto const r = save_on(store(base), many_kinds(how), ranks, "m");
            save_on(other, many_kinds(how), ranks, "m");  // by renaming
            BOOST_TEST((contents_of(base.at("m")) == contents_of(other.at("m"))));
            BOOST_TEST(names_of(base.at("m")) == std::set<std::string>{"model.safetensors"});
            check_clean(base, "m");
            save_on(store(base), many_kinds(how), ranks, "x.safetensors");
            BOOST_TEST((cairn::read_whole(base, "x.safetensors") ==
                        contents_of(base.at("m")).at("model.safetensors")));
            BOOST_TEST(base.at(".x.safetensors.saving").list().empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(several_files_and_what_replaces_others_have_names_of_their_own) {
    for (int const ranks : {1, 3}) {
        cairn::memory_store base;
        std::set<std::string> seen;
        auto const fresh_names = [&](std::size_t n) {
            auto const now = weights_of(base.at("m"));
            BOOST_TEST(now.size() == n);
            for (auto const& name : now) {
                BOOST_TEST(name.starts_with(n == 1 ? "model." : "model-0"), name);
                BOOST_TEST(name.ends_with(".safetensors"), name);
                BOOST_TEST(seen.insert(name).second, name);
            }
        };
        unsigned seed = 0;
        auto const save = [&](const cairn::safetensors_writer_options& o) {
            cairn::memory_store other;
            auto const r = save_on(store(base), two_parts, ranks, "m", o, ++seed);
            save_on(other, two_parts, ranks, "m", o, seed);
            BOOST_TEST((elements_of(base, "m") == elements_of(other, "m")));
        };
        save(two_files());
        fresh_names(2);
        check_clean(base, "m");
        save(two_files());
        fresh_names(2);
        check_clean(base, "m");
        save({});  // one file: the index must name it
        fresh_names(1);
        BOOST_TEST(names_of(base.at("m")).count(index_file) == 1u);
        check_clean(base, "m");
    }
    cairn::memory_store base;  // a single file is replaced by one with an index
    save_on(store(base), two_parts, 2, "m", {}, 1);
    save_on(store(base), two_parts, 2, "m", {}, 2);
    BOOST_TEST(names_of(base.at("m")).count("model.safetensors") == 0u);
    check_clean(base, "m");
}

BOOST_AUTO_TEST_CASE(other_files_stay_and_what_is_no_export_is_refused) {
    cairn::memory_store base;
    auto const put = [&](const std::string& place, const std::string& name) {
        auto at = place.empty() ? base : base.at(place);
        at.publish(name, std::as_bytes(std::span("old", 3)), std::nullopt);
    };
    auto const why = [&](const std::string& id, cairn::safetensors_writer_options o = {}) {
        return failure_of([&] { save_on(store(base), two_parts, 1, id, o); });
    };
    put("m", "config.json");
    put("m", "adapter_model.safetensors");
    auto o = two_files();
    o.add_files = [](auto const& add) { add("config.json", std::as_bytes(std::span("new!", 4))); };
    BOOST_TEST(why("m", o) == "no failure");
    BOOST_TEST(contents_of(base.at("m")).at("config.json").size() == 4u);
    BOOST_TEST(contents_of(base.at("m")).at("adapter_model.safetensors").size() == 3u);
    o.add_files = [](const cairn::file_adder& add) {
        auto const most = cairn::file_adder::most_in_memory;
        add("a", std::as_bytes(std::span("x", 1)));
        add("b", most, [](std::uint64_t, std::span<std::byte>) {});
    };
    BOOST_TEST(says(why("m", o), "stay in memory"));
    BOOST_TEST(contents_of(base.at("m")).count("a") == 0u);
    o = {};
    o.overwrite = false;
    BOOST_TEST(says(why("m", o), "overwrite is off"));
    BOOST_TEST(why("fresh", o) == "no failure");
    put("dcp", ".metadata");
    BOOST_TEST(says(why("dcp"), "'.metadata'"));
    put("", "file");
    BOOST_TEST(says(why("file"), "a file"));
    BOOST_TEST(why("x.safetensors") == "no failure");
    BOOST_TEST(says(why("x.safetensors"), "remove it first"));
    put("d.safetensors", "something");
    BOOST_TEST(says(why("d.safetensors"), "a directory"));
}

BOOST_AUTO_TEST_CASE(files_of_torch_save_are_written_too) {
    for (int const ranks : {1, 3}) {
        cairn::memory_store base, other;
        auto const save = [&](auto to) {
            cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
                state_part const mine(two_parts, me.rank(), ranks, 3);
                auto dict = mine.dict();
                dict["step"] = 7;
                if (me.rank() == ranks - 1) dict["last"] = std::string("rank");
                (void)cairn::save(dict, "a/x.pt", me, cairn::torch_save_writer(to));
            });
        };
        save(store(base));
        save(other);
        BOOST_TEST((cairn::read_whole(base, "a/x.pt") == cairn::read_whole(other, "a/x.pt")));
        BOOST_TEST(base.at("a/.x.pt.saving").list().empty());
        BOOST_TEST(says(failure_of([&] { save(store(base)); }), "remove it first"));
    }
}

BOOST_AUTO_TEST_CASE(checkpoints_are_converted_to_and_fro) {
    cairn::memory_store base;
    save_on(store(base), many_kinds(held::rows), 2, "m");
    auto const before = elements_of(base, "m");
    store flat(base);
    cairn::convert({store(flat), "m"}, "dcp", store(flat));
    cairn::safetensors_writer_options o;
    o.max_file_size = 50'000;
    cairn::convert({store(flat), "dcp"}, "again", cairn::safetensors_writer(store(flat), o));
    BOOST_TEST((elements_of(base, "again") == before));
    check_clean(base, "again");
}

BOOST_AUTO_TEST_CASE(of_two_exports_to_one_name_the_later_commit_fails) {
    cairn::memory_store base;
    for (bool const replaces : {false, true}) {
        auto o = two_files();
        std::set<std::string> winners;
        o.add_files = [&](auto const&) {
            save_on(store(base), two_parts, 1, "m", two_files(), 7);
            winners = weights_of(base.at("m"));
        };
        auto const why = failure_of([&] { save_on(store(base), two_parts, 1, "m", o, 8); });
        BOOST_TEST(why != "no failure");
        BOOST_TEST(weights_of(base.at("m")) == winners, boost::test_tools::per_element());
        check_clean(base, "m");
        (void)replaces;  // the second time there is an older one
    }
}

BOOST_AUTO_TEST_CASE(an_export_that_is_adopted_while_its_index_is_written_cannot_commit) {
    cairn::memory_store base;
    adopting_store const flat(base);
    auto const why = failure_of([&] { save_on(flat, two_parts, 1, "m", two_files()); });
    BOOST_TEST(says(why, "presumed this one dead"));
    BOOST_TEST(names_of(base.at("m")).empty());
}

/// Each operation of each rank fails in turn: the old export stands or the new one, and the next
/// export leaves nothing else.
BOOST_AUTO_TEST_CASE(a_failure_leaves_the_old_export_or_the_new_one) {
    using support::fault;
    support::failure_points operations(stride);
    cairn::memory_store a, b;
    save_on(a, two_parts, 1, "m", two_files(), 1);
    save_on(b, two_parts, 1, "m", two_files(), 2);
    auto const before = elements_of(a, "m"), saved = elements_of(b, "m");
    BOOST_TEST((before != saved));
    int tried = 0;
    auto const once = [&](int faulty, bool has_old, bool many, const fault& f) {
        auto const o = many ? two_files() : cairn::safetensors_writer_options();
        cairn::memory_store base;
        if (has_old) save_on(store(base), two_parts, 2, "m", two_files(), 1);
        support::fault_store<store> const bad(store(base), f), good(store(base), fault{});
        auto const all = support::on_ranks_that_stay(2, [&](auto& me, int rank) {
            state_part const mine(two_parts, rank, 2, 2);
            (void)cairn::save(mine.dict(), "m", support::patient_save(), me,
                              cairn::safetensors_writer(rank == faulty ? bad : good, o));
        });
        if (bad.hit().empty()) return false;
        BOOST_TEST_CONTEXT("rank " << faulty << ", " << has_old << many << ", "
                                   << support::words(f, bad.hit()) << support::words(all)) {
            bool const stands = names_of(base.at("m")).count(index_file) != 0 ||
                                names_of(base.at("m")).count("model.safetensors") != 0;
            auto const now =
                stands ? elements_of(base, "m") : std::map<std::string, cairn::byte_vector>();
            auto const old = has_old ? before : std::map<std::string, cairn::byte_vector>();
            BOOST_TEST((now == saved || now == old));
            for (auto const& t : all) {
                BOOST_TEST(!t.raw);
                BOOST_TEST(!t.is(cairn::errc::timed_out));
                if (t.ok()) BOOST_TEST((now == saved));
                if (t.e && !t.is(cairn::errc::outcome_unknown)) BOOST_TEST((now == old));
            }
            save_on(store(base), two_parts, 2, "m", two_files(), 3);
            check_clean(base, "m");
        }
        return true;
    };
    for (int const faulty : {0, 1})
        for (bool const has_old : {false, true})
            for (bool const many : {false, true})
                for (bool const afterwards : {false, true})
                    for (int at = operations.first(); once(
                             faulty, has_old, many, {at, support::thrown::cairn_error, afterwards});
                         at += operations.stride())
                        ++tried;
    BOOST_TEST(tried * operations.stride() > 100);
}

BOOST_AUTO_TEST_CASE(an_index_of_others_removes_only_weights) {
    cairn::memory_store base;
    auto place = base.at("m");
    auto const put = [&](const std::string& name, std::string_view text) {
        place.publish(name, std::as_bytes(std::span(text)), std::nullopt);
    };
    put(index_file, R"({"weight_map": {"a": "model.safetensors.index.json", "b": "config.json",
                        "c": "step_100/.metadata", "d": "model-00001-of-00002.safetensors"}})");
    put("config.json", "old");
    put("step_100/.metadata", "a checkpoint");
    put("model-00001-of-00002.safetensors", "old");
    save_on(store(base), two_parts, 1, "m", two_files(), 2);
    auto const names = names_of(place);
    BOOST_TEST(names.count(index_file) == 1u);
    BOOST_TEST(names.count("config.json") == 1u);
    BOOST_TEST(names.count("model-00001-of-00002.safetensors") == 0u);
    BOOST_TEST(names.size() == 4u);
    BOOST_TEST(names_of(base.at("m/step_100")).size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
