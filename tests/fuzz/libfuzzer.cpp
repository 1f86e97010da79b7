// SPDX-License-Identifier: Apache-2.0
// For libFuzzer, one target a program:
//     clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -DCAIRN_FUZZ=pickle
//         -Iinclude tests/fuzz/libfuzzer.cpp -ldeflate -lz && ./a.out tests/fuzz/corpus/pickle
#include "targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    try {
        fuzz::CAIRN_FUZZ(std::as_bytes(std::span(data, size)));
    } catch (const cairn::error&) {  // refused, as it should be
    }
    return 0;
}
