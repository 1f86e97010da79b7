// SPDX-License-Identifier: Apache-2.0
// Without a plan or a format: each rank writes its bytes to its own file, and a marker file, which
// is written last, makes all of them valid at once.
#include <cairn/cairn.hpp>
#include <cairn/comm/launched_ranks.hpp>

#include <atomic>
#include <cstdio>
#include <vector>

/// Broadcasts nothing: no rank returns before all have called it.
void wait_for_all(cairn::any_communicator& ranks) {
    (void)cairn::await_completion<cairn::message>(
        [&](auto done) { ranks.broadcast({}, 0, cairn::no_deadline, std::move(done)); });
}

void save(cairn::any_communicator& ranks, const std::string& dir, cairn::byte_span mine) {
    cairn::file_store store(dir);
    if (ranks.rank() == 0) store.remove("complete");  // an old marker must not cover new files
    wait_for_all(ranks);
    auto const name = "rank_" + std::to_string(ranks.rank());
    store.remove(name);
    auto file = store.create(name, mine.size());
    file.write(0, mine);
    file.finish(true);
    store.sync();
    wait_for_all(ranks);
    if (ranks.rank() == 0) store.publish("complete", {}, std::nullopt);
}

int main() {
    std::atomic<int> wrong{0};
    cairn::run_launched_ranks(3, [&](cairn::any_communicator& ranks) {
        std::vector<int> state(1000, ranks.rank());
        save(ranks, "ckpt/by_hand", std::as_bytes(std::span(state)));
        wait_for_all(ranks);
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
