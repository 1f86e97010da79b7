// SPDX-License-Identifier: Apache-2.0
// mixed save DIR RANKS | load DIR RANKS | describe: cairn's half of the exchange with PyTorch.
#include "mixed_state.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>

namespace {

void describe() {
    std::cout << "{\"tensors\": {";
    bool first = true;
    for (auto const& t : mixed::tensors()) {
        std::cout << (first ? "" : ", ") << '"' << t.fqn << "\": {\"dtype\": \""
                  << cairn::name_of(t.type) << "\", \"shape\": " << cairn::to_string(t.shape)
                  << ", \"hex\": \"";
        first = false;
        auto const bytes = static_cast<std::uint64_t>(t.shape.product()) * cairn::size_of(t.type);
        for (std::uint64_t i = 0; i < bytes; ++i)
            std::printf("%02x", static_cast<unsigned>(mixed::content(t.fqn, i)));
        std::cout << "\"}";
    }
    std::cout << "}}\n";
}

}  // namespace

int main(int argc, char** argv) {
    std::string const verb = argc > 1 ? argv[1] : "";
    if (verb == "describe") {
        std::ios::sync_with_stdio(true);
        describe();
        return 0;
    }
    if (argc != 4 || (verb != "save" && verb != "load")) {
        std::cerr << "usage: mixed save|load DIR RANKS, or mixed describe\n";
        return 2;
    }
    std::string const dir = argv[2];
    int const ranks = std::atoi(argv[3]);
    std::mutex m;
    int wrong = 0;
    try {
        cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
            mixed::state s(me.rank(), me.size(), verb == "save");
            if (verb == "save") {
                cairn::save(s, dir, me);
                return;
            }
            cairn::load(s, dir, me);
            std::lock_guard const lock(m);
            for (auto const& fqn : s.differences()) {
                std::cerr << "rank " << me.rank() << ": " << fqn << " differs\n";
                ++wrong;
            }
        });
    } catch (const std::exception& e) {
        std::cerr << "mixed: " << e.what() << "\n";
        return 2;
    }
    return wrong == 0 ? 0 : 1;
}
