// SPDX-License-Identifier: Apache-2.0
// For libFuzzer, all targets in one program:
//     clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize=function
//         -Iinclude -Itests tests/fuzz/libfuzzer.cpp tests/support/allocations.cpp
//         -ldeflate -lz -lzstd && CAIRN_FUZZ=pickle ./a.out NEW tests/fuzz/corpus/pickle
#include "targets.hpp"

#include "support/allocations.hpp"
#include "support/error_codes.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

const fuzz::target* chosen = nullptr;

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(unsigned char* data, std::size_t size, std::size_t room);

extern "C" int LLVMFuzzerInitialize(int*, char***) {
    auto const* const name = std::getenv("CAIRN_FUZZ");
    for (auto const& t : fuzz::targets)
        if (name != nullptr && t.name == name) chosen = &t;
    if (chosen != nullptr) return 0;
    std::fprintf(stderr, "CAIRN_FUZZ must be one of:");
    for (auto const& t : fuzz::targets) std::fprintf(stderr, " %s", std::string(t.name).c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
}

extern "C" std::size_t LLVMFuzzerCustomMutator(unsigned char* data, std::size_t size,
                                               std::size_t room, unsigned seed) {
    fuzz::engine e(seed);
    fuzz::input b;
    try {
        if (chosen->change != nullptr && !e.one_in(4))
            b = chosen->change(std::as_bytes(std::span(data, size)), e);
    } catch (const cairn::error&) {  // it cannot be read, or written
    }
    if (b.empty() || b.size() > room) {
        size = LLVMFuzzerMutate(data, size, room);
        auto const changed = std::as_bytes(std::span(data, size));
        b.assign(changed.begin(), changed.end());
        if (chosen->seal != nullptr && !e.one_in(8)) chosen->seal(b);
    }
    if (b.size() > room) b.resize(room);
    if (!b.empty()) std::memcpy(data, b.data(), b.size());
    return b.size();
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    support::allocations const memory(chosen->memory(size));
    try {
        chosen->run(std::as_bytes(std::span(data, size)));
    } catch (const cairn::error& e) {  // refused, as it should be
        if (!support::is_about_content(e)) std::abort();
    }
    if (memory.exceeded()) std::abort();
    return 0;
}
