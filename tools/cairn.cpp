// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "launch.hpp"

#include <cairn/printable.hpp>

#include <CLI/CLI.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>

namespace {

/// Opens standard streams that are closed: what is opened later, e.g. a file of a checkpoint, would
/// be taken for them.
/// @param may_be_closed  Standard output leads nowhere then; otherwise writing to it is an error.
void open_standard_streams(bool may_be_closed) {
    for (int fd = 0; fd < 3; ++fd)
        if (::fcntl(fd, F_GETFD) < 0)
            (void)::open("/dev/null", fd == 1 && !may_be_closed ? O_RDONLY : O_RDWR);
}

/// Returns where the arguments of the program begin that `cairn launch` starts.
char** end_of_launch(char** end, char** at) {
    for (; at < end && (*at)[0] == '-'; ++at) {
        std::string_view const a = *at;
        if (a == "--") return at + 2;
        if (a == "-n" || a == "--ranks" || a == "--grace") ++at;
    }
    return at + 1;
}

}  // namespace

int main(int argc, char** argv) {
    bool const launches = argc > 1 && argv[1] == std::string_view("launch");
    open_standard_streams(launches);
    CLI::App app{
        "Inspects, verifies, compares and converts checkpoints of cairn and PyTorch DCP; "
        "removes leftovers; "
        "starts a program as several ranks."};
    app.require_subcommand(1);
    std::string a, b, fqn, map;
    bool json = false, raw = false, dry_run = false, changes = false;

    // A variable of the shell that is not set: "" would be the current directory.
    CLI::Validator const named(
        [](const std::string& name) {
            return name.empty() ? std::string("an empty name") : std::string();
        },
        "", "named");

    auto* const ls = app.add_subcommand(
        "ls", "list names, dtypes, shapes, chunks, bytes and files; or several checkpoints");
    ls->add_option("PLACE", a, "directory of a checkpoint, or of checkpoints")
        ->required()
        ->check(named);
    ls->add_flag("--json", json, "print one JSON list");
    ls->add_option("--map", map, "the file of a mapping, whose names are listed")->check(named);

    auto* const cat = app.add_subcommand("cat", "print one tensor or value as JSON");
    cat->add_option("CKPT", a, "directory of a checkpoint")->required()->check(named);
    cat->add_option("FQN", fqn, "name of the tensor or value")->required();
    auto* const raw_flag =
        cat->add_flag("--raw", raw, "write a tensor's bytes, little-endian and row-major");
    cat->add_flag("--json", json, "print JSON (the default)")->excludes(raw_flag);

    auto* const verify = app.add_subcommand("verify", "read the whole checkpoint and check it");
    verify->add_option("CKPT", a, "directory of a checkpoint")->required()->check(named);

    auto* const stats = app.add_subcommand(
        "stats", "print what the elements of each tensor are like; exit 1 if there are NaN or Inf");
    std::size_t most_bins = 0;
    stats->add_option("CKPT", a, "a checkpoint: a directory, or a file")->required()->check(named);
    auto* const stats_as_json = stats->add_flag("--json", json, "print one JSON list");
    stats->add_option("--histogram", most_bins, "at most so many bins of each tensor, in the JSON")
        ->check(CLI::Range(4, 100000))
        ->needs(stats_as_json);

    tool::report_options page;
    auto* const report = app.add_subcommand(
        "report", "write one HTML page: a map of the bytes, ranks, files, how tensors are cut");
    report->add_option("CKPT", page.checkpoint, "a checkpoint of any format")
        ->required()
        ->check(named);
    report->add_option("-o,--output", page.output, "the HTML file to write")
        ->required()
        ->check(named);
    report
        ->add_option("--trace", page.trace, "a file that a cairn::trace_file wrote during the save")
        ->check(named);
    report->add_flag("--stats", page.stats,
                     "read all tensors: their range, a histogram, NaN and infinities");
    report->add_flag("--verify", page.verify, "read the whole checkpoint and check it");

    auto* const gc =
        app.add_subcommand("gc", "remove the leftovers of interrupted saves and removals");
    gc->add_option("PLACE", a, "directory of checkpoints, or of one")->required()->check(named);
    gc->add_flag("--dry-run", dry_run, "only print what would be removed");

    auto* const diff = app.add_subcommand("diff", "compare two checkpoints by name");
    diff->add_option("A", a, "directory of a checkpoint")->required()->check(named);
    diff->add_option("B", b, "directory of another checkpoint")->required()->check(named);
    diff->add_flag("--stats", changes, "print how much tensors have changed too, most first");

    tool::conversion conversion;
    auto* const convert =
        app.add_subcommand("convert", "write a checkpoint of any format as another one");
    auto* const reshard =
        app.add_subcommand("reshard", "convert a checkpoint for another number of ranks");
    for (auto* const s : {convert, reshard}) {
        s->add_option("SRC", conversion.from, "a checkpoint: a directory, or a file")
            ->required()
            ->check(named);
        s->add_option("DST", conversion.to,
                      s == reshard
                          ? "the directory of the new checkpoint"
                          : "the new checkpoint: a directory, or a file .pt or .safetensors")
            ->required()
            ->check(named);
        auto* const ranks =
            s->add_option("--ranks", conversion.ranks, "number of ranks that write it")
                ->check(CLI::Range(1, 4096));
        if (s == reshard) ranks->required();
        s->add_option("--dim", conversion.dim,
                      "dimension that is split among the ranks (default 0)")
            ->check(CLI::Range(0, 63));
        // One value each: otherwise they take SRC and DST too.
        s->add_option("--only", conversion.only, "only names that match, as 'model.*'")
            ->allow_extra_args(false);
        s->add_option("--skip", conversion.skip, "no names that match")->allow_extra_args(false);
        s->add_option("--dtype", conversion.dtype, "what floating-point tensors become");
        auto* const mapping =
            s->add_option("--map", conversion.map, "the file of a mapping, whose names are written")
                ->check(named);
        s->add_flag("--map-back", conversion.map_back,
                    "SRC has the names of the mapping; those that they are made of are written")
            ->needs(mapping);
        s->add_flag("--announce", conversion.announce,
                    "a file in SRC keeps a checkpointer from removing it meanwhile");
        s->add_flag("--dry-run", conversion.dry_run, "only print what would be written");
    }
    convert
        ->add_option("--to", conversion.format,
                     "format of the new checkpoint; by default its name tells")
        ->check(CLI::IsMember({"dcp", "safetensors", "torch"}));
    convert->add_flag("--skip-values", conversion.skip_values,
                      "leave out what safetensors does not have");
    convert
        ->add_option("--max-file-size", conversion.max_file_size,
                     "bytes of elements in a file of safetensors (default 5 GB)")
        ->check(CLI::PositiveNumber);  // CLI11 makes 2^64 - 1 of -1
    convert
        ->add_option("--prefer", conversion.prefer,
                     "of the names of a tied weight, safetensors gets the first that matches")
        ->allow_extra_args(false);
    convert->add_flag("--checksums", conversion.checksums,
                      "files of safetensors have a checksum of each tensor, which others ignore");
    auto* const dequantise =
        convert->add_flag("--dequantise", conversion.dequantise,
                          "quantised weights become the numbers that they stand for");
    convert
        ->add_option("--block", conversion.block,
                     "rows,columns of FP8 weights that share a scale, if config.json does not say")
        ->delimiter(',')
        ->expected(2)
        ->allow_extra_args(false)
        ->needs(dequantise);

    auto* const map_command = app.add_subcommand("map", "check a mapping with a checkpoint");
    bool checks = true;
    map_command->add_flag("--check", checks, "names, shapes and dtypes (the default)");
    map_command->add_option("FILE", map, "the file of the mapping")->required()->check(named);
    map_command->add_option("SRC", a, "a checkpoint: a directory, or a file")
        ->required()
        ->check(named);

    tool::launch_options launch;
    auto* const start = app.add_subcommand("launch", "start a program as N ranks on this host");
    start->add_option("-n,--ranks", launch.ranks, "number of ranks")
        ->required()
        ->check(CLI::Range(1, 65536));
    start
        ->add_option("--grace", launch.grace,
                     "seconds until the other ranks are terminated, once a rank has failed")
        ->check(CLI::Range(0, 86400));
    std::string program;
    start->add_option("PROGRAM", program, "the program and its arguments, after --")->required();
    // Its arguments are not for CLI11, which would take those in brackets apart.
    std::ptrdiff_t own = argc;
    if (launches) own = std::min(own, end_of_launch(argv + argc, argv + 2) - argv);

    // CLI11 would only report that a subcommand is required.
    auto const known = [&](const std::string& name) {
        auto const all = app.get_subcommands([](CLI::App*) { return true; });
        return std::any_of(all.begin(), all.end(),
                           [&](const CLI::App* s) { return s->get_name() == name; });
    };
    if (argc > 1 && argv[1][0] != '-' && !known(argv[1])) {
        std::cerr << "cairn: there is no subcommand '" << argv[1] << "' (see cairn --help)\n";
        return tool::could_not_run;
    }
    auto const printed = [](int code) {
        if (std::cout.flush()) return code;
        std::cerr << "cairn: standard output was closed or is full\n";
        return static_cast<int>(tool::could_not_run);
    };
    try {
        app.parse(static_cast<int>(own), argv);
    } catch (const CLI::CallForHelp& e) {
        return printed(app.exit(e));
    } catch (const CLI::ParseError& e) {
        std::cerr << "cairn: " << e.what() << " (see cairn --help)\n";
        return tool::could_not_run;
    }
    launch.command = {program};
    launch.command.insert(launch.command.end(), argv + own, argv + argc);
    if (reshard->parsed()) conversion.format = "dcp";
    try {
        return printed([&] {
            if (ls->parsed()) return tool::ls(a, json, map);
            if (cat->parsed()) return tool::cat(a, fqn, raw);
            if (verify->parsed()) return tool::verify(a);
            if (stats->parsed()) return tool::stats(a, json, most_bins);
            if (report->parsed()) return tool::report(page);
            if (gc->parsed()) return tool::gc(a, dry_run);
            if (diff->parsed()) return tool::diff(a, b, changes);
            if (map_command->parsed()) return tool::map(map, a);
            if (start->parsed()) return tool::launch(launch);
            return tool::convert(conversion);
        }());
    } catch (const std::bad_alloc&) {
        std::cerr << "cairn: out of memory\n";
    } catch (const std::exception& e) {
        std::cerr << "cairn: " << cairn::terminal_text(e.what()) << "\n";
    }
    return tool::could_not_run;
}
