// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_CHECK_SECTION_HPP
#define CAIRN_TOOLS_REPORT_CHECK_SECTION_HPP

#include "html.hpp"

#include <cairn/catalog/verify.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tool::page {

inline void append_lines(std::string& out, std::string_view title,
                         const std::vector<std::string>& lines) {
    constexpr std::size_t most = 100;
    if (lines.empty()) return;
    out += "<p class=s>" + std::string(title) + "</p><ul class=list>";
    for (std::size_t i = 0; i < std::min(most, lines.size()); ++i)
        out += "<li>" + html(shortened(lines[i], 1000));
    if (lines.size() > most) out += "<li>and " + grouped(lines.size() - most) + " more";
    out += "</ul>";
}

/// What `cairn verify` says.
inline void append_checks(std::string& out, const cairn::verify_report& r) {
    auto const n = r.findings.size();
    out += "<h2>Verification</h2><p class=" + std::string(n == 0 ? "good" : "bad") + "><b>" +
           (n == 0 ? "All fine" : counted(n, "finding", "findings")) + "</b> in " +
           counted(r.items, "item", "items") + ", " + grouped(r.bytes) + " bytes, " +
           counted(r.files, "file", "files") + ".</p>";
    append_lines(out, "Findings:", r.findings);
    append_lines(out, "Not checked:", r.unverified);
}

}  // namespace tool::page

#endif
