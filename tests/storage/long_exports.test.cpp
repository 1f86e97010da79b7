// SPDX-License-Identifier: Apache-2.0
// Exports and saves that take longer than a process may be silent, by clocks of the test's own.
#include "safetensors_exports.hpp"
#include "support/error_codes.hpp"
#include "support/forwarding_store.hpp"
#include "support/shifted_clock.hpp"

#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/leftovers.hpp>
#include <cairn/storage/detail/save_intent.hpp>
#include <cairn/storage/detail/signs_of_life.hpp>
#include <cairn/storage/detail/storage_clock.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(long_exports)

using namespace safetensors_exports;
using namespace std::chrono_literals;

namespace {

/// The clock of a storage, and when its objects were made.
struct times {
    std::int64_t now = 1;
    std::map<std::string, std::int64_t> made{};
};

/// Memory that cannot rename, where each write takes hours. Another process sees it with other
/// eyes: what was there before is not its own.
class slow_store : public support::forwarding_store<cairn::memory_store> {
public:
    struct shared {
        std::mutex m{};  ///< Protects the following two.
        times t{};
        support::shifted_clock clock{};
        std::chrono::hours each{0};
        std::function<void()> on_write{};
        std::function<void(const std::string&)> on_open{}, on_publish{};
    };
    slow_store(cairn::memory_store s, std::shared_ptr<shared> with)
        : forwarding_store(std::move(s)), with_(std::move(with)) {}
    slow_store at(const std::string& id) const {
        auto s = *this;
        s.store_ = store_.at(id);
        return s;
    }
    slow_store seen_by_another() const {
        auto s = *this;
        s.others_.emplace();
        for (auto const& one : with_->t.made) s.others_->insert(one.first);
        return s;
    }

    struct writer {
        cairn::memory_store::writer to;
        std::shared_ptr<shared> with;
        void write(std::uint64_t at, cairn::byte_span b) {
            {
                std::lock_guard const lock(with->m);
                with->clock.shift(with->each);
                with->t.now += std::chrono::nanoseconds(with->each).count();
            }
            if (with->on_write) with->on_write();
            to.write(at, b);
        }
        void finish(bool durable) { to.finish(durable); }
    };
    writer create(std::string_view n, std::uint64_t size) {
        note(n);
        return {store_.create(n, size), with_};
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        if (with_->on_publish) with_->on_publish(path(n));
        store_.publish(n, b, std::move(m));
        note(n);
    }
    auto open(std::string_view n) {
        if (with_->on_open) with_->on_open(path(n));
        if (!others_ || others_->count(path(n)) == 0 || !cairn::detail::is_intent_name(n))
            return store_.open(n);
        auto intent = cairn::detail::save_intent::decode(cairn::read_whole(store_, n));
        intent.owner.process.boot = "another machine";
        intent.owner.process.run = "another run";
        cairn::memory_store changed;
        changed.publish(n, intent.encode(), std::nullopt);
        return changed.open(n);
    }
    std::vector<cairn::object_info> list() {
        auto all = store_.list();
        std::lock_guard const lock(with_->m);
        for (auto& o : all) o.modified = with_->t.made.at(path(o.name));
        return all;
    }

private:
    std::string path(std::string_view n) { return store_.describe(n); }
    void note(std::string_view n) {
        std::lock_guard const lock(with_->m);
        with_->t.made[path(n)] = with_->t.now;
    }

    std::shared_ptr<shared> with_;
    std::optional<std::set<std::string>> others_{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_sign_is_due_once_in_an_hour) {
    using signs = cairn::detail::signs_of_life;
    signs::clock::time_point const begin(100h);
    signs s(begin);
    BOOST_TEST(!s.is_due(begin));
    BOOST_TEST(!s.is_due(begin + 59min));
    BOOST_TEST(s.is_due(begin + 60min));
    BOOST_TEST(!s.is_due(begin + 60min));
    BOOST_TEST(!s.is_due(begin + 119min));
    BOOST_TEST(s.is_due(begin + 48h));
    BOOST_TEST(!s.is_due(begin + 48h + 59min));
}

/// Another export to the same name, which would remove what an ended one has left, comes when the
/// first has run for two days.
BOOST_AUTO_TEST_CASE(an_export_that_takes_days_is_not_presumed_dead) {
    std::vector<part_of_state> parts;
    for (int i = 0; i < 6; ++i)
        parts.push_back({"t" + std::to_string(i), dtype::float32, {10, 10}});
    auto const with = std::make_shared<slow_store::shared>();
    slow_store const base(cairn::memory_store(), with);
    with->each = 13h;
    int writes = 0;
    std::string looked;
    with->on_write = [&] {
        if (++writes != 5) return;
        cairn::safetensors_writer_options o;
        o.add_files = [](auto const&) { throw std::runtime_error("it only looks"); };
        auto const each = std::exchange(with->each, 0h);
        looked = failure_of([&] { save_on(base.seen_by_another(), parts, 1, "m", o, 1); });
        with->each = each;
    };
    cairn::safetensors_writer_options o;
    o.thread_count = 1;
    o.max_file_size = 1000;
    BOOST_TEST(failure_of([&] { save_on(base, parts, 1, "m", o, 2); }) == "no failure");
    BOOST_TEST(looked.find("it only looks") != looked.npos, looked);
    BOOST_TEST(slow_store(base).at(".m.saving").list().empty());
}

/// While its files are put together, before the step that makes it exist.
BOOST_AUTO_TEST_CASE(a_sign_that_stays_unknown_leaves_no_doubt_about_an_export) {
    auto const with = std::make_shared<slow_store::shared>();
    slow_store const base(cairn::memory_store(), with);
    with->each = 13h;
    std::atomic<bool> together{false}, shown{false};
    with->on_open = [&](const std::string& path) {
        if (path.find("/side.") != path.npos) together = true;
    };
    with->on_publish = [&](const std::string& path) {
        if (!together || path.find("/alive.") == path.npos) return;
        shown = true;
        throw cairn::error(cairn::errc::outcome_unknown, {.file = path});
    };
    cairn::save_options patient;
    patient.exchange_timeout = 10000h;
    auto const save = [&](cairn::thread_group::member& me) {
        state_part const mine({{"t", dtype::float32, {10, 10}}}, me.rank(), 2);
        (void)cairn::save(mine.dict(), "m", patient, me, cairn::safetensors_writer(base));
    };
    BOOST_CHECK_EXCEPTION(cairn::run_ranks(2, save), cairn::error, support::is(cairn::errc::io));
    BOOST_TEST(shown);
    BOOST_TEST(slow_store(base).at("m").list().empty());
    BOOST_TEST(slow_store(base).at(".m.saving").list().empty());
}

/// Another process, which would remove what an ended save has left, comes when one file has been
/// written for two days.
BOOST_AUTO_TEST_CASE(a_save_of_one_file_that_takes_days_is_not_presumed_dead) {
    auto const with = std::make_shared<slow_store::shared>();
    slow_store const base(cairn::memory_store(), with);
    with->each = 13h;
    int writes = 0;
    std::vector<std::string> warnings;
    with->on_write = [&] {
        if (++writes != 5) return;
        cairn::any_store place(base.seen_by_another().at("s"));
        cairn::detail::storage_clock const now(place);
        cairn::detail::leftovers rest(place, {}, nullptr);
        rest.collect(now.name(), {});
        warnings = rest.take_warnings();
    };
    std::vector<std::vector<float>> parts(6, std::vector<float>(std::size_t{1} << 15, 1));
    cairn::state_dict state;
    for (std::size_t i = 0; i < parts.size(); ++i) state["t" + std::to_string(i)] = parts[i];
    cairn::torch_writer_options o;
    o.thread_count = 1;
    cairn::save(state, "s", cairn::torch_writer(cairn::any_store(base), o));
    BOOST_TEST(writes > 5);
    BOOST_TEST(warnings.empty());
    std::set<std::string> names;
    for (auto const& info : slow_store(base).at("s").list()) names.insert(info.name);
    BOOST_TEST(names.size() == 2u);  // .metadata, and one file
    BOOST_TEST(names.count(".metadata") == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
