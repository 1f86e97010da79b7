// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "launch.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <new>
#include <string>

int main(int argc, char** argv) {
    CLI::App app{
        "Looks at, checks, compares and re-shards checkpoints of cairn and PyTorch DCP; "
        "starts programs as ranks."};
    app.require_subcommand(1);
    std::string a, b, fqn;
    bool json = false, raw = false;
    int ranks = 0, dim = 0;

    auto* const ls = app.add_subcommand("ls", "names, dtypes, shapes, chunks, bytes, files");
    ls->add_option("CKPT", a, "a checkpoint's directory")->required();
    ls->add_flag("--json", json, "one JSON list");

    auto* const cat = app.add_subcommand("cat", "one tensor or object");
    cat->add_option("CKPT", a, "a checkpoint's directory")->required();
    cat->add_option("FQN", fqn, "its name")->required();
    auto* const raw_flag = cat->add_flag("--raw", raw, "little-endian row-major bytes of a tensor");
    cat->add_flag("--json", json, "JSON (the default)")->excludes(raw_flag);

    auto* const verify = app.add_subcommand("verify", "read everything, check everything");
    verify->add_option("CKPT", a, "a checkpoint's directory")->required();

    auto* const diff = app.add_subcommand("diff", "compare two checkpoints by name");
    diff->add_option("A", a, "a checkpoint's directory")->required();
    diff->add_option("B", b, "another's")->required();

    auto* const reshard = app.add_subcommand("reshard", "load on N ranks, save on N ranks");
    reshard->add_option("SRC", a, "a checkpoint's directory")->required();
    reshard->add_option("DST", b, "where the new one goes")->required();
    reshard->add_option("--ranks", ranks, "how many ranks")->required()->check(CLI::Range(1, 4096));
    reshard->add_option("--dim", dim, "which dimension is split")->check(CLI::Range(0, 63));

    tool::launch_options launch;
    auto* const start = app.add_subcommand("launch", "start a program as N ranks on this host");
    start->add_option("-n,--ranks", launch.ranks, "how many")
        ->required()
        ->check(CLI::Range(1, 65536));
    start
        ->add_option("--grace", launch.grace,
                     "seconds for the others to end when a rank has failed")
        ->check(CLI::Range(0, 86400));
    start->add_option("PROGRAM", launch.command, "after --: the program and its arguments")
        ->required();

    // CLI11 would only report that a subcommand is required.
    auto const known = [&](const std::string& name) {
        auto const all = app.get_subcommands([](CLI::App*) { return true; });
        return std::any_of(all.begin(), all.end(),
                           [&](const CLI::App* s) { return s->get_name() == name; });
    };
    if (argc > 1 && argv[1][0] != '-' && !known(argv[1])) {
        std::cerr << "cairn: there is no subcommand '" << argv[1] << "' (cairn --help says more)\n";
        return tool::could_not_run;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp& e) {
        return app.exit(e);
    } catch (const CLI::ParseError& e) {
        std::cerr << "cairn: " << e.what() << " (cairn --help says more)\n";
        return tool::could_not_run;
    }
    try {
        int const code = [&] {
            if (ls->parsed()) return tool::ls(a, json);
            if (cat->parsed()) return tool::cat(a, fqn, raw);
            if (verify->parsed()) return tool::verify(a);
            if (diff->parsed()) return tool::diff(a, b);
            if (start->parsed()) return tool::launch(launch);
            return tool::reshard(a, b, ranks, dim);
        }();
        if (std::cout.flush()) return code;
        std::cerr << "cairn: standard output was closed or is full\n";
    } catch (const std::bad_alloc&) {
        std::cerr << "cairn: out of memory\n";
    } catch (const std::exception& e) {
        std::cerr << "cairn: " << e.what() << "\n";
    }
    return tool::could_not_run;
}
