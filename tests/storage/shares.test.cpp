// SPDX-License-Identifier: Apache-2.0
// Once a save is committed, each rank removes its share of the checkpoint that was replaced; what
// is not certainly that checkpoint's is left to the coordinator's sweep.
#include "interrupted.hpp"
#include "support/forwarding_store.hpp"
#include "support/on_threads.hpp"
#include "support/whole.hpp"

#include <cairn/cairn.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/storage/claim.hpp>
#include <cairn/storage/data_file_proof.hpp>
#include <cairn/storage/file_names.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(shares)

using namespace interrupted;
using cairn::detail::rank_files;

namespace {

/// What was removed, by whom.
struct removals {
    std::mutex m{};
    std::map<int, std::vector<std::string>> by{};
};

/// One rank's view of a store.
class rank_store : public support::forwarding_store<cairn::memory_store> {
public:
    rank_store(cairn::memory_store s, int rank, std::shared_ptr<removals> seen)
        : forwarding_store(std::move(s)), rank_(rank), seen_(std::move(seen)) {}

    rank_store at(const std::string& id) const { return {store_.at(id), rank_, seen_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    void remove(std::string_view n) {
        {
            std::lock_guard const lock(seen_->m);
            seen_->by[rank_].emplace_back(n);
        }
        store_.remove(n);
    }

private:
    int rank_;
    std::shared_ptr<removals> seen_;
};

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

std::vector<std::string> data_files(cairn::memory_store store) {
    std::vector<std::string> all;
    for (auto const& i : store.at("c").list())
        if (i.name.ends_with(".distcp")) all.push_back(i.name);
    return all;
}

/// Saves one row of each rank over what is there, and returns what each has removed.
std::map<int, std::vector<std::string>> save(const cairn::memory_store& base, int ranks, float v) {
    auto const seen = std::make_shared<removals>();
    cairn::thread_group group(ranks);
    support::rethrow_first(support::try_on_threads(ranks, [&](int r) {
        auto me = group.rank(r);
        std::vector<float> row(2, v);
        cairn::state_dict sd{
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {1, 2}, row.data()),
                                       {ranks, 2}, cairn::device_mesh::line(ranks),
                                       {cairn::shard_along{0}}, r)}};
        auto const report = cairn::save(sd, "c", me, rank_store(base, r, seen));
        if (!report.warnings.empty()) throw std::runtime_error(report.warnings.front());
    }));
    return seen->by;
}

cairn::byte_vector file_of(const std::string& save_id) {
    auto bytes = cairn::detail::owners_mark(save_id);
    bytes.insert(bytes.begin(), 1000, std::byte{1});
    return bytes;
}
/// Whether a rank with this share removes all of it.
bool removes(cairn::memory_store store, const std::vector<std::string>& share) {
    cairn::torch_writer writer{store};
    writer.reset("");
    writer.set_up_writer({1, 2, false, id_b, {}, {}});
    cairn::save_plan plan;
    plan.storage_data = rank_files{{"__1_0." + id_b + ".distcp"}, share, id_a}.encode();
    (void)cairn::await_completion<cairn::write_results>(
        [&](auto done) { writer.write_data(plan, {}, std::move(done)); });
    return cairn::await_completion<cairn::share_result>(
               [&](auto done) { writer.remove_share(std::move(done)); })
        .all_removed;
}

}  // namespace

BOOST_AUTO_TEST_CASE(are_equal_parts_of_what_cairn_wrote) {
    for (int before : {1, 3, 7}) {
        cairn::memory_store store;
        BOOST_TEST(save(store, before, 1).at(0).size() == 1u);  // the intent
        auto old = data_files(store);
        BOOST_TEST(old.size() == static_cast<std::size_t>(before));
        auto by = save(store, 3, 2);
        auto const intent = by[0].back();
        BOOST_TEST(intent.starts_with(".saving."));
        by[0].pop_back();
        std::vector<std::string> all;
        for (int r = 0; r < 3; ++r) {
            BOOST_TEST(by[r].size() == static_cast<std::size_t>((before + 2 - r) / 3));
            all.insert(all.end(), by[r].begin(), by[r].end());
        }
        std::sort(all.begin(), all.end());
        std::sort(old.begin(), old.end());
        BOOST_TEST(all == old, boost::test_tools::per_element());
        BOOST_TEST(data_files(store).size() == 3u);
        BOOST_TEST(support::load_whole(store, "c").tensors.at("w").bytes.size() == 24u);
    }
}

/// PyTorch's files bear no id: the coordinator alone looks whose they are.
BOOST_AUTO_TEST_CASE(are_empty_for_what_pytorch_wrote) {
    cairn::memory_store store;
    save(store, 3, 1);
    auto const old = data_files(store);
    auto const file =
        cairn::format::native::parse_metadata_file(cairn::detail::read_whole(store, "c/.metadata"));
    for (auto const& name : old) store.publish("c/" + name, cairn::byte_vector(999), std::nullopt);
    auto const pickle = cairn::format::native::make_metadata_file(file.meta);
    store.publish("c/.metadata", std::span(pickle).first(file.pickle_bytes), std::nullopt);
    auto const by = save(store, 3, 2);
    BOOST_TEST(by.count(1) == 0u);
    BOOST_TEST(by.count(2) == 0u);
    BOOST_TEST(by.at(0).size() == 4u);
    BOOST_TEST(data_files(store).size() == 3u);
}

/// A rank may come to it late: what has no id may be what another save has just created.
BOOST_AUTO_TEST_CASE(leave_what_bears_no_id_or_anothers) {
    cairn::memory_store store;
    auto const with_id = "__0_0." + id_a + ".distcp";
    store.publish("__0_0.distcp", file_of(id_a), std::nullopt);
    store.publish(with_id, {}, std::nullopt);
    store.publish("parts/mine.bin", file_of(id_a), std::nullopt);
    BOOST_TEST(removes(store, {"__0_0.distcp", with_id, "parts/mine.bin", "gone.bin"}));
    for (auto const& info : store.list()) BOOST_TEST(info.name == "__1_0." + id_b + ".distcp");

    for (auto const& [name, bytes] :
         std::map<std::string, cairn::byte_vector>{{"__2_0.distcp", {}},
                                                   {"__3_0.distcp", cairn::byte_vector(1000)},
                                                   {"__4_0.distcp", file_of(std::string(32, 'c'))},
                                                   {"train.py", file_of(id_a)},
                                                   {".metadata", file_of(id_a)}}) {
        cairn::memory_store with;
        with.publish(name, bytes, std::nullopt);
        BOOST_TEST(!removes(with, {name}) == (name != "train.py"), name);
        BOOST_TEST(with.tag(name).text.empty() == (name == "train.py"), name);
    }
}

/// A rank that removes its share does not sync that, and the coordinator may not hear of it.
BOOST_AUTO_TEST_CASE(are_gone_for_good_before_the_intent_is) {
    cairn::memory_store base;
    save(base, 2, 1);
    syncing_store store(base.at("c"));
    cairn::detail::claim<syncing_store> mine;
    (void)mine.take(store, id_a, {"__0_0.distcp"}, true);
    for (auto const& name : mine.shared()) base.at("c").remove(name);
    store.calls.clear();
    BOOST_TEST(mine.sweep(store, {}, nullptr, false).empty());
    BOOST_TEST(store.calls == (std::vector<std::string>{"sync", "remove .saving." + id_a}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(leave_what_a_running_save_may_name) {
    interrupted::place p;
    cairn::file_store store(p.at);
    p.save_well(2);
    std::string standing;
    for (auto const& info : store.list())
        if (info.name.ends_with(".distcp")) standing = info.name;
    auto other = of_another_host(id_b);
    other.names.push_back(standing);
    auto const record = ".saving." + id_b;
    p.write(record, other.encode());

    cairn::detail::claim<cairn::file_store> mine;
    (void)mine.take(store, id_a, {"__0_0.distcp"}, true);
    BOOST_TEST(mine.shared().empty());
    // It has ended meanwhile, and left its files: the sweep finds them.
    fs::remove(p.at / record);
    (void)mine.sweep(store, {}, nullptr, true);
    BOOST_TEST(!p.has(standing));
    BOOST_TEST(!p.has(".saving." + id_a));

    interrupted::place q;
    cairn::file_store there(q.at);
    cairn::detail::claim<cairn::file_store> alone;
    (void)alone.take(there, id_a, {"__0_0.distcp"}, true);
    BOOST_TEST(alone.shared().size() == 1u);
    (void)alone.release(there);
}

BOOST_AUTO_TEST_SUITE_END()
