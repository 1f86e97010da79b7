// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "json.hpp"

#include <cairn/catalog/listing.hpp>
#include <cairn/printable.hpp>

#include <iostream>
#include <optional>

namespace tool {

inline void print_line(const cairn::listed_checkpoint& c) {
    std::cout << cairn::terminal_text(c.id) << "  " << name_of(c.state) << "  " << c.bytes
              << " bytes";
    if (c.record) {
        std::cout << "  step " << c.record->step << "  " << time_text(c.record->committed);
        for (auto const& [name, value] : c.record->metrics)
            std::cout << "  " << cairn::terminal_text(name) << '=' << number(value);
    }
    if (!c.problem.empty()) std::cout << "  " << cairn::terminal_text(c.problem);
    std::cout << '\n';
}
inline void print_json(const cairn::listed_checkpoint& c) {
    std::cout << " {\"id\": " << json_string(c.id) << ", \"state\": \"" << name_of(c.state)
              << "\", \"bytes\": " << c.bytes;
    if (c.record) {
        std::cout << ", \"sequence\": " << c.record->sequence << ", \"step\": " << c.record->step
                  << ", \"committed\": " << json_string(time_text(c.record->committed))
                  << ", \"metrics\": {";
        bool first = true;
        for (auto const& [name, value] : c.record->metrics) {
            std::cout << (first ? "" : ", ") << json_string(name) << ": " << strict_number(value);
            first = false;
        }
        std::cout << "}";
    }
    if (!c.problem.empty()) std::cout << ", \"problem\": " << json_string(c.problem);
    std::cout << "}";
}

/// @return `could_not_run` if nothing in it has to do with checkpoints
int list_directory(const std::string& directory, bool as_json) {
    auto place = store_of(directory).at(directory);
    // In a bucket, to examine each takes some requests for each.
    using level = std::optional<cairn::verify_level>;
    auto const all = cairn::list_checkpoints(
        place, is_url(directory) ? level() : level(cairn::verify_level::metadata));
    if (all.empty()) return could_not_run;
    bool first = true;
    if (as_json) std::cout << "[";
    for (auto const& c : all) {
        if (!as_json) {
            print_line(c);
            continue;
        }
        std::cout << (first ? "\n" : ",\n");
        print_json(c);
        first = false;
    }
    if (as_json) std::cout << "\n]\n";
    return fine;
}

}  // namespace tool
