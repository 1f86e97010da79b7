// SPDX-License-Identifier: Apache-2.0
// What a distributed file system does to who reads a file that another host replaces: it says that
// the file handle is stale, or that there is no such file, for a while.
#include "support/error_codes.hpp"
#include "support/forwarding_store.hpp"
#include "support/meddling_store.hpp"
#include "support/on_threads.hpp"
#include "support/replaced_files.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/catalog/detail/verification.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/catalog/listing.hpp>
#include <cairn/catalog/verify.hpp>
#include <cairn/catalog/whole.hpp>
#include <cairn/checkpointer.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(replaced_files)

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

using support::replaced_files;

void save_value(const std::string& id, float v) {
    std::vector<float> w(64, v);
    (void)cairn::save(cairn::state_dict{{"w", w}, {"text", std::string("t")}}, id);
}
float loaded(const std::string& id) {
    std::vector<float> w(64);
    std::string text;
    cairn::state_dict sd{{"w", w}, {"text", std::ref(text)}};
    (void)cairn::load(sd, id);
    BOOST_TEST(text == "t");
    return w[0];
}
using support::is;

cairn::save_report save_step(const std::string& run, int step, cairn::checkpointer_options o = {}) {
    std::vector<float> w(64, static_cast<float>(step));
    cairn::checkpointer ckpt(cairn::solo(), run, std::move(o));
    (void)ckpt.save_now(step, cairn::state_dict{{"w", w}});
    return ckpt.wait().value();
}

using clock = std::chrono::steady_clock;

/// Of which this host sees the old `.metadata` for a while after another host has replaced it, and
/// the old data files no longer.
class lagging_store : public support::forwarding_store<cairn::memory_store> {
public:
    lagging_store(cairn::memory_store old, cairn::memory_store now, clock::time_point until)
        : forwarding_store(std::move(now)), old_(std::move(old)), until_(until) {}
    lagging_store at(const std::string& id) const { return {old_.at(id), store_.at(id), until_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    auto open(std::string_view n) { return seen(n).open(n); }
    cairn::object_tag tag(std::string_view n) { return seen(n).tag(n); }
    std::chrono::milliseconds lag() const { return 2s; }

private:
    cairn::memory_store& seen(std::string_view n) {
        return n.ends_with(".metadata") && clock::now() < until_ ? old_ : store_;
    }
    cairn::memory_store old_;
    clock::time_point until_;
};

/// A store whose openings are noted; at one of them somebody replaces a file.
class overwritten_store : public support::forwarding_store<cairn::file_store> {
public:
    struct openings {
        std::mutex m{};
        std::vector<std::string> all{};
        std::size_t at = SIZE_MAX;  ///< Which one, of a data file.
        fs::path replaced{};
        std::size_t data = 0, when = 0;  ///< Openings of data files, and all, before.
    };
    overwritten_store(cairn::file_store s, std::shared_ptr<openings> seen)
        : forwarding_store(std::move(s)), seen_(std::move(seen)) {}
    overwritten_store at(const std::string& id) const { return {store_.at(id), seen_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    auto open(std::string_view n) {
        std::lock_guard const lock(seen_->m);
        if (n.ends_with(".distcp") && seen_->data++ == seen_->at) {
            auto const& old = seen_->replaced;
            auto const fresh = old.string() + ".new";
            fs::copy_file(old, fresh);
            // Some systems count time in steps that are longer than a load.
            fs::last_write_time(fresh, fs::last_write_time(old) + 1s);
            fs::rename(fresh, old);
            seen_->when = seen_->all.size();
        }
        seen_->all.emplace_back(n);
        return store_.open(n);
    }

private:
    std::shared_ptr<openings> seen_;
};

/// A checkpoint of PyTorch's, and loads of it while a file is replaced.
struct overwritten {
    support::scratch dir{};
    std::vector<fs::path> files{};

    overwritten() {
        fs::copy(CAIRN_GOLDEN "/torch-2.6.0/kinds_3_files/checkpoint", dir.dir / "c");
        for (auto const& e : fs::directory_iterator(dir.dir / "c"))
            if (e.path().extension() == ".distcp") files.push_back(e.path());
        std::sort(files.begin(), files.end());
    }
    std::shared_ptr<overwritten_store::openings> load(std::size_t file, std::size_t at) const {
        auto const seen = std::make_shared<overwritten_store::openings>();
        seen->at = at;
        seen->replaced = files.at(file);
        overwritten_store const store(cairn::file_store(dir.dir), seen);
        (void)cairn::load_tree("c", {}, cairn::torch_reader(store, {.thread_count = 1}));
        return seen;
    }
};
bool is_read_again(const overwritten_store::openings& seen) {
    auto const after = seen.all.begin() + static_cast<std::ptrdiff_t>(seen.when);
    return std::find(after, seen.all.end(), ".metadata") != seen.all.end();
}

}  // namespace

/// PyTorch saves again under the same names, and no load may consist of two saves.
BOOST_AUTO_TEST_CASE(a_file_of_pytorch_that_is_replaced_at_any_time_is_noticed) {
    constexpr std::size_t files = 3;
    // Not when the coordinator looks at each once more, because everything is read then.
    auto const most = overwritten().load(0, SIZE_MAX)->data - files;
    BOOST_TEST_REQUIRE(most >= 2 * files);
    // Side by side: who finds another file looks for the old one for some seconds.
    std::vector<int> noticed(files * most);
    auto const failures = support::try_on_threads(static_cast<int>(noticed.size()), [&](int i) {
        auto const n = static_cast<std::size_t>(i);
        noticed[n] = is_read_again(*overwritten().load(n / most, n % most));
    });
    support::rethrow_first(failures);
    for (std::size_t n = 0; n < noticed.size(); ++n)
        BOOST_TEST(noticed[n] == 1, "file " << n / most << " at opening " << n % most);
}

/// Its checksums are right, whichever save it is of.
BOOST_AUTO_TEST_CASE(a_verification_notices_a_file_of_pytorch_that_is_replaced) {
    overwritten const c;
    auto const seen = std::make_shared<overwritten_store::openings>();
    seen->at = c.files.size() + 1;  // each is looked at first, and then one after the other read
    seen->replaced = c.files[0];
    overwritten_store const store(cairn::file_store(c.dir.dir), seen);
    auto const r = cairn::verify(store.at("c"));
    BOOST_TEST(!r.whole());
    BOOST_TEST(!r.damaged);
}

/// What it cannot call whole it looks at once more.
BOOST_AUTO_TEST_CASE(a_search_notices_a_file_of_pytorch_that_is_replaced_all_the_time) {
    overwritten const c;
    auto const file = c.files[0];
    support::meddling_store store(cairn::file_store(c.dir.dir),
                                  {.before_open = [&](const std::string& path) {
                                      if (path.ends_with(file.filename().string()))
                                          fs::last_write_time(file, fs::last_write_time(file) + 1s);
                                  }});
    cairn::latest_options o;
    o.verify = cairn::verify_level::full;
    BOOST_CHECK_EXCEPTION((void)cairn::latest(store, o), cairn::error, [](const auto& e) {
        return e.code() == make_error_code(cairn::errc::concurrent_save);
    });
}

/// By PyTorch, between the reading of the metadata and the examination.
BOOST_AUTO_TEST_CASE(a_checkpoint_of_pytorch_that_is_replaced_before_it_is_examined_is_whole) {
    overwritten const c;
    auto const at = c.dir.dir / "c";
    cairn::any_store place{cairn::file_store(at)};
    auto const old = cairn::detail::read_checked_metadata(place);
    fs::remove_all(at);
    fs::copy(CAIRN_GOLDEN "/torch-2.6.0/kinds/checkpoint", at);
    auto const problem = cairn::detail::problem_of(place, old, cairn::verify_level::metadata, {});
    BOOST_TEST(!problem, problem.text);
}

BOOST_AUTO_TEST_CASE(a_search_that_has_found_damage_looks_for_no_other_versions) {
    overwritten const c;
    auto const seen = std::make_shared<overwritten_store::openings>();
    cairn::any_store place{overwritten_store(cairn::file_store(c.dir.dir / "c"), seen)};
    auto const m = cairn::detail::read_checked_metadata(place);
    fs::remove(c.files[0]);
    cairn::detail::verification_scope searched;
    searched.stop_at_first = true;
    cairn::detail::verification v(place, searched);
    BOOST_TEST(!v.run(m));
    BOOST_TEST(v.damaged());
    BOOST_TEST(seen->data == c.files.size() + 1);  // each version, and the one that is missing
}

/// No read has seen files of one save alone.
BOOST_AUTO_TEST_CASE(what_is_replaced_each_time_it_is_read_is_not_verified) {
    overwritten const c;
    auto const metadata = c.dir.dir / "c" / ".metadata";
    support::meddling_store store(
        cairn::file_store(c.dir.dir), {.before_open = [&](const std::string& path) {
            if (path.ends_with(".distcp"))
                fs::last_write_time(metadata, fs::last_write_time(metadata) + 1s);
        }});
    auto const r = cairn::verify(store.at("c"));
    BOOST_TEST(!r.whole());
    BOOST_TEST(!r.damaged);
}

/// The versions that the coordinator has noted are not sent: another rank reads what is there.
BOOST_AUTO_TEST_CASE(a_file_of_pytorch_that_another_rank_finds_replaced_is_noticed) {
    overwritten const c;
    auto const first = std::make_shared<overwritten_store::openings>();
    auto const second = std::make_shared<overwritten_store::openings>();
    second->at = 0;
    second->replaced = c.files[1];
    cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
        overwritten_store const store(cairn::file_store(c.dir.dir),
                                      me.rank() == 0 ? first : second);
        (void)cairn::load_tree("c", {}, me, cairn::torch_reader(store, {.thread_count = 1}));
    });
    auto const& all = first->all;
    BOOST_TEST(std::count(all.begin(), all.end(), ".metadata") > 2);
}

BOOST_AUTO_TEST_CASE(what_a_host_still_sees_of_a_replaced_checkpoint_is_waited_out_by_every_verb) {
    std::vector<float> w(64);
    cairn::state_dict const sd{{"w", w}};
    auto const save = [&](cairn::memory_store& place, float v) {
        w.assign(w.size(), v);
        (void)cairn::save(sd, "run/step_1", cairn::solo(), place);
    };
    cairn::memory_store old, now;
    save(old, 0);
    save(old, 1);  // its tags are those of no version of the other store
    save(now, 2);
    auto const store = [&] { return lagging_store(old, now, clock::now() + 300ms); };
    w.assign(w.size(), 0);
    (void)cairn::load(sd, "run/step_1", cairn::solo(), store());
    BOOST_TEST(w[0] == 2.0f);
    for (auto const& f : cairn::verify(store().at("run/step_1")).findings) BOOST_ERROR(f);
    auto run = store().at("run");
    for (auto const& c : cairn::list_checkpoints(run, cairn::verify_level::full))
        BOOST_TEST(c.problem == "");
    now.at("run/step_1").remove(now.at("run/step_1").list().back().name);
    BOOST_CHECK_EXCEPTION((void)cairn::load(sd, "run/step_1", cairn::solo(), store()), cairn::error,
                          is(cairn::errc::missing_file));
}

BOOST_AUTO_TEST_CASE(what_is_stale_for_a_while_is_read_by_every_verb) {
    for (auto const& how : support::all_stale_calls) {
        BOOST_TEST_CONTEXT(how.what << " fails with " << how.error) {
            support::scratch dir;
            auto const root = dir.dir.string(), one = root + "/step_1", two = root + "/step_2";
            save_value(one, 1);
            save_value(two, 2);
            replaced_files const server(root, how, 3);
            BOOST_TEST(loaded(two) == 2.0f);
            BOOST_TEST(support::load_whole(cairn::file_store(), two).tensors.count("w") == 1u);
            auto const newest = cairn::latest(root, {.verify = cairn::verify_level::full});
            BOOST_TEST(newest.value_or("none") == two);
            for (auto const& f : cairn::verify(cairn::file_store(two)).findings) BOOST_ERROR(f);
            for (auto const& c : cairn::list_checkpoints(root, cairn::verify_level::full))
                BOOST_TEST(c.problem == "");
            save_value(two, 3);
            BOOST_TEST(loaded(two) == 3.0f);
            std::set<std::string> left;
            for (auto const& e : fs::directory_iterator(two)) left.insert(e.path().filename());
            BOOST_TEST(left.size() == 2u);
            BOOST_TEST(server.hits() > 5);
        }
    }
}

/// It is there, so it is not "not found"; and it may be whole, so it is no damage.
BOOST_AUTO_TEST_CASE(what_stays_stale_is_an_error_of_the_storage) {
    support::scratch dir;
    auto const root = dir.dir.string(), one = root + "/step_1", two = root + "/step_2";
    save_value(one, 1);
    save_value(two, 2);
    for (auto const& how : support::all_stale_calls) {
        BOOST_TEST_CONTEXT(how.what << " fails with " << how.error) {
            replaced_files server(root, how, INT32_MAX);
            server.only(two + "/.metadata");
            auto const begin = std::chrono::steady_clock::now();
            BOOST_CHECK_EXCEPTION(loaded(two), cairn::error, is(cairn::errc::io));
            auto const took = std::chrono::steady_clock::now() - begin;
            BOOST_TEST((took > std::chrono::seconds(4)));
        }
    }
    replaced_files server(root, {"read", ESTALE}, INT32_MAX);
    for (auto const& e : fs::directory_iterator(two))
        if (e.path().extension() == ".distcp") server.only(e.path().string());
    BOOST_CHECK_EXCEPTION(loaded(two), cairn::error, is(cairn::errc::io));
}

/// Nobody goes back behind it, calls it damaged, or removes it.
BOOST_AUTO_TEST_CASE(a_checkpoint_that_stays_stale_is_neither_skipped_nor_removed) {
    support::scratch dir;
    auto const root = dir.dir.string();
    for (auto const* run : {"/a", "/b", "/c"})
        for (int const step : {1, 2}) (void)save_step(root + run, step);
    for (auto const& how : {support::stale_call{"open", ESTALE}, {"read", ENOENT}}) {
        BOOST_TEST_CONTEXT(how.what << " fails with " << how.error) {
            replaced_files server(root, how, INT32_MAX);
            for (auto const* run : {"/a", "/b", "/c"})
                server.only(root + run + "/step_2/.metadata");
            auto const skipped = [](const std::string& s) { BOOST_ERROR(s); };
            cairn::latest_options const options{cairn::verify_level::full, true, skipped};
            auto const stays = [](const cairn::error& e) {
                return is(e, cairn::errc::io) &&
                       std::string(e.what()).find("step_2") != std::string::npos;
            };
            std::vector<float> w(64);
            // Each waits for it, so all do at once.
            std::vector<std::function<void()>> const uses{
                [&] {
                    BOOST_CHECK_EXCEPTION((void)cairn::latest(root + "/a", options), cairn::error,
                                          stays);
                },
                [&] {
                    cairn::checkpointer ckpt(cairn::solo(), root + "/b");
                    BOOST_CHECK_EXCEPTION(
                        (void)ckpt.load_latest(cairn::state_dict{{"w", w}}, options), cairn::error,
                        stays);
                    BOOST_TEST(w[0] == 0.0f);
                },
                [&] {
                    BOOST_CHECK_EXCEPTION(
                        (void)cairn::verify(cairn::file_store(root + "/a/step_2")), cairn::error,
                        stays);
                },
                [&] {
                    auto const all = cairn::list_checkpoints(root + "/a");
                    BOOST_REQUIRE(all.size() == 2u);
                    BOOST_TEST((all[0].state == cairn::checkpoint_state::complete));
                    BOOST_TEST(all[1].id == "step_2");
                    BOOST_TEST((all[1].state == cairn::checkpoint_state::unreadable));
                },
                [&] {  // by a run that keeps one
                    auto const report = save_step(root + "/c", 3, {.keep = cairn::last(1)});
                    BOOST_TEST(report.warnings.size() == 2u);  // of its order, and that it stays
                    for (auto const& warning : report.warnings)
                        BOOST_TEST(warning.find("'step_2'") != std::string::npos, warning);
                    BOOST_TEST(fs::exists(root + "/c/step_2/.metadata"));
                    BOOST_TEST(!fs::exists(root + "/c/step_1"));
                }};
            support::rethrow_first(
                support::try_on_threads(static_cast<int>(uses.size()),
                                        [&](int k) { uses[static_cast<std::size_t>(k)](); }));
        }
    }
    for (auto const* run : {"/a", "/b", "/c"}) {
        std::vector<float> w(64);
        (void)cairn::load(cairn::state_dict{{"w", w}}, root + std::string(run) + "/step_2");
        BOOST_TEST(w[0] == 2.0f);
    }
}

/// Each time it has read `.metadata`, the files that this names are gone.
BOOST_AUTO_TEST_CASE(a_load_begins_again_for_each_save_that_replaces_the_checkpoint) {
    support::scratch dir;
    auto const id = (dir.dir / "c").string();
    for (int const saves : {1, 5, 50}) {
        save_value(id, 1);
        auto& calls = support::system_calls::get();
        support::watching const w(dir.dir.string());
        int replaced = 0;
        bool inside = false;
        std::string metadata = id + "/.metadata";
        bool metadata_was_read = false;
        calls.before = [&](std::string_view what, const std::string& path, std::uint64_t) {
            if (inside) return 0;
            if (what == "read" && path == metadata) metadata_was_read = true;
            if (what != "open" || !path.ends_with(".distcp") || !metadata_was_read ||
                replaced == saves)
                return 0;
            metadata_was_read = false;
            inside = true;
            save_value(id, static_cast<float>(++replaced + 1));
            inside = false;
            return 0;
        };
        if (saves != 50) {
            BOOST_TEST(loaded(id) == static_cast<float>(saves + 1));
            continue;
        }
        BOOST_CHECK_EXCEPTION(loaded(id), cairn::error, [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::concurrent_save) &&
                   std::string(e.what()).find("that of save ") != std::string::npos;
        });
    }
}

BOOST_AUTO_TEST_SUITE_END()
