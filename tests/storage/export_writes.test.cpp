// SPDX-License-Identifier: Apache-2.0
// What exports write when, and with which handles.
#include "flat_exports.hpp"
#include "safetensors_exports.hpp"
#include "support/error_codes.hpp"
#include "support/forwarding_store.hpp"
#include "support/scratch.hpp"
#include "support/wrapping_planner.hpp"

#include <cairn/activity.hpp>
#include <cairn/completion.hpp>
#include <cairn/storage/detail/target_shares.hpp>

#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace export_writes {

using namespace safetensors_exports;

/// What the handles of `reopen` have done.
struct handles {
    std::mutex m{};
    int count = 0;
    std::set<int> unfinished{};  ///< Of those that have written.
    bool full = false;           ///< A handle that has written learns it only at its end.
};

/// Files whose handles report errors of their own writes, as NFS and FUSE may.
class watched_files : public cairn::file_store {
public:
    watched_files(cairn::file_store f, std::shared_ptr<handles> all)
        : file_store(std::move(f)), all_(std::move(all)) {}
    watched_files at(const std::string& id) const { return {file_store::at(id), all_}; }
    watched_files without_sync() const { return {file_store::without_sync(), all_}; }

    struct handle {
        writer to;
        std::shared_ptr<handles> all;
        int number;
        void write(std::uint64_t at, cairn::byte_span b) {
            {
                std::lock_guard const lock(all->m);
                all->unfinished.insert(number);
            }
            to.write(at, b);
        }
        void finish(bool durable) {
            to.finish(durable);
            std::lock_guard const lock(all->m);
            if (all->unfinished.erase(number) != 0 && all->full)
                throw cairn::error(cairn::errc::io, {.found = "a full disk"});
        }
    };
    handle reopen(std::string_view name) {
        std::lock_guard const lock(all_->m);
        return {file_store::reopen(name), all_, all_->count++};
    }

private:
    std::shared_ptr<handles> all_;
};
static_assert(cairn::SharedWriteStore<watched_files> && cairn::RenamingStore<watched_files>);

/// The writes to each object, in their order.
struct log {
    std::mutex m{};
    std::vector<std::pair<std::string, std::uint64_t>> writes{};

    /// Where the writes to objects begin whose names have these ends.
    std::vector<std::pair<std::string, std::uint64_t>> of(std::string_view begin,
                                                          std::string_view end) const {
        auto found = writes;
        std::erase_if(found, [&](auto const& w) {
            return !w.first.starts_with(begin) || !w.first.ends_with(end);
        });
        return found;
    }
};

/// Memory that cannot rename, and holds nothing of an object before it is complete.
class logged_store : public support::forwarding_store<cairn::memory_store> {
public:
    logged_store(cairn::memory_store s, std::shared_ptr<log> l)
        : forwarding_store(std::move(s)), log_(std::move(l)) {}
    logged_store at(const std::string& id) const { return {store_.at(id), log_}; }

    struct handle {
        cairn::memory_store::writer to;
        std::shared_ptr<log> all;
        std::string name;
        void write(std::uint64_t at, cairn::byte_span b) {
            {
                std::lock_guard const lock(all->m);
                all->writes.emplace_back(name, at);
            }
            to.write(at, b);
        }
        void finish(bool durable) { to.finish(durable); }
    };
    handle create(std::string_view n, std::uint64_t size) {
        return {store_.create(n, size), log_, std::string(n)};
    }

private:
    std::shared_ptr<log> log_;
};

/// A store in which the first byte of a side file is another one when it is read.
template <class Store>
class changed_side : public Store {
public:
    explicit changed_side(Store s) : Store(std::move(s)) {}
    changed_side at(const std::string& id) const { return changed_side(Store::at(id)); }

    struct handle {
        decltype(std::declval<Store&>().open("")) from;
        bool changes;
        std::uint64_t size() { return from.size(); }
        void read(std::uint64_t at, std::span<std::byte> into) {
            from.read(at, into);
            if (changes && at == 0 && !into.empty()) into[0] ^= std::byte{1};
        }
    };
    handle open(std::string_view n) { return {Store::open(n), n == "side.1"}; }
};

/// A planner that finishes a plan in another order.
class reversing_planner : public support::wrapping_planner {
public:
    cairn::save_plan finish_save_plan(cairn::save_plan p) {
        p = wrapping_planner::finish_save_plan(std::move(p));
        std::reverse(p.items.begin(), p.items.end());
        return p;
    }
};

/// Whether two files are written in this way, each with its header behind its last element.
inline bool is_file_after_file(const std::vector<std::pair<std::string, std::uint64_t>>& writes) {
    std::set<std::string> complete;
    std::pair<std::string, std::uint64_t> last;
    for (auto const& w : writes) {
        if (complete.count(w.first) != 0 || w.first < last.first) return false;
        if (w.second == 0)
            complete.insert(w.first);
        else if (w < last)
            return false;
        last = w;
    }
    return complete.size() == 2;
}

inline const std::vector<part_of_state> small_and_large{{"a", dtype::float32, {2, 3}},
                                                        {"b", dtype::float32, {2, 20'000}},
                                                        {"c", dtype::float32, {2, 3}},
                                                        {"d", dtype::float32, {2, 20'000}}};
inline cairn::safetensors_writer_options one_thread() {
    cairn::safetensors_writer_options o;
    o.thread_count = 1;
    o.max_file_size = 170'000;
    return o;
}

}  // namespace export_writes

BOOST_AUTO_TEST_SUITE(export_writes)

using namespace safetensors_exports;

BOOST_AUTO_TEST_CASE(each_handle_that_has_written_is_finished) {
    std::vector<part_of_state> parts;
    for (int i = 0; i < 70; ++i)  // more than are open at a time
        parts.push_back({"t" + std::to_string(i), dtype::float32, {2, 20'000}});
    cairn::safetensors_writer_options o;
    o.max_file_size = 1;
    o.sync_files = false;
    o.thread_count = 4;
    for (int const ranks : {1, 2}) {
        support::scratch s;
        auto const all = std::make_shared<handles>();
        save_on(watched_files(cairn::file_store(s.dir), all), parts, ranks, "m", o);
        BOOST_TEST(all->count >= 70);
        BOOST_TEST(all->unfinished.empty());
    }
}

BOOST_AUTO_TEST_CASE(an_error_that_only_the_writing_handle_learns_fails_an_export) {
    support::scratch s;
    auto const all = std::make_shared<handles>();
    all->full = true;
    for (int const ranks : {1, 2}) {
        auto const why = failure_of([&] {
            save_on(watched_files(cairn::file_store(s.dir), all), many_kinds(held::rows), ranks,
                    "m");
        });
        BOOST_TEST(says(why, "a full disk"));
        BOOST_TEST(entries_of(s.dir).empty());
    }
}

BOOST_AUTO_TEST_CASE(a_finished_plan_in_another_order_is_refused) {
    std::vector<float> q(6, 1), k(6, 2);
    cairn::memory_store to;
    reversing_planner planner;
    auto const why = failure_of([&] {
        cairn::save(cairn::state_dict{{"q", q}, {"k", k}}, "m.safetensors", planner,
                    cairn::safetensors_writer(to));
    });
    BOOST_TEST(says(why, "others, or another order"));
    BOOST_TEST(says(why, "finish_save_plan must keep the items and their order"));
    BOOST_TEST(to.list().empty());
}

/// A bucket's memory holds each part of an upload until it is complete.
BOOST_AUTO_TEST_CASE(one_rank_writes_file_after_file_front_to_back_where_parts_are_held) {
    cairn::memory_store memory;
    auto const l = std::make_shared<log>();
    save_on(logged_store(memory, l), small_and_large, 1, "m", one_thread());
    auto const writes = l->of("model-", ".safetensors");
    BOOST_TEST(writes.size() >= 6u);
    BOOST_TEST(is_file_after_file(writes));
    cairn::memory_store other;  // by renaming
    save_on(other, small_and_large, 1, "m", one_thread());
    BOOST_TEST((flat_exports::elements_of(memory, "m") == flat_exports::elements_of(other, "m")));
}

BOOST_AUTO_TEST_CASE(ranks_write_their_side_files_front_to_back_where_parts_are_held) {
    auto const l = std::make_shared<log>();
    save_on(logged_store(cairn::memory_store(), l), small_and_large, 2, "m", one_thread());
    for (auto const* name : {"side.0", "side.1"}) {
        auto const writes = l->of(name, "");
        BOOST_TEST(writes.size() >= 5u);
        BOOST_TEST(std::is_sorted(writes.begin(), writes.end()));
    }
    BOOST_TEST(is_file_after_file(l->of("model-", ".safetensors")));
}

BOOST_AUTO_TEST_CASE(each_piece_of_an_added_file_shows_activity) {
    auto const shown = std::make_shared<cairn::activity>();
    shown->enter("finish");
    std::chrono::steady_clock::time_point before{};
    std::chrono::milliseconds idle{0};
    cairn::safetensors_writer_options o;
    o.add_files = [&](const cairn::file_adder& put) {
        put("large", std::uint64_t{9} << 20, [&](std::uint64_t at, std::span<std::byte>) {
            if (at == 0) {
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                before = std::chrono::steady_clock::now();
            } else {
                idle = shown->read().idle;
                idle -= std::chrono::duration_cast<std::chrono::milliseconds>(
                    std::chrono::steady_clock::now() - before);
            }
        });
    };
    cairn::memory_store to;
    cairn::safetensors_writer writer(to, o);
    writer.reset("m");
    cairn::storage_setup setup;
    setup.world_size = 1;
    setup.coordinator = true;
    setup.save_id = std::string(32, 'a');
    setup.activity = shown;
    writer.set_up_writer(setup);
    std::vector<float> const w{1, 2};
    cairn::save_plan plan;
    auto& item = plan.items.emplace_back();
    item.fqn = "w";
    item.kind = cairn::item_kind::tensor;
    item.type = dtype::float32;
    item.global_shape = {2};
    item.region = cairn::box::whole({2});
    plan = writer.prepare_global_save_plan({plan}).at(0);
    std::vector<cairn::item_data> const data{
        cairn::const_tensor_view(dtype::float32, {2}, w.data())};
    (void)cairn::await_completion<cairn::write_results>(
        [&](auto done) { writer.write_data(plan, data, std::move(done)); });
    (void)cairn::await_completion<cairn::commit_result>(
        [&](auto done) { writer.finish({}, std::move(done)); });
    BOOST_TEST(contents_of(to.at("m")).count("large") == 1u);
    BOOST_TEST((before.time_since_epoch().count() != 0));
    BOOST_TEST((idle <= std::chrono::milliseconds(1)));
}

BOOST_AUTO_TEST_CASE(a_file_that_would_stop_the_next_export_is_refused) {
    auto const why = [](auto store, const std::string& name) {
        cairn::safetensors_writer_options o;
        o.add_files = [&](auto const& put) {
            put(name, std::as_bytes(std::span(std::string_view("x"))));
        };
        return failure_of([&] { save_on(store, small_and_large, 1, "m", o); });
    };
    cairn::memory_store renames, flat;
    for (auto const* name : {"tokenizer/vocab.json", ".metadata"}) {
        BOOST_TEST(says(why(renames, name), "that the next export can replace"));
        BOOST_TEST(renames.at("m").list().empty());
    }
    BOOST_TEST(says(why(flat_exports::store(flat), ".metadata"), "that the next export can"));
    for (int i = 0; i < 2; ++i) {
        BOOST_TEST(why(renames, "config.json") == "no failure");
        BOOST_TEST(why(flat_exports::store(flat), "tokenizer/vocab.json") == "no failure");
    }
}

/// A file without checksums would have it, and nothing would tell.
BOOST_AUTO_TEST_CASE(a_byte_that_changes_aside_fails_an_export) {
    auto const check = [](auto const& store, held how) {
        std::vector<part_of_state> const parts{{"a", dtype::float32, {2, 3}, how},
                                               {"b", dtype::float32, {6, 20'000}, how}};
        auto const why = failure_of([&] { save_on(store, parts, 2, "m.safetensors"); });
        BOOST_TEST(says(why, "rank 1"), why);
        BOOST_TEST(says(why, "'a'"), why);
        BOOST_TEST(says(why, "side.1"), why);
        BOOST_TEST(says(why, "the bytes that this rank has put aside"), why);
    };
    for (auto const how : {held::rows, held::columns}) {
        support::scratch s;
        check(changed_side(cairn::file_store(s.dir)), how);
        BOOST_TEST(entries_of(s.dir).empty());
        cairn::memory_store memory;
        check(changed_side(flat_exports::store(memory)), how);
        BOOST_TEST(memory.list().empty());
    }
}

BOOST_AUTO_TEST_CASE(no_page_of_a_host_with_large_ones_has_two_writers) {
    cairn::detail::rank_share share;
    share.direct = cairn::detail::rank_share::access::pages;
    share.page = 65536;
    auto const sent = share.encode();
    cairn::save_plan plan;
    plan.storage_data = sent;
    auto const got = cairn::detail::rank_share::decode(plan);
    auto const part = got.direct_part({100, 300'000});
    BOOST_TEST(part.begin == 65536u);
    BOOST_TEST(part.end == 262144u);
    // The coordinator's host may have small ones.
    cairn::memory_store to;
    cairn::safetensors_writer writer(to);
    writer.reset("m");
    cairn::storage_setup setup;
    setup.world_size = 2;
    setup.coordinator = true;
    setup.save_id = std::string(32, 'a');
    writer.set_up_writer(setup);
    auto const page_of = [&](const std::vector<cairn::save_plan>& all) {
        return cairn::detail::rank_share::page_of(all);
    };
    auto const own = writer.prepare_local_save_plan({});
    auto large = own;
    large.storage_data = "65536";
    BOOST_TEST(page_of({own, own}) == static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
    BOOST_TEST(page_of({own, large, own}) == 65536u);
    BOOST_TEST(page_of({own, cairn::save_plan()}) == 65536u);
    for (auto const& p : writer.prepare_global_save_plan({own, large}))
        BOOST_TEST(cairn::detail::rank_share::decode(p).page == 65536u);
    (void)writer.abandon();
    share.page = 0;
    plan.storage_data = share.encode();
    BOOST_CHECK_EXCEPTION((void)cairn::detail::rank_share::decode(plan), cairn::error,
                          support::is(cairn::errc::corrupt));
}

BOOST_AUTO_TEST_SUITE_END()
