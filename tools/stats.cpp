// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "checkpoint_statistics.hpp"
#include "json.hpp"
#include "table.hpp"

#include <cairn/printable.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tool {

namespace {

std::string json_number(const element_value& v) {
    if (auto const* d = std::get_if<double>(&v)) return number(*d);
    return table_number(v);
}

std::string json_of(const tensor_statistics& s) {
    bool const any = s.finite() != 0;
    auto const or_null = [&](const std::string& text) { return any ? text : "null"; };
    auto out = ", \"elements\": " + std::to_string(s.elements) +
               ", \"min\": " + (any ? json_number(*s.min) : "null") +
               ", \"max\": " + (any ? json_number(*s.max) : "null") +
               ", \"mean\": " + or_null(number(s.mean)) +
               ", \"deviation\": " + or_null(number(s.deviation())) +
               ", \"zeros\": " + std::to_string(s.zeros) + ", \"nan\": " + std::to_string(s.nans) +
               ", \"inf\": " + std::to_string(s.infs);
    if (s.bins.most_bins == 0) return out;
    out += ", \"histogram\": {\"from\": " + or_null(number(s.bins.edge(0))) +
           ", \"width\": " + or_null(number(s.bins.width())) + ", \"counts\": [";
    for (std::size_t i = 0; i < s.bins.counts.size(); ++i)
        out += (i == 0 ? "" : ", ") + std::to_string(s.bins.counts[i]);
    return out + "]}";
}

void print_json(const cairn::metadata& m, const std::vector<stored_statistics>& all) {
    bool first = true;
    auto const begin = [&](const std::string& fqn, std::string_view type, const auto& shape) {
        std::cout << (first ? "[\n" : ",\n") << " {\"fqn\": " << json_string(fqn)
                  << ", \"dtype\": " << json_string(type) << ", \"shape\": " << to_string(shape);
        first = false;
    };
    for (auto const& one : all) {
        auto const& t = *m.tensor(one.fqn);
        begin(one.fqn, cairn::name_of(t.type), t.shape);
        std::cout << ", \"bytes\": "
                  << static_cast<std::uint64_t>(t.shape.product()) * cairn::size_of(t.type)
                  << (one.problem.empty() ? json_of(one.found)
                                          : ", \"error\": " + json_string(one.problem))
                  << (one.missing == 0 ? "" : ", \"missing\": " + std::to_string(one.missing))
                  << "}";
    }
    for (auto const& [fqn, t] : m.unsupported) {
        begin(fqn, t.type, t.shape);
        std::cout << ", \"kind\": \"unsupported\"}";
    }
    std::cout << (first ? "[" : "") << "\n]\n";
}

void print_table(const cairn::metadata& m, const std::vector<stored_statistics>& all) {
    table out(3);
    out.add({"tensor", "dtype", "shape", "min", "max", "mean", "deviation", "zeros", "NaN", "Inf"});
    for (auto const& one : all) {
        auto const& t = *m.tensor(one.fqn);
        auto const& s = one.found;
        table::line line{cairn::terminal_text(one.fqn), std::string(cairn::name_of(t.type)),
                         to_string(t.shape)};
        if (!one.problem.empty()) {
            line.push_back(cairn::terminal_text(one.problem));
        } else {
            bool const any = s.finite() != 0;
            for (auto const& v :
                 {any ? table_number(*s.min) : "-", any ? table_number(*s.max) : "-",
                  any ? short_number(s.mean) : "-", any ? short_number(s.deviation()) : "-",
                  std::to_string(s.zeros), std::to_string(s.nans), std::to_string(s.infs)})
                line.push_back(v);
            if (!one.is_whole()) line.push_back(stored_part(one, t));
        }
        out.add(std::move(line));
    }
    for (auto const& [fqn, t] : m.unsupported)
        out.add({cairn::terminal_text(fqn), cairn::terminal_text(t.type), to_string(t.shape),
                 "unsupported"});
    out.print();
}

}  // namespace

int stats(const std::string& checkpoint, bool as_json, std::size_t most_bins) {
    opened const from(checkpoint);
    auto const all = statistics_pass(from, most_bins).run();
    if (as_json)
        print_json(from.meta(), all);
    else
        print_table(from.meta(), all);
    auto const& m = from.meta();
    std::size_t unread = m.unsupported.size(), partial = 0, not_finite = 0;
    std::uint64_t elements = 0;
    for (auto const& one : all) {
        bool const is_read = one.problem.empty();
        unread += is_read ? 0 : 1;
        partial += is_read && !one.is_whole() ? 1 : 0;
        not_finite += is_read && !one.is_finite() ? 1 : 0;
        elements += is_read ? one.found.elements : 0;
    }
    bool const whole = unread + partial == 0;
    if (!as_json) {
        auto const of = [](std::size_t n) {
            return std::to_string(n) + (n == 1 ? " tensor" : " tensors");
        };
        std::cout << of(all.size() + m.unsupported.size()) << ", " << elements
                  << (elements == 1 ? " element" : " elements");
        if (unread != 0) std::cout << "; could not read " << of(unread);
        if (partial != 0) std::cout << "; not all elements are stored of " << of(partial);
        if (not_finite != 0)
            std::cout << "; NaN or Inf in " << of(not_finite);
        else if (whole)
            std::cout << "; all finite";
        std::cout << '\n';
    }
    return !whole ? could_not_run : not_finite != 0 ? finding : fine;
}

}  // namespace tool
