// SPDX-License-Identifier: Apache-2.0
// A rank that lost touch after it sent its results asks the storage, and removes nothing.
#include "support/fault_store.hpp"
#include "support/whole.hpp"

#include <boost/test/unit_test.hpp>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(outcome_without_a_verdict)

namespace {

/// A member of a group whose n-th broadcast is taken part in, but never heard of. A save has two:
/// the first names it, the second is the verdict.
class deaf {
public:
    deaf(cairn::thread_group::member& me, int lost) : me_(&me), lost_(lost) {}
    int rank() const { return me_->rank(); }
    int size() const { return me_->size(); }
    void gather(cairn::message m, int root, cairn::deadline d,
                cairn::completion<std::vector<cairn::message>> done) {
        me_->gather(std::move(m), root, d, std::move(done));
    }
    void scatter(std::vector<cairn::message> ms, int root, cairn::deadline d,
                 cairn::completion<cairn::message> done) {
        me_->scatter(std::move(ms), root, d, std::move(done));
    }
    void broadcast(cairn::message m, int root, cairn::deadline d,
                   cairn::completion<cairn::message> done) {
        if (broadcasts_++ != lost_) return me_->broadcast(std::move(m), root, d, std::move(done));
        (void)cairn::await_completion<cairn::message>(
            [&](auto heard) { me_->broadcast(std::move(m), root, d, std::move(heard)); });
        done.fail(std::make_exception_ptr(
            cairn::error(cairn::errc::timed_out, {.found = "a verdict that was dropped"})));
    }
    void all_gather(cairn::message m, cairn::deadline d,
                    cairn::completion<std::vector<cairn::message>> done) {
        me_->all_gather(std::move(m), d, std::move(done));
    }
    void share(std::shared_ptr<const cairn::activity> a) { me_->share(std::move(a)); }
    void cancel() noexcept { me_->cancel(); }

private:
    cairn::thread_group::member* me_;
    int lost_;
    int broadcasts_ = 0;
};
static_assert(cairn::Communicator<deaf>);

constexpr int verdict = 1;

/// Three ranks save; what each ended with: nothing, or its error's code.
/// @param hit  Gets the name of the operation that failed; empty if none did.
std::vector<std::optional<cairn::error>> save(cairn::memory_store base, float v, int deaf_rank,
                                              int fail_rank = -1, int fail_at = -1,
                                              std::string* hit = nullptr) {
    std::vector<std::optional<cairn::error>> ended(3);
    cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
        std::vector<float> rows(2, v);
        cairn::state_dict sd{
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {1, 2}, rows.data()),
                                       {3, 2}, cairn::device_mesh::line(3), {cairn::shard_along{0}},
                                       me.rank())}};
        support::fault_store<cairn::memory_store> store(base,
                                                        me.rank() == fail_rank ? fail_at : -1);
        deaf comm(me, me.rank() == deaf_rank ? verdict : -1);
        try {
            cairn::save(sd, "c", comm, store);
        } catch (const cairn::error& e) {
            ended[static_cast<std::size_t>(me.rank())] = e;
        }
        if (hit != nullptr && me.rank() == fail_rank) *hit = store.hit();
    });
    return ended;
}

std::size_t data_files(cairn::memory_store base) {
    std::size_t n = 0;
    for (auto const& i : base.at("c").list()) n += i.name.ends_with(".distcp");
    return n;
}

std::string text(const std::optional<cairn::error>& e) {
    return e ? e->what() : "";
}

bool is(const std::optional<cairn::error>& e, cairn::errc code) {
    return e && e->code() == cairn::make_error_code(code);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_save_that_the_metadata_names_has_succeeded) {
    for (int rank : {0, 1, 2}) {
        BOOST_TEST_CONTEXT("rank " << rank) {
            cairn::memory_store store;
            auto const ended = save(store, 1, rank);
            for (auto const& e : ended) BOOST_TEST(text(e) == "");
            auto const again = save(store, 2, rank);  // over what stands there
            for (auto const& e : again) BOOST_TEST(text(e) == "");
            BOOST_TEST(support::load_whole(store, "c").tensors.at("w").bytes.size() == 24u);
            BOOST_TEST(data_files(store) == 3u);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_outcome_is_unknown_where_another_stands_and_files_stay) {
    // Find the coordinator's publish of the metadata: the last operation whose failure says so.
    int publish = -1;
    for (int k = 0; k < 30; ++k) {
        cairn::memory_store store;
        BOOST_REQUIRE((!save(store, 1, -1)[0]));
        auto const e = save(store, 2, -1, 0, k)[0];
        if (e && std::string(e->what()).find("into publish") != std::string::npos) publish = k;
    }
    BOOST_REQUIRE(publish >= 0);
    cairn::memory_store store;
    save(store, 1, -1);
    auto const ended = save(store, 2, 1, 0, publish);
    BOOST_TEST(is(ended[0], cairn::errc::io), text(ended[0]));
    BOOST_TEST(is(ended[2], cairn::errc::io));
    BOOST_TEST(is(ended[1], cairn::errc::outcome_unknown));
    auto const said = text(ended[1]);
    BOOST_TEST(said.find("dropped") != std::string::npos, said);
    BOOST_TEST(said.find("look for save id") != std::string::npos, said);
    // Rank 1 removes nothing. The coordinator knows that nothing was committed, and removes what it
    // can find; of what may still come, the intent tells a later save.
    BOOST_TEST(data_files(store) == 3u);
    BOOST_TEST(store.at("c").list().size() == 5u);
    auto const w = support::load_whole(store, "c");
    float first = 0;
    std::memcpy(&first, w.tensors.at("w").bytes.data(), sizeof first);
    BOOST_TEST(first == 1.0f);
    for (auto const& e : save(store, 3, -1)) BOOST_TEST(text(e) == "");
    BOOST_TEST(store.at("c").list().size() == 4u);
}

/// What nobody can read can be overwritten; whoever has not begun to is not in doubt.
BOOST_AUTO_TEST_CASE(the_outcome_is_known_where_a_broken_checkpoint_stands) {
    int failed = 0;
    bool published = false;
    for (int at = 0;; ++at) {
        cairn::memory_store store;
        store.publish("c/.metadata", std::as_bytes(std::span("broken")), std::nullopt);
        std::string hit;
        auto const ended = save(store, 2, -1, 0, at, &hit);
        if (!ended[0]) {
            BOOST_TEST(support::load_whole(store, "c").tensors.size() == 1u);
            if (hit.empty()) break;
            continue;  // what may fail: e.g. the sweep
        }
        ++failed;
        published = published || hit == "publish";
        for (auto const& e : ended) {
            BOOST_TEST(!is(e, cairn::errc::outcome_unknown), "operation " << at << text(e));
            BOOST_TEST(text(e).find("injected") != std::string::npos, text(e));
        }
        BOOST_TEST(data_files(store) == 0u);
        for (auto const& e : save(store, 3, -1)) BOOST_TEST(text(e) == "");
        BOOST_TEST(store.at("c").list().size() == 4u);
    }
    BOOST_TEST(failed > 10);
    BOOST_TEST(published);
}

BOOST_AUTO_TEST_CASE(committed_tells_saves_apart) {
    cairn::memory_store store;
    std::vector<float> w(2, 1);
    cairn::state_dict sd{{"w", w}};
    auto const first = cairn::save(sd, "c", store).save_id;
    cairn::torch_writer writer{store};
    writer.reset("c");
    BOOST_TEST(writer.committed(first));
    BOOST_TEST(!writer.committed("0123456789abcdef0123456789abcdef"));
    auto const second = cairn::save(sd, "c", store).save_id;
    BOOST_TEST(writer.committed(second));
    BOOST_TEST(!writer.committed(first));
    writer.reset("nowhere");
    BOOST_TEST(!writer.committed(first));
    store.publish("broken/.metadata", {}, std::nullopt);
    writer.reset("broken");
    BOOST_CHECK_THROW((void)writer.committed(first), cairn::error);
}

BOOST_AUTO_TEST_SUITE_END()
