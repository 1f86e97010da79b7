// SPDX-License-Identifier: Apache-2.0
#include "beside.hpp"
#include "checkpoint.hpp"

#include <cairn/convert.hpp>
#include <cairn/observe/progress_line.hpp>
#include <cairn/printable.hpp>

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

namespace {

/// @param patterns  As a shell's for files, where `*` also matches dots and slashes.
bool matches(std::string_view fqn, const std::vector<std::string>& patterns) {
    std::string const name(fqn);
    return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) {
        return ::fnmatch(p.c_str(), name.c_str(), 0) == 0;
    });
}

cairn::convert_options options_of(const conversion& c) {
    cairn::convert_options o;
    o.dim = c.dim;
    if (!c.dtype.empty()) {
        o.floats_as = cairn::dtype_from_name(c.dtype);
        if (!o.floats_as || cairn::info(*o.floats_as).kind != cairn::dtype_class::floating)
            throw cairn::error(cairn::errc::invalid_argument,
                               {.expected = "--dtype: a floating-point dtype, as bfloat16",
                                .found = "'" + c.dtype + "'"});
    }
    if (!c.only.empty() || !c.skip.empty())
        o.wants = [&c](std::string_view fqn) {
            return (c.only.empty() || matches(fqn, c.only)) && !matches(fqn, c.skip);
        };
    return o;
}

/// Says what would be written.
void describe(const cairn::metadata& m, const cairn::convert_options& o) {
    std::uint64_t bytes = 0;
    std::size_t tensors = 0, values = 0;
    for (auto const& [fqn, entry] : m.entries) {
        if (o.wants && !o.wants(fqn)) continue;
        auto const* t = std::get_if<cairn::tensor_metadata>(&entry);
        if (t == nullptr) {
            ++values;
            continue;
        }
        ++tensors;
        auto const type = o.floats_as && cairn::info(t->type).kind == cairn::dtype_class::floating
                              ? *o.floats_as
                              : t->type;
        bytes += static_cast<std::uint64_t>(t->shape.product()) * cairn::size_of(type);
    }
    std::cout << tensors << " tensors of " << bytes << " bytes, " << values << " values\n";
}

}  // namespace

int convert(const conversion& c) {
    auto const m = read_metadata(c.from);
    auto const options = options_of(c);
    if (c.dry_run) {
        describe(m, options);
        return fine;
    }
    beside others(c.from, m);
    // A checkpoint that is replaced keeps its files until the new one stands.
    bool const replaces = std::filesystem::exists(std::filesystem::path(c.to) / ".metadata");
    if (!replaces) others.copy_to(c.to, false);
    cairn::progress_line const progress;
    std::mutex together;
    std::set<std::string> unchecked, left_out;
    try {
        cairn::run_ranks(c.ranks, [&](cairn::thread_group::member& me) {
            auto const r = cairn::convert(c.from, c.to, options, me, progress);
            std::lock_guard const lock(together);
            unchecked.insert(r.unverified.begin(), r.unverified.end());
            left_out.insert(r.left_out.begin(), r.left_out.end());
        });
    } catch (...) {
        others.remove_copies();
        throw;
    }
    if (replaces) others.copy_to(c.to, true);
    for (auto const& line : unchecked) std::cout << "not checked: " << line << '\n';
    std::cout << c.from << " converted for " << c.ranks << (c.ranks == 1 ? " rank: " : " ranks: ")
              << c.to << '\n';
    for (auto const& name : others.names())
        std::cout << "copied: '" << cairn::terminal_text(name) << "'\n";
    for (auto const& fqn : left_out)
        std::cerr << "cairn: '" << cairn::terminal_text(fqn)
                  << "' was not copied: this version does not know dtype "
                  << cairn::terminal_text(m.unsupported.at(fqn).type) << '\n';
    for (auto const& name : m.unknown_members)
        std::cout << "not copied: member '" << cairn::terminal_text(name) << "' of .metadata\n";
    for (auto const& name : others.not_copied())
        std::cout << "not copied: '" << cairn::terminal_text(name) << "'\n";
    bool const all = others.not_copied().empty() && left_out.empty() && m.unknown_members.empty();
    return all ? fine : finding;
}

}  // namespace tool
