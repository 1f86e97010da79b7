// SPDX-License-Identifier: Apache-2.0
// Without plans and formats: each rank's bytes in a file of its own, complete or not at all.
#include <cairn/cairn.hpp>
#include <cairn/comm/launched_ranks.hpp>

#include <atomic>
#include <cstdio>
#include <vector>

using cairn::await_completion, cairn::no_deadline;

void save(cairn::any_communicator& ranks, const std::string& dir, cairn::byte_span mine) {
    cairn::file_store store(dir);
    if (ranks.rank() == 0) store.remove("complete");  // an old mark must not vouch for new files
    await_completion<cairn::done_t>(
        [&](auto done) { ranks.barrier(no_deadline, std::move(done)); });
    auto const name = "rank_" + std::to_string(ranks.rank());
    store.remove(name);
    auto file = store.create(name, mine.size());
    file.write(0, mine);
    file.finish(true);
    store.sync();
    await_completion<cairn::done_t>(
        [&](auto done) { ranks.barrier(no_deadline, std::move(done)); });
    if (ranks.rank() == 0) store.publish("complete", {}, std::nullopt);
}

int main() {
    std::atomic<int> wrong{0};
    cairn::run_launched_ranks(3, [&](cairn::any_communicator& ranks) {
        std::vector<int> state(1000, ranks.rank());
        save(ranks, "ckpt/by_hand", std::as_bytes(std::span(state)));
        await_completion<cairn::done_t>(
            [&](auto done) { ranks.barrier(no_deadline, std::move(done)); });
        cairn::file_store store("ckpt/by_hand");
        std::vector<int> again(1000, -1);
        if (!store.tag("complete").text.empty())
            store.open("rank_" + std::to_string(ranks.rank()))
                .read(0, std::as_writable_bytes(std::span(again)));
        wrong += again != state;
    });
    std::printf("by hand: %d ranks wrong\n", wrong.load());
    return wrong != 0;
}
