// SPDX-License-Identifier: Apache-2.0
#include "beside.hpp"
#include "checkpoint.hpp"
#include "descriptor_limit.hpp"
#include "mapping.hpp"
#include "patterns.hpp"

#include <cairn/convert.hpp>
#include <cairn/observe/progress_line.hpp>
#include <cairn/printable.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/storage/torch_save_writer.hpp>

#include <algorithm>
#include <iostream>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tool {

namespace {

cairn::convert_options options_of(const conversion& c, const std::optional<cairn::mapping>& how) {
    cairn::convert_options o;
    o.dim = c.dim;
    o.map_back = c.map_back;
    o.announce = c.announce;
    if (!c.dtype.empty()) {
        o.floats_as = cairn::dtype_from_name(c.dtype);
        if (!o.floats_as || cairn::info(*o.floats_as).kind != cairn::dtype_class::floating)
            throw cairn::error(cairn::errc::invalid_argument,
                               {.expected = "--dtype: a floating-point dtype, as bfloat16",
                                .found = "'" + c.dtype + "'"});
    }
    if (c.dequantise || (how && how->dequantises())) {
        o.dequantise = cairn::dequantise_options{};
        if (!c.block.empty()) o.dequantise->block = c.block;
    }
    if (!c.only.empty() || !c.skip.empty())
        o.wants = [&c](std::string_view fqn) {
            return (c.only.empty() || matches(fqn, c.only)) && !matches(fqn, c.skip);
        };
    return o;
}

/// The patterns of names of all options.
std::vector<std::string> patterns_of(const conversion& c) {
    auto all = c.only;
    for (auto const* more : {&c.skip, &c.prefer}) all.insert(all.end(), more->begin(), more->end());
    return all;
}

constexpr const char* unused_by_mapping =
    "the mapping makes this name of others, and does not use it";

/// Where the source is replaced, what is left out is lost.
/// @param m  As a mapping shows it, if there is one.
/// @throws cairn::error errc::unsupported if something that is wanted cannot be converted
void check_all_is_kept(const std::string& from, const cairn::metadata& m,
                       const cairn::convert_options& o) {
    auto const refuse = [&](const std::string& fqn, const char* expected,
                            const std::string& found) {
        if (o.converts(fqn))
            throw cairn::error(
                cairn::errc::unsupported,
                {.fqn = fqn,
                 .file = from,
                 .expected = std::string(expected) + ", because the source is replaced",
                 .found = found,
                 .remedy = "convert to another place, or leave it out (--skip)"});
    };
    for (auto const& [fqn, t] : m.unsupported) refuse(fqn, "what this version can read", t.type);
    for (auto const& fqn : m.hidden) refuse(fqn, "what the mapping keeps", unused_by_mapping);
}

/// Says what would be written.
void describe(const cairn::metadata& m, const cairn::convert_options& o) {
    std::uint64_t bytes = 0;
    std::size_t tensors = 0, values = 0;
    for (auto const& [fqn, entry] : m.entries) {
        if (!o.converts(fqn)) continue;
        auto const* t = std::get_if<cairn::tensor_metadata>(&entry);
        if (t == nullptr) {
            ++values;
            continue;
        }
        ++tensors;
        bytes +=
            static_cast<std::uint64_t>(t->shape.product()) * cairn::size_of(o.type_of(t->type));
    }
    std::cout << tensors << " tensors of " << bytes << " bytes, " << values << " values\n";
}

enum class target { dcp, safetensors, torch };

target target_of(const conversion& c) {
    auto const ends = [&](std::string_view end) { return c.to.ends_with(end); };
    if (c.format == "dcp") return target::dcp;
    if (c.format == "safetensors" || (c.format.empty() && ends(".safetensors")))
        return target::safetensors;
    // Lightning's checkpoints of DCP are such directories.
    std::error_code ignored;
    if (c.format.empty() && ends(".ckpt") && std::filesystem::is_directory(c.to, ignored))
        return target::dcp;
    bool const named = ends(".pt") || ends(".pth") || ends(".bin") || ends(".ckpt");
    if (c.format == "torch" && !named)
        throw cairn::error(cairn::errc::invalid_argument,
                           {.file = c.to,
                            .expected = "for --to torch: a name that ends in .pt, .pth, .bin or "
                                        ".ckpt",
                            .found = "another one",
                            .remedy = "a file of torch.save is recognized by its name"});
    return named ? target::torch : target::dcp;
}

bool is_safetensors_file(const conversion& c, target to) {
    return to == target::safetensors && c.to.ends_with(".safetensors");
}

/// @throws cairn::error errc::invalid_argument for an option that the target does not have
void check_options(const conversion& c, target to) {
    auto const check = [&](bool given, const char* option, bool has, const char* expected) {
        if (given && !has)
            throw cairn::error(cairn::errc::invalid_argument,
                               {.file = c.to,
                                .expected = std::string("for ") + option + ": " + expected,
                                .found = "another one",
                                .remedy = "leave the option out, or convert to such a target"});
    };
    bool const has = to == target::safetensors;
    constexpr const char* any = "a target of safetensors";
    check(c.skip_values, "--skip-values", has, any);
    check(!c.prefer.empty(), "--prefer", has, any);
    check(c.checksums, "--checksums", has, any);
    check(c.max_file_size != 0, "--max-file-size", has && !is_safetensors_file(c, to),
          "a directory of safetensors files");
}

/// The members of `.metadata`, or of the headers of safetensors, that a target does not get.
/// @param shown  What a mapping shows of `m`; without one, `m`.
std::vector<std::string> members_lost(const cairn::metadata& m, const cairn::metadata& shown,
                                      target to) {
    auto const entries_with = [](const cairn::metadata& some, const std::string& name) {
        return std::ranges::count_if(some.foreign.of_entries,
                                     [&](auto const& e) { return e.second.contains(name); });
    };
    std::vector<std::string> lost;
    for (auto const& name : m.unknown_members) {
        constexpr std::string_view of_all = "Metadata.";
        auto const stored = entries_with(m, name);
        bool const kept =
            (name.starts_with(of_all) && m.foreign.members.contains(name.substr(of_all.size()))) ||
            (stored != 0 && entries_with(shown, name) >= stored);
        if (to != target::dcp || !kept) lost.push_back(name);
    }
    return lost;
}

/// The keys of dicts, in what is converted, that are numbers, a bool or None in a file of
/// torch.save, as paths.
std::set<cairn::key_path> text_keys_in(const cairn::metadata& m, const cairn::convert_options& o) {
    std::set<cairn::key_path> found;
    if (m.text_keys.empty()) return found;
    for (auto const& [fqn, path] : m.paths) {
        if (!o.converts(fqn)) continue;
        cairn::key_path part;
        for (auto const& step : path) {
            part.push_back(step);
            if (m.text_keys.count(part) != 0) found.insert(part);
        }
    }
    return found;
}
/// Says that they are text in the target.
void tell_text_keys(const std::set<cairn::key_path>& keys) {
    if (keys.empty()) return;
    constexpr std::size_t most = 3;
    std::size_t n = 0;
    std::cout << "not kept: that these keys are numbers, True, False or None: ";
    for (auto const& path : keys) {
        if (n == most) break;
        std::cout << (n++ == 0 ? "'" : ", '");
        for (std::size_t i = 0; i < path.size(); ++i) {
            auto const* text = std::get_if<std::string>(&path[i]);
            std::cout << (i == 0 ? "" : ".")
                      << cairn::terminal_text(
                             text != nullptr ? *text : std::to_string(std::get<1>(path[i])));
        }
        std::cout << "'";
    }
    if (keys.size() > n) std::cout << " and " << keys.size() - n << " more";
    std::cout << "; they are text, as all keys of PyTorch's DCP\n";
}

/// What the ranks of a conversion have to say.
struct findings {
    std::set<std::string> unchecked{}, left_out{}, warnings{};
};

/// @param writer  Returns a rank's.
template <class Writer>
findings run(const conversion& c, const cairn::convert_options& options,
             const std::optional<cairn::mapping>& how, Writer&& writer) {
    descriptor_limit const raised;  // each of the ranks keeps up to 64 files of the target open
    cairn::progress_line const progress;
    cairn::convert_source const from(store_of(c.from), c.from);
    std::mutex together;
    findings all;
    cairn::run_ranks(c.ranks, [&](cairn::thread_group::member& me) {
        auto const r = how ? cairn::convert(from, c.to, options, me, writer(), progress, *how)
                           : cairn::convert(from, c.to, options, me, writer(), progress);
        std::lock_guard const lock(together);
        all.unchecked.insert(r.unverified.begin(), r.unverified.end());
        all.left_out.insert(r.left_out.begin(), r.left_out.end());
        all.warnings.insert(r.saved.warnings.begin(), r.saved.warnings.end());
    });
    return all;
}

/// With the files beside it, which appear with the weights.
findings to_safetensors(const conversion& c, const cairn::convert_options& options,
                        const std::optional<cairn::mapping>& how, beside& others) {
    cairn::safetensors_writer_options o;
    o.skip_values = c.skip_values;
    if (c.max_file_size != 0) o.max_file_size = c.max_file_size;
    o.checksums_in_files = c.checksums;
    o.prefers = [&c](std::string_view fqn) { return matches(fqn, c.prefer); };
    if (!is_safetensors_file(c, target::safetensors))
        o.add_files = [&](auto const& put) { others.add_to(put); };
    auto found = run(c, options, how,
                     [&, store = store_of(c.to)] { return cairn::safetensors_writer(store, o); });
    if (o.add_files) others.finish();
    return found;
}
/// With the files beside it, which are ready when the checkpoint is and then get their names: one
/// that is replaced has its own until then.
findings to_dcp(const conversion& c, const cairn::convert_options& options,
                const std::optional<cairn::mapping>& how, beside& others) {
    findings found;
    try {
        others.stage();
        found =
            run(c, options, how, [store = store_of(c.to)] { return cairn::torch_writer(store); });
    } catch (...) {
        others.unstage();
        throw;
    }
    others.appear();
    return found;
}

}  // namespace

int convert(const conversion& c) {
    auto const to = target_of(c);
    check_options(c, to);
    std::optional<cairn::mapping> how;
    if (!c.map.empty()) how = read_mapping(c.map);
    auto const options = options_of(c, how);
    auto const m = read_metadata(c.from, options.dequantise);
    std::optional<cairn::metadata> mapped;
    if (how) mapped = c.map_back ? cairn::mapped_back(m, *how) : cairn::mapped(m, *how);
    auto const& shown = mapped ? *mapped : m;
    bool const in_place = is_one_place(c.from, c.to);
    if (auto const given = patterns_of(c); c.dry_run || in_place || !given.empty()) {
        check_patterns(shown, options.dequantise ? read_metadata(c.from) : m, given);
        if (in_place) check_all_is_kept(c.from, shown, options);
        if (c.dry_run) {
            cairn::convert_source const from(store_of(c.from), c.from);
            how ? cairn::check_conversion(from, options, *how)
                : cairn::check_conversion(from, options);
            describe(shown, options);
            return fine;
        }
    }
    beside others(c.from, c.to, m, options.dequantise.has_value());
    auto const found = to == target::dcp           ? to_dcp(c, options, how, others)
                       : to == target::safetensors ? to_safetensors(c, options, how, others)
                                                   : run(c, options, how, [store = store_of(c.to)] {
                                                         return cairn::torch_save_writer(store);
                                                     });
    bool const is_file = to == target::torch || is_safetensors_file(c, to);
    for (auto const& line : found.unchecked) std::cout << "not checked: " << line << '\n';
    for (auto const& line : found.warnings) std::cout << cairn::terminal_text(line) << '\n';
    std::cout << c.from << " converted for " << c.ranks << (c.ranks == 1 ? " rank: " : " ranks: ")
              << c.to << '\n';
    auto lost = others.not_copied();
    for (auto const& name : others.names()) {
        bool const copied = !is_file && (to == target::dcp || name.find('/') == std::string::npos);
        if (others.failed().count(name) != 0) continue;
        if (copied)
            std::cout << "copied: '" << cairn::terminal_text(name) << "'\n";
        else
            lost.push_back(name);
    }
    auto const why_not = [&shown](const std::string& fqn) -> std::string {
        auto const known = shown.unsupported.find(fqn);
        return known != shown.unsupported.end()
                   ? "this version does not read it: " + cairn::terminal_text(known->second.type)
                   : unused_by_mapping;
    };
    for (auto const& fqn : found.left_out)
        std::cerr << "cairn: '" << cairn::terminal_text(fqn) << "' was not copied, because "
                  << why_not(fqn) << '\n';
    auto const lost_members = members_lost(m, shown, to);
    for (auto const& name : lost_members)
        std::cout << "not copied: member '" << cairn::terminal_text(name) << "' of "
                  << (m.format == cairn::checkpoint_format::safetensors ? "the header\n"
                                                                        : ".metadata\n");
    // A file of torch.save has them again; of safetensors, no keys but names.
    auto const text_keys =
        to == target::dcp ? text_keys_in(m, options) : std::set<cairn::key_path>();
    tell_text_keys(text_keys);
    // The warnings say what they were.
    bool const has_other_forms = std::ranges::any_of(m.stored_as, [&](auto const& e) {
        return how ? !found.warnings.empty() : options.converts(e.first);
    });
    for (auto const& name : lost)
        std::cout << "not copied: '" << cairn::terminal_text(name) << "'\n";
    for (auto const& [name, why] : others.failed())
        std::cout << "not copied: '" << cairn::terminal_text(name)
                  << "': what has this name there, if anything, is not of this checkpoint: "
                  << cairn::terminal_text(why) << '\n';
    for (auto const& name : others.unused())
        std::cout << "not copied: '" << cairn::terminal_text(name)
                  << "', which is no part of the checkpoint\n";
    return lost.empty() && others.failed().empty() && found.left_out.empty() &&
                   lost_members.empty() && text_keys.empty() && !has_other_forms
               ? fine
               : finding;
}

}  // namespace tool
