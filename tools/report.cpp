// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "report/check_section.hpp"
#include "report/content.hpp"
#include "report/cut_section.hpp"
#include "report/html.hpp"
#include "report/map_section.hpp"
#include "report/share_section.hpp"
#include "report/statistics_section.hpp"
#include "report/style.hpp"
#include "report/timeline_section.hpp"
#include "report/trace.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace tool {

namespace {

namespace fs = std::filesystem;

/// Tells a page from other files: no other one is replaced.
constexpr std::string_view page_begin = "<!doctype html>\n<html lang=en>";

std::string format_text(const cairn::metadata& m) {
    switch (m.format) {
        case cairn::checkpoint_format::torch_dcp:
            return m.save_id.empty() ? "PyTorch DCP" : "PyTorch DCP, saved by cairn";
        case cairn::checkpoint_format::safetensors:
            return m.is_file ? "safetensors" : "safetensors, a directory";
        case cairn::checkpoint_format::torch_save: return "torch.save";
    }
    return "";
}

void append_fact(std::string& out, const std::string& name, const std::string& value,
                 bool is_long = false) {
    out += "<div" + std::string(is_long ? " class=long" : "") + "><dt>" + name + "</dt><dd" +
           (is_long ? " class=m>" : ">") + value + "</dd></div>";
}

void append_head(std::string& out, const std::string& checkpoint, const cairn::metadata& m,
                 const page::content& c) {
    fs::path const path(is_url(checkpoint) ? checkpoint
                                           : fs::absolute(checkpoint).lexically_normal().string());
    auto const name = path.has_filename() ? path.filename() : path.parent_path().filename();
    auto const title = page::shown_name(name.string());
    std::uint64_t stored = 0;
    for (auto const& [file, s] : c.files) page::add(stored, s.bytes);
    // Nothing is loaded or run, whatever a name contains.
    out += std::string(page_begin) +
           "<head><meta charset=utf-8>"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
           "style-src 'unsafe-inline'\">"
           "<meta name=viewport content=\"width=device-width,initial-scale=1\"><title>" +
           title + "</title><style>" + page::style + "</style></head><body><header><h1>" + title +
           "</h1><p class=s>" + format_text(m) + "</p></header><dl class=facts>";
    append_fact(out, "Bytes", page::short_bytes(static_cast<double>(c.bytes)));
    append_fact(out, "In files", page::short_bytes(static_cast<double>(stored)));
    append_fact(out, "Elements", page::short_count(c.elements));
    append_fact(out, "Tensors", page::grouped(c.tensors));
    append_fact(out, "Values", page::grouped(c.entries.size() - c.tensors));
    append_fact(out, "Files", page::grouped(c.files.size()));
    if (!c.ranks.empty()) append_fact(out, "Ranks", page::grouped(c.ranks.size()));
    std::optional<cairn::commit_record> record;
    if (!m.save_id.empty()) record = read_save_facts(checkpoint).record;
    if (record) {
        append_fact(out, "Step", std::to_string(record->step));
        append_fact(out, "Committed", time_text(record->committed), true);
    }
    append_fact(out, "Path", page::html(page::shortened(path.string(), 1000)), true);
    if (!m.save_id.empty()) append_fact(out, "Save id", page::html(m.save_id), true);
    out += "</dl>";
    if (m.unsupported.empty()) return;
    out += "<p class=bad>" + page::counted(m.unsupported.size(), "tensor is", "tensors are") +
           " of a kind that cannot be read, and not part of this page: <span class=m>" +
           page::shown_name(m.unsupported.begin()->first) + "</span> (" +
           page::shown_name(m.unsupported.begin()->second.type) + ")" +
           (m.unsupported.size() > 1 ? ", …" : "") + "</p>";
}

/// Whether a file is a page, or empty.
bool may_replace(const fs::path& file) {
    if (std::error_code why; fs::file_size(file, why) == 0 && !why) return true;
    std::string begin(page_begin.size(), '\0');
    return std::ifstream(file, std::ios::binary)
               .read(begin.data(), static_cast<std::streamsize>(begin.size())) &&
           begin == page_begin;
}

/// @throws error errc::invalid_argument where the page must not be written
void check_output(const report_options& options, const cairn::metadata& m) {
    auto const refuse = [&](const std::string& found) {
        throw cairn::error(cairn::errc::invalid_argument,
                           {.file = options.output,
                            .expected = "a new file, or a page to replace",
                            .found = found,
                            .remedy = "choose another name for -o"});
    };
    auto const at = fs::absolute(options.output);
    if (!fs::is_directory(at.parent_path()))
        refuse("no directory '" + at.parent_path().string() + "'");
    if (!fs::exists(fs::symlink_status(at))) return;
    if (!fs::is_regular_file(at)) refuse("something else than a file");
    auto const is = [&](const fs::path& other) {
        std::error_code ignored;
        return fs::equivalent(at, other, ignored);
    };
    fs::path const checkpoint(options.checkpoint);
    auto const place = fs::is_directory(checkpoint) ? checkpoint : checkpoint.parent_path();
    bool own = is(checkpoint) || is(place / ".metadata");
    for (auto const& [file, size] : m.file_sizes) own = own || is(place / file);
    if (own) refuse("a file of the checkpoint");
    // Files that no metadata names belong to a checkpoint too: an index, a config, an intent.
    if (!may_replace(at)) refuse("a file that is no page");
}

}  // namespace

int report(const report_options& options) {
    opened const from(options.checkpoint);
    auto const& m = from.meta();
    check_output(options, m);
    auto const c = page::content_of(m);
    std::string out;
    append_head(out, options.checkpoint, m, c);
    if (!c.entries.empty()) {
        page::append_map(out, c);
        page::append_largest(out, c);
    }
    page::append_shares(out, c);
    page::append_cuts(out, c);
    if (!options.trace.empty())
        page::append_timeline(out, page::trace_reader(options.trace), options.checkpoint);
    bool whole = true;
    if (options.stats) {
        auto const all = statistics_pass(from, page::drawn_bins).run();
        page::append_statistics(out, c, all, m.unsupported.size());
        whole = m.unsupported.empty() && std::all_of(all.begin(), all.end(), page::is_all_finite);
    }
    if (options.verify) {
        auto const r = verified(options.checkpoint);
        page::append_checks(out, r);
        whole = whole && r.whole();
    }
    out += "</body></html>\n";
    auto const at = fs::absolute(options.output);
    cairn::file_store(at.parent_path().string())
        .publish(at.filename().string(), std::as_bytes(std::span(out.data(), out.size())), {});
    std::cout << page::short_bytes(static_cast<double>(out.size())) << ": "
              << cairn::terminal_text(options.output) << '\n';
    return whole ? fine : finding;
}

}  // namespace tool
