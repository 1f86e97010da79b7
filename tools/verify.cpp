// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <iostream>

namespace tool {

cairn::verify_report verified(const std::string& checkpoint) {
    // A checkpoint that is a file, or the metadata of one rank.
    if (is_file(checkpoint)) {
        auto const [within, name] = directory_and_name(checkpoint);
        return cairn::verify(store_of(checkpoint).at(within), {}, name);
    }
    return naming_dead_links(checkpoint,
                             [&] { return cairn::verify(store_of(checkpoint).at(checkpoint)); });
}

int verify(const std::string& checkpoint) {
    auto const r = verified(checkpoint);
    if (!r.torch_metadata) std::cout << only_cairn;
    for (auto const& line : r.findings) std::cout << line << '\n';
    for (auto const& line : r.unverified) std::cout << "not checked: " << line << '\n';
    auto const n = r.findings.size();
    std::cout << r.items << " items, " << r.bytes << " bytes, " << r.files
              << (r.files == 1 ? " file: " : " files: ")
              << (n == 0   ? "all fine"
                  : n == 1 ? "1 finding"
                           : std::to_string(n) + " findings")
              << '\n';
    return r.whole() ? fine : finding;
}

}  // namespace tool
