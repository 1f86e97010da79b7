// SPDX-License-Identifier: Apache-2.0
// What stood there before survives every failure; what is not ours is never touched.
#include "support/data_files.hpp"
#include "support/fault_store.hpp"
#include "support/forwarding_store.hpp"
#include "support/meddling_group.hpp"
#include "support/meddling_store.hpp"
#include "support/whole.hpp"

#include <cairn/async_save.hpp>
#include <cairn/storage/detail/claim.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(commit)

namespace {

/// Two ranks save a tensor of one value; rank `faulty` does so over a failing store.
void save_value(cairn::memory_store base, float v, int faulty = -1, int fail_at = -1,
                int* calls = nullptr) {
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        std::vector<float> rows(4, v);
        cairn::state_dict sd{
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {2, 2}, rows.data()),
                                       {4, 2}, cairn::device_mesh::line(2), {cairn::shard_along{0}},
                                       me.rank())},
            {"step", static_cast<int>(v)}};
        support::fault_store<cairn::memory_store> store(base, me.rank() == faulty ? fail_at : -1);
        try {
            cairn::save(sd, "c", me, store);
        } catch (...) {
            if (calls != nullptr && me.rank() == faulty) *calls = store.calls();
            throw;
        }
        if (calls != nullptr && me.rank() == faulty) *calls = store.calls();
    });
}

float loaded(cairn::memory_store base) {
    auto const w = support::load_whole(base, "c");
    float f = 0;
    std::memcpy(&f, w.tensors.at("w").bytes.data(), sizeof f);
    BOOST_TEST(w.objects.at("step").as<int>() == static_cast<int>(f));
    return f;
}

std::set<std::string> names(const cairn::memory_store& base) {
    auto place = base.at("c");
    std::set<std::string> out;
    for (auto const& i : place.list()) out.insert(i.name);
    return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_overwrite_replaces_files_and_leaves_strangers) {
    cairn::memory_store store;
    store.publish("c/notes.txt", {}, std::nullopt);
    save_value(store, 1);
    auto const first = support::data_file(store, "c/__0_0");
    BOOST_TEST(!support::data_file(store, "c/__1_0").empty());
    BOOST_TEST(names(store).size() == 4u);
    save_value(store, 2);
    BOOST_TEST(loaded(store) == 2.0f);
    auto const after = names(store);
    BOOST_TEST(after.size() == 4u);
    BOOST_TEST(after.count("notes.txt") == 1u);
    BOOST_TEST(first != support::data_file(store, "c/__0_0"));
    save_value(store, 3);
    BOOST_TEST(loaded(store) == 3.0f);
    BOOST_TEST(names(store).size() == 4u);
}

BOOST_AUTO_TEST_CASE(each_operation_failed_in_turn_on_each_rank_harms_nothing) {
    int tried = 0;
    for (int rank : {0, 1}) {
        int total = 0;
        {
            cairn::memory_store store;
            save_value(store, 1);
            save_value(store, 2, rank, -1, &total);
        }
        BOOST_REQUIRE(total > 2);
        for (int k = 0; k < total; ++k) {
            BOOST_TEST_CONTEXT("rank " << rank << ", operation " << k) {
                cairn::memory_store store;
                store.publish("c/notes.txt", {}, std::nullopt);
                save_value(store, 1);
                ++tried;
                bool failed = false;
                try {
                    save_value(store, 2, rank, k);
                } catch (const cairn::error& e) {
                    failed = true;
                    BOOST_TEST(e.failures().size() >= 1u);
                    BOOST_TEST(std::string(e.what()).find("injected") != std::string::npos);
                }
                // Either it failed and the old one stands, or the new one is complete.
                BOOST_TEST(loaded(store) == (failed ? 1.0f : 2.0f));
                BOOST_TEST(names(store).count("notes.txt") == 1u);
                save_value(store, 3);
                BOOST_TEST(loaded(store) == 3.0f);
            }
        }
    }
    std::cout << "commit: " << tried << " failures injected\n";
    BOOST_TEST(tried > 8);
}

BOOST_AUTO_TEST_CASE(a_save_without_overwrite_refuses_a_place_that_is_taken) {
    cairn::memory_store store;
    save_value(store, 1);
    std::vector<float> w(2);
    cairn::state_dict sd{{"w", w}};
    cairn::save_options o;
    o.storage.overwrite = false;
    BOOST_CHECK_EXCEPTION(cairn::save(sd, "c", o, store), cairn::error, [](const auto& e) {
        return e.code() == cairn::make_error_code(cairn::errc::already_exists);
    });
    BOOST_TEST(loaded(store) == 1.0f);
}

/// What storage failed to read may be a complete checkpoint.
BOOST_AUTO_TEST_CASE(what_is_damaged_or_unsupported_is_overwritten_and_nothing_else) {
    using cairn::errc;
    for (auto const code : {errc::corrupt, errc::checksum_mismatch, errc::invalid_plan,
                            errc::missing_file, errc::foreign_file, errc::unsupported, errc::io}) {
        cairn::memory_store base;
        save_value(base, 1);
        support::meddling_store store(base,
                                      {.before_open = support::failing(1, ".metadata", code)});
        std::vector<float> w(4, 2.0f);
        cairn::state_dict sd{{"w", w}, {"step", 2}};
        auto const save = [&] { return cairn::save(sd, "c", store).warnings.size(); };
        BOOST_TEST_CONTEXT(cairn::make_error_code(code).message()) {
            if (code == errc::io)
                BOOST_CHECK_THROW((void)save(), cairn::error);
            else
                BOOST_TEST(save() != 0u);
            BOOST_TEST(loaded(base) == (code == errc::io ? 1.0f : 2.0f));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_second_job_that_committed_meanwhile_is_noticed) {
    cairn::memory_store store;
    save_value(store, 1);
    auto place = store.at("c");
    cairn::detail::claim<cairn::memory_store> hold;
    cairn::detail::running_save const running("00000000000000000000000000000001");
    hold.take(place, "00000000000000000000000000000001", {"__0_0.distcp"}, true);
    save_value(store, 2);
    BOOST_CHECK_EXCEPTION(hold.publish(place, {}), cairn::error, [](const auto& e) {
        return e.code() == cairn::make_error_code(cairn::errc::concurrent_save);
    });
    BOOST_TEST(loaded(store) == 2.0f);
}

/// What a publish throws says nothing about its effect; what then stands there does.
BOOST_AUTO_TEST_CASE(a_publish_that_throws_is_in_doubt_where_it_took_effect) {
    std::string const id = "00000000000000000000000000000001";
    for (auto const what : support::all_thrown) {
        for (bool afterwards : {false, true}) {
            cairn::memory_store store;
            save_value(store, 1);
            // The publish: the intent is looked at before it.
            support::fault_store<cairn::memory_store> place(store.at("c"), support::fault{});
            support::fault_store<cairn::memory_store> bad(store.at("c"), {1, what, afterwards});
            cairn::detail::claim<support::fault_store<cairn::memory_store>> hold;
            cairn::detail::running_save const running(id);
            hold.take(place, id, {"__0_0.distcp"}, true);
            BOOST_CHECK_EXCEPTION(hold.publish(bad, {}), cairn::error, [&](const auto& e) {
                return (e.code() == make_error_code(cairn::errc::outcome_unknown)) == afterwards;
            });
            BOOST_TEST(bad.hit() == "publish");
        }
    }
}

/// Ranks that do not see the same directory, or one in which files change under them.
BOOST_AUTO_TEST_CASE(data_files_are_looked_at_before_the_commit) {
    auto const save = [](auto store_of, auto&& before_commit) {
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            std::vector<float> rows(4, 2);
            cairn::state_dict sd{
                {"w", cairn::shard_by_mesh(
                          cairn::tensor_view(cairn::dtype::f32, {2, 2}, rows.data()), {4, 2},
                          cairn::device_mesh::line(2), {cairn::shard_along{0}}, me.rank())}};
            support::meddling_group comm(me, [&](int n, auto&) {
                if (n == 3 && me.rank() == 0) before_commit();  // all have written
            });
            cairn::memory_store store = store_of(me.rank());
            cairn::save(sd, "c", comm, store);
        });
    };
    auto const names_file = [](const cairn::error& e) {
        return std::string(e.what()).find("__1_0.") != std::string::npos;
    };
    cairn::memory_store shared, apart;
    save_value(shared, 1);
    auto const own = [&](int rank) { return rank == 0 ? shared : apart; };
    BOOST_CHECK_EXCEPTION(save(own, [] {}), cairn::error, names_file);
    BOOST_TEST(loaded(shared) == 1.0f);
    BOOST_TEST(names(shared).size() == 3u);
    auto const all = [&](int) { return shared; };
    auto const standing = support::data_file(shared.at("c"), "__1_0");
    auto const cut_short = [&] {
        auto place = shared.at("c");
        for (auto const& i : place.list()) {
            if (!i.name.starts_with("__1_0.") || i.name == standing) continue;
            cairn::byte_vector bytes(static_cast<std::size_t>(i.size) - 1);
            place.open(i.name).read(0, bytes);
            place.publish(i.name, bytes, std::nullopt);
        }
    };
    BOOST_CHECK_EXCEPTION(save(all, cut_short), cairn::error, names_file);
    BOOST_TEST(loaded(shared) == 1.0f);
    BOOST_TEST(names(shared).size() == 3u);
}

BOOST_AUTO_TEST_CASE(a_data_file_of_another_save_is_refused) {
    cairn::memory_store store, other;
    save_value(store, 1);
    save_value(other, 1);  // even if they hold the same
    auto place = store.at("c"), from = other.at("c");
    for (auto const* stem : {"__0_0", "__1_0"}) {
        auto r = from.open(support::data_file(from, stem));
        cairn::byte_vector bytes(static_cast<std::size_t>(r.size()));
        r.read(0, bytes);
        place.publish(support::data_file(place, stem), bytes, std::nullopt);
    }
    auto const is_foreign = [](const cairn::error& e) {
        return e.code() == cairn::make_error_code(cairn::errc::foreign_file) &&
               std::string(e.what()).find("_0.") != std::string::npos;
    };
    std::vector<float> all(8), some(2);
    int step = 0;
    auto const load = [&](cairn::state_dict sd) { cairn::load(sd, "c", store); };
    cairn::tensor_view const row(cairn::dtype::f32, {1, 2}, some.data());
    BOOST_CHECK_EXCEPTION(load({{"w", cairn::tensor_view(cairn::dtype::f32, {4, 2}, all.data())}}),
                          cairn::error, is_foreign);
    cairn::sharded_view const part{
        {4, 2}, cairn::dtype::f32, {cairn::shard(cairn::box({1, 0}, {1, 2}), row)}};
    BOOST_CHECK_EXCEPTION(load({{"w", part}}), cairn::error, is_foreign);
    BOOST_CHECK_EXCEPTION(load({{"step", std::ref(step)}}), cairn::error, is_foreign);
}

BOOST_AUTO_TEST_CASE(options_name_and_split_files) {
    cairn::memory_store store;
    std::vector<float> a(3, 1), b(5, 2);
    cairn::state_dict sd{{"a", a}, {"b", b}, {"step", 1}};
    cairn::save_options o;
    o.storage.single_file_per_rank = false;
    o.storage.file_name = [](int rank, int n) {
        return "r" + std::to_string(rank) + "-" + std::to_string(n) + ".bin";
    };
    cairn::save(sd, "c", o, store);
    BOOST_TEST(names(store).size() == 4u);
    for (auto const* stem : {"r0-0.bin", "r0-1.bin", "r0-2.bin"})
        BOOST_TEST(!support::data_file(store, std::string("c/") + stem).empty());
    a.assign(3, 0);
    cairn::load(sd, "c", store);
    BOOST_TEST(a[2] == 1.0f);
    // Before anything is written.
    for (auto const& names : {std::pair<std::string, std::string>("same", "the same name twice"),
                              {"same.distcp", "the same name twice"},
                              {"a/.b", "no part of which is hidden"},
                              {".distcp", "no part of which is hidden"},
                              {std::string(216, 'a'), "found 256 bytes"},
                              {std::string(256, 'd') + "/a", "found 256 bytes"}}) {
        o.storage.file_name = [&](int, int n) {
            return names.second.starts_with("the same") ? names.first
                                                        : std::to_string(n) + "/" + names.first;
        };
        BOOST_CHECK_EXCEPTION(cairn::save(sd, "d", o, store), cairn::error, [&](const auto& e) {
            return e.code() == cairn::make_error_code(cairn::errc::invalid_argument) &&
                   std::string(e.what()).find(names.second) != std::string::npos;
        });
        BOOST_TEST(store.at("d").list().empty());
    }
    o.storage.file_name = [](int, int n) {
        return "parts/" + std::string(214, 'a') + std::to_string(n) + ".distcp";
    };
    cairn::save(sd, "d", o, store);
    a.assign(3, 0);
    cairn::load(sd, "d", store);
    BOOST_TEST(a[2] == 1.0f);
}

namespace {

/// Writes as an object store does: each name once, and its bytes from the first to the last.
class appending_store : public support::forwarding_store<cairn::memory_store> {
public:
    struct taken {
        std::mutex m{};
        std::set<std::string> names{};
    };
    template <class Handle>
    struct writer {
        Handle handle;
        std::string name;
        std::uint64_t size, next;
        void write(std::uint64_t at, cairn::byte_span b) {
            require(at == next && b.size() <= size - next, "a write at " + std::to_string(at));
            handle.write(at, b);
            next += b.size();
        }
        void finish(bool durable) {
            require(next == size, "the end");
            handle.finish(durable);
        }
        void require(bool good, const std::string& found) const {
            if (!good)
                throw cairn::error(cairn::errc::io, {.file = name,
                                                     .expected = std::to_string(next) + " of " +
                                                                 std::to_string(size) + " bytes",
                                                     .found = found});
        }
    };

    explicit appending_store(cairn::memory_store s,
                             std::shared_ptr<taken> t = std::make_shared<taken>())
        : forwarding_store(std::move(s)), taken_(std::move(t)) {}
    appending_store at(const std::string& id) const {
        return appending_store(store_.at(id), taken_);
    }
    auto create(std::string_view n, std::uint64_t size) {
        auto const name = describe(n);
        std::unique_lock lock(taken_->m);
        if (!taken_->names.insert(name).second)
            throw cairn::error(cairn::errc::already_exists, {.file = name});
        lock.unlock();
        auto h = store_.create(n, size);
        return writer<decltype(h)>{std::move(h), name, size, 0};
    }
    std::size_t created() const { return taken_->names.size(); }

private:
    std::shared_ptr<taken> taken_;
};

}  // namespace

/// Small items are gathered, large ones are not; several threads write the files of a rank.
BOOST_AUTO_TEST_CASE(a_file_is_created_once_and_written_front_to_back) {
    appending_store store{cairn::memory_store()};
    float v = 0;
    for (bool const background : {false, true}) {
        for (bool const one_file : {true, false}) {
            ++v;
            cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
                std::list<std::vector<float>> memory;
                cairn::state_dict sd{{"step", static_cast<int>(v)}};
                for (std::size_t const n : {3u, 1u << 18, 5u, 1u << 15, 100u, 1u << 20}) {
                    memory.emplace_back(n, v);
                    sd["w" + std::to_string(n) + "." + std::to_string(me.rank())] = memory.back();
                }
                cairn::save_options o;
                o.storage.single_file_per_rank = one_file;
                o.storage.thread_count = 3;
                if (background)
                    (void)cairn::async_save(sd, "c", o, me, store, boost::asio::use_future)
                        .get()
                        .wait();
                else
                    (void)cairn::save(sd, "c", o, me, store);
                for (auto& w : memory) w.assign(w.size(), 0);
                (void)cairn::load(sd, "c", store);
                for (auto const& w : memory) BOOST_TEST((w == std::vector<float>(w.size(), v)));
            });
        }
    }
    BOOST_TEST(store.created() > 8u);
}

BOOST_AUTO_TEST_CASE(a_rank_without_items_leaves_an_empty_file) {
    cairn::memory_store store;
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        std::vector<float> w(2, 1);
        cairn::state_dict sd;
        if (me.rank() == 0) sd["w"] = w;
        cairn::save(sd, "c", me, store);
    });
    auto place = store.at("c");
    BOOST_TEST(place.open(support::data_file(place, "__1_0")).size() == 0u);
    BOOST_TEST(support::load_whole(store, "c").tensors.size() == 1u);
}

/// What a killed save would have replaced stands: it is not removed with what that save has left.
BOOST_AUTO_TEST_CASE(a_save_that_fails_after_a_killed_one_leaves_what_stands) {
    cairn::memory_store store;
    save_value(store, 1);
    auto place = store.at("c");
    cairn::detail::claim<cairn::memory_store> killed;
    (void)killed.take(place, std::string(32, 'a'), {"__0_0.distcp"}, true);
    BOOST_TEST(names(store).size() == 4u);
    BOOST_CHECK_THROW(save_value(store, 2, 1, 0), cairn::error);
    BOOST_TEST(loaded(store) == 1.0f);
    BOOST_TEST(names(store).size() == 3u);
}

/// Another save took this one for dead, and may have removed its files.
BOOST_AUTO_TEST_CASE(a_save_without_its_intent_is_not_committed) {
    cairn::memory_store store;
    save_value(store, 1);
    auto place = store.at("c");
    cairn::detail::claim<cairn::memory_store> mine;
    (void)mine.take(place, std::string(32, 'a'), {"__0_0.distcp"}, true);
    place.remove(".saving." + std::string(32, 'a'));
    BOOST_CHECK_EXCEPTION(mine.publish(place, {}), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(cairn::errc::concurrent_save);
    });
    BOOST_TEST(loaded(store) == 1.0f);
}

/// This process slept meanwhile: another one presumed it dead, replaced what it had published by a
/// checkpoint of its own, and removed that.
BOOST_AUTO_TEST_CASE(
    a_publish_that_throws_is_in_doubt_where_another_process_has_removed_the_intent) {
    for (bool is_removed : {false, true}) {
        cairn::memory_store base;
        auto const meddle = [&](const std::string& path) {
            if (!path.ends_with(".metadata")) return;
            if (is_removed) base.at("c").remove(".saving." + std::string(32, 'a'));
            throw cairn::error(cairn::errc::io, {});
        };
        support::meddling_store store(base, {.before_publish = meddle});
        auto place = store.at("c");
        cairn::detail::claim<decltype(place)> mine;
        (void)mine.take(place, std::string(32, 'a'), {"__0_0.distcp"}, true);
        BOOST_CHECK_EXCEPTION(mine.publish(place, {}), cairn::error, [&](const cairn::error& e) {
            return (e.code() == make_error_code(cairn::errc::outcome_unknown)) == is_removed;
        });
    }
}

BOOST_AUTO_TEST_CASE(two_saves_that_begin_together_have_different_names) {
    cairn::memory_store base;
    auto place = base.at("c");
    std::vector<std::byte> const its_bytes(10, std::byte{5});
    auto const begin_another = [&] {
        cairn::detail::save_intent other;
        other.save_id = std::string(32, 'a');
        other.owner = cairn::detail::record_owner::this_one();
        other.owner.process.boot = other.owner.process.run = "another host";
        other.names = {"__0_0.distcp"};
        place.publish(".saving." + other.save_id, other.encode(), std::nullopt);
        auto file = place.create("__0_0.distcp", its_bytes.size());
        file.write(0, its_bytes);
        file.finish(true);
    };
    support::meddling_store store(base,
                                  {.before_publish = support::before_the_intent(begin_another)});
    std::vector<float> w(4, 3);
    cairn::state_dict sd{{"w", w}};
    BOOST_CHECK_NO_THROW((void)cairn::save(sd, "c", store));
    w.assign(4, 0);
    (void)cairn::load(sd, "c", base);
    BOOST_TEST(w[3] == 3.0f);
    std::vector<std::byte> now(its_bytes.size());
    place.open("__0_0.distcp").read(0, now);
    BOOST_TEST((now == its_bytes));
    BOOST_TEST(place.list().size() == 4u);  // its file and intent, and the checkpoint
}

BOOST_AUTO_TEST_SUITE_END()
