// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "mapping.hpp"

#include <cairn/mapping/check.hpp>
#include <cairn/printable.hpp>

#include <iostream>
#include <string>

namespace tool {

using cairn::terminal_text;

int map(const std::string& file, const std::string& checkpoint) {
    auto const how = read_mapping(file);
    auto const r = cairn::check(how, metadata_for(how, checkpoint));
    auto const pattern = [&](std::size_t line) {
        return "'" + terminal_text(how.lines()[line].name) + "'";
    };
    for (auto const& line : r.errors) std::cout << "error: " << terminal_text(line) << '\n';
    for (auto const& name : r.unused) std::cout << "not used: '" << terminal_text(name) << "'\n";
    for (auto const& name : r.idle)
        std::cout << "matches nothing: '" << terminal_text(name) << "'\n";
    for (auto const& a : r.ambiguous)
        std::cout << "two could make '" << terminal_text(a.name) << "': " << pattern(a.made_by)
                  << ", which does, and " << pattern(a.also_by) << '\n';
    std::cout << r.made.size() << (r.made.size() == 1 ? " name" : " names") << " made, "
              << r.errors.size() << (r.errors.size() == 1 ? " error" : " errors") << '\n';
    return r.empty() ? fine : finding;
}

}  // namespace tool
