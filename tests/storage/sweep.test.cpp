// SPDX-License-Identifier: Apache-2.0
// A save removes the files of the checkpoint that it replaces, whatever they are called, and
// nothing that a checkpoint or an intent merely names.
#include "support/fault_store.hpp"
#include "support/forwarding_store.hpp"
#include "support/meddling_store.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/format/native/footer.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/format/torch/write_metadata.hpp>
#include <cairn/storage/detail/claim.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(sweep)

namespace fs = std::filesystem;

namespace {

const std::string id_a(32, 'a'), id_b(32, 'b');

std::vector<std::string> save(const std::string& id, float v, const cairn::save_options& o = {}) {
    std::vector<float> w(4, v);
    cairn::state_dict sd{{"w", w}};
    return cairn::save(sd, id, o).warnings;
}
void write(const fs::path& file, std::span<const std::byte> bytes) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
}
void write(const fs::path& file, const std::string& text) {
    write(file, std::as_bytes(std::span(text)));
}
/// A data file of a save, with nothing in it.
void write_data(const fs::path& file, const std::string& save_id) {
    auto bytes = cairn::format::native::encode_footer({save_id, {}});
    bytes.insert(bytes.begin(), 1000, std::byte{1});
    write(file, bytes);
}

/// Metadata that says that a tensor of its own lies in each of these files.
cairn::metadata naming(const std::vector<std::string>& files, const std::string& save_id) {
    cairn::metadata m;
    m.save_id = save_id;
    for (auto const& f : files) {
        cairn::storage_location at;
        at.file = f;
        at.length = 16;
        cairn::tensor_metadata t;
        t.shape = {4};
        t.chunks.push_back({cairn::box({0}, {4}), at});
        m.entries["t" + std::to_string(m.entries.size())] = t;
        m.file_sizes[f] = 16;
    }
    return m;
}

/// What is in a directory, with what it holds: of a link, where it leads.
std::set<std::string> below(const fs::path& dir) {
    std::set<std::string> out;
    for (auto const& e : fs::recursive_directory_iterator(dir))
        if (e.is_symlink() || !e.is_directory()) out.insert(fs::relative(e.path(), dir).string());
    return out;
}
bool mentions(const std::vector<std::string>& warnings, const std::string& what) {
    for (auto const& w : warnings)
        if (w.find(what) != std::string::npos) return true;
    return false;
}

/// Tells in which order it is synced and names are removed.
class syncing_store : public support::forwarding_store<cairn::memory_store> {
public:
    explicit syncing_store(cairn::memory_store s) : forwarding_store(std::move(s)) {}
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    void sync() {
        calls.emplace_back("sync");
        store_.sync();
    }
    void remove(std::string_view n) {
        calls.push_back("remove " + std::string(n));
        store_.remove(n);
    }
    std::vector<std::string> calls{};
};

/// A place with files that are nobody's to remove, and the names under which something may ask.
struct strangers {
    support::scratch root{};
    fs::path place = root.dir / "c";
    std::vector<std::string> names{"train.py",
                                   "empty.txt",
                                   ".hidden",
                                   "sub/.metadata",
                                   "sub/__0_0.distcp",
                                   "sub/deep/__1_0.distcp",
                                   "../other/__0_0.distcp",
                                   (root.dir / "x").string(),
                                   "linked.distcp",
                                   "__5_0.distcp",
                                   "link/__0_0.distcp",
                                   "__6_0." + id_b + ".distcp",
                                   "results." + id_a + ".csv",
                                   "__7_0.distcp"};
    std::set<std::string> before;

    strangers() {
        write(place / "train.py", "import torch");
        write(place / "empty.txt", "");
        write_data(place / ".hidden", id_a);
        save((place / "sub").string(), 7);
        write_data(place / "sub" / "deep" / "__1_0.distcp", id_a);
        write_data(root.dir / "other" / "__0_0.distcp", id_a);
        write(root.dir / "x", "x");
        // Through links, and of another save's.
        fs::create_symlink(root.dir / "x", place / "linked.distcp");
        fs::create_symlink(root.dir / "other" / "__0_0.distcp", place / "__5_0.distcp");
        fs::create_directory_symlink(root.dir / "other", place / "link");
        write_data(place / ("__6_0." + id_b + ".distcp"), id_b);
        write(place / ("results." + id_a + ".csv"), "1,2");
        write_data(place / "__7_0.distcp", id_b);
        before = below(root.dir);
    }
    /// All of them are there, and the checkpoint `v`, and no more.
    void check(float v) const {
        BOOST_TEST(support::load_whole(cairn::file_store(), place.string()).tensors.size() == 1u);
        std::vector<float> w(4);
        cairn::state_dict sd{{"w", w}};
        cairn::load(sd, place.string());
        BOOST_TEST(w[3] == v);
        cairn::load(sd, (place / "sub").string());
        BOOST_TEST(w[3] == 7.0f);
        auto after = below(root.dir);
        for (auto const& name : before) BOOST_TEST(after.erase(name) == 1u, "it removed " << name);
        BOOST_TEST(after.size() == 2u);  // .metadata and one data file
        for (auto const& name : after)
            if (after.size() != 2) BOOST_TEST_MESSAGE("left: " << name);
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_a_replaced_index_merely_names_stays) {
    strangers s;
    auto names = s.names;
    names.push_back("__0_0.distcp");
    names.push_back("__1_0." + id_a + ".distcp");
    names.push_back("mine.bin");
    names.push_back("parts/mine.bin");
    write(s.place / "__0_0.distcp", "no footer: killed, or PyTorch's");
    write(s.place / ("__1_0." + id_a + ".distcp"), "by its name");
    write_data(s.place / "mine.bin", id_a);
    write_data(s.place / "parts" / "mine.bin", id_a);
    write(s.place / ".metadata", cairn::format::native::make_metadata_file(naming(names, id_a)));
    auto const warnings = save(s.place.string(), 2);
    s.check(2);
    // Of another save's file by its name there is nothing to say: it goes once it has expired.
    BOOST_TEST(!mentions(warnings, "__6_0."));
    for (auto const* what : {"train.py", "empty.txt", ".hidden", "sub/.metadata",
                             "sub/__0_0.distcp", "sub/deep/__1_0.distcp", "../other",
                             "linked.distcp", "__5_0.distcp", "__7_0.distcp", "link/__0_0.distcp"})
        BOOST_TEST(mentions(warnings, what), what);
    BOOST_TEST(save(s.place.string(), 3).empty());
    s.check(3);
}

BOOST_AUTO_TEST_CASE(what_a_replaced_pickle_merely_names_stays) {
    strangers s;
    auto names = s.names;
    names.push_back("__0_0.distcp");
    names.push_back("__12_34.distcp");
    write(s.place / "__0_0.distcp", "PyTorch's");
    write(s.place / "__12_34.distcp", "PyTorch's");
    write(s.place / ".metadata", cairn::format::torch::write_metadata_pickle(naming(names, {})));
    auto const warnings = save(s.place.string(), 2);
    s.check(2);
    for (auto const* what : {"train.py", "sub/.metadata", "linked.distcp", "__7_0.distcp"})
        BOOST_TEST(mentions(warnings, what), what);
}

BOOST_AUTO_TEST_CASE(what_an_old_intent_merely_names_stays) {
    strangers s;
    cairn::detail::save_intent i;
    i.save_id = id_a;
    i.names = s.names;
    i.replaced = s.names;
    i.names.push_back("__0_0.distcp");
    i.names.push_back("__1_0." + id_a + ".distcp");
    write(s.place / "__0_0.distcp", "killed");
    write(s.place / ("__1_0." + id_a + ".distcp"), "by its name");
    write(s.place / (".saving." + id_a), i.encode());
    for (auto const& file : fs::recursive_directory_iterator(s.place))
        if (file.is_regular_file())
            fs::last_write_time(file.path(),
                                fs::last_write_time(file.path()) - std::chrono::hours(25));
    auto const warnings = save(s.place.string(), 2);
    s.check(2);
    for (auto const* what : {"train.py", "empty.txt", "sub/.metadata", "linked.distcp"})
        BOOST_TEST(mentions(warnings, what), what);
    BOOST_TEST(save(s.place.string(), 3).empty());
    s.check(3);
}

BOOST_AUTO_TEST_CASE(files_under_names_of_the_users_own_are_removed) {
    support::scratch dir;
    auto const id = (dir.dir / "c").string();
    cairn::save_options o;
    o.storage.single_file_per_rank = false;
    o.storage.file_name = [](int rank, int n) {
        return "parts/rank" + std::to_string(rank) + "." + std::to_string(n) + ".bin";
    };
    for (float v : {1.0f, 2.0f, 3.0f}) {
        BOOST_TEST(save(id, v, o).empty());
        BOOST_TEST(below(id).size() == 2u);
    }
    BOOST_TEST(save(id, 4).empty());
    BOOST_TEST(below(id).size() == 2u);
    BOOST_TEST(!fs::exists(fs::path(id) / "parts"));
    // Of a save that fails, too.
    support::meddling_store store(
        cairn::file_store(dir.dir),
        {.before_publish = support::failing(1, "c/.metadata", cairn::errc::io)});
    std::vector<float> w(4, 5);
    cairn::state_dict sd{{"w", w}};
    BOOST_CHECK_THROW(cairn::save(sd, "c", o, store), cairn::error);
    BOOST_TEST(below(id).size() == 2u);
    BOOST_TEST(!fs::exists(fs::path(id) / "parts"));
    // Of a rank without items too.
    fs::remove_all(id);
    o.storage.single_file_per_rank = true;
    for (int again = 0; again < 2; ++again) {
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            std::vector<float> some(2, 1);
            cairn::state_dict mine;
            if (me.rank() == 0) mine["w"] = some;
            BOOST_TEST(cairn::save(mine, id, o, me).warnings.empty());
        });
        BOOST_TEST(below(id).size() == 3u);
    }
}

/// Whoever removed what the intent lists, e.g. another host, need not have synced that.
BOOST_AUTO_TEST_CASE(files_are_gone_for_good_before_their_intent_is) {
    cairn::memory_store base;
    std::vector<float> w(4, 1);
    cairn::state_dict sd{{"w", w}};
    cairn::save(sd, "c", base);
    syncing_store store(base.at("c"));
    cairn::detail::claim<syncing_store> mine;
    (void)mine.take(store, id_a, {"__0_0.distcp"}, true);
    for (auto const& info : store.list())
        if (info.name.ends_with(".distcp")) base.at("c").remove(info.name);
    store.calls.clear();
    BOOST_TEST(mine.sweep(store, {}, nullptr).empty());
    BOOST_TEST(store.calls == (std::vector<std::string>{"sync", "remove .saving." + id_a}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_removed_is_a_warning_and_collected_later) {
    int failed = 0;
    for (auto const what : support::all_thrown) {
        for (int at = 0;; ++at) {
            cairn::memory_store base;
            std::vector<float> w(4, 1);
            cairn::state_dict sd{{"w", w}};
            cairn::save(sd, "c", base);
            support::fault_store store(base, support::fault{at, what, false});
            std::vector<std::string> warnings;
            try {
                warnings = cairn::save(sd, "c", store).warnings;
            } catch (const cairn::error&) {
                continue;
            }
            if (store.hit().empty()) break;
            BOOST_TEST_CONTEXT("operation " << at << " (" << store.hit() << ") throws "
                                            << name_of(what)) {
                if (store.hit() == "remove") {
                    ++failed;
                    BOOST_TEST(warnings.size() == 1u);
                }
                BOOST_TEST(cairn::save(sd, "c", base).warnings.empty());
                BOOST_TEST(base.at("c").list().size() == 2u);
            }
        }
    }
    BOOST_TEST(failed == 2 * 4);  // the old data file, and the intent
}

/// Whose removals wait for each other, until `most` of them are there.
struct slow_remover : support::forwarding_store<cairn::memory_store> {
    using forwarding_store::forwarding_store;
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    slow_remover at(const std::string& id) const {
        slow_remover other = *this;
        other.store_ = store_.at(id);
        return other;
    }
    std::size_t requests_in_flight() const { return most; }
    void remove(std::string_view n) {
        {
            std::unique_lock lock(shared->m);
            shared->largest = std::max(shared->largest, ++shared->now);
            shared->changed.notify_all();
            shared->changed.wait_for(lock, std::chrono::seconds(2),
                                     [&] { return shared->largest >= int(most); });
        }
        store_.remove(n);
        std::lock_guard const lock(shared->m);
        --shared->now;
    }

    struct count {
        std::mutex m{};
        std::condition_variable changed{};
        int now = 0, largest = 0;
    };
    std::shared_ptr<count> shared = std::make_shared<count>();
    std::size_t most = 5;
};

BOOST_AUTO_TEST_CASE(a_store_that_wants_several_requests_at_once_gets_them) {
    slow_remover store{cairn::memory_store()};
    std::vector<std::vector<float>> w(8, std::vector<float>(100, 1.0F));
    cairn::state_dict sd;
    for (std::size_t i = 0; i < w.size(); ++i) sd["w" + std::to_string(i)] = w[i];
    cairn::torch_writer_options o;
    o.thread_count = 8;
    for (int save = 0; save < 2; ++save) {
        auto const report = cairn::save(sd, "c", cairn::torch_writer(store, o));
        BOOST_TEST(report.warnings.empty());
    }
    BOOST_TEST(store.shared->largest == 5);
    // The data files and the metadata.
    BOOST_TEST(store.at("c").list().size() == 9U);
}

BOOST_AUTO_TEST_SUITE_END()
