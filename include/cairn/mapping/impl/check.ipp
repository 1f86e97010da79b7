// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_CHECK_IPP
#define CAIRN_MAPPING_IMPL_CHECK_IPP

#include <cairn/mapping/check.hpp>

#include <cairn/mapping/detail/mapped.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <string>
#include <utility>

namespace cairn {

CAIRN_DECL mapping_report check(const mapping& m, const metadata& stored) {
    map::detail::findings found;
    auto observed = m;
    observed.others(other_names::pass);  // what is left out is unused too
    auto const made = map::detail::to_state(observed, stored, &found);
    mapping_report report;
    for (auto const& e : found.errors) report.errors.emplace_back(e.what());
    for (auto const& entry : stored.entries)
        if (!made.used.contains(entry.first) && !made.tied.contains(entry.first))
            report.unused.push_back(entry.first);
    for (auto const i : made.idle) report.idle.push_back(m.lines()[i].name);
    for (auto& p : found.twice)
        report.ambiguous.push_back({std::move(p.name), p.made_by, p.also_by});
    for (auto const& [name, t] : made.tensors)
        report.made.push_back(name + ": " + std::string(name_of(t.type)) + " " +
                              to_string(t.shape));
    for (auto const& value : made.values) report.made.push_back(value.first + ": a value");
    return report;
}

}  // namespace cairn

#endif
