// SPDX-License-Identifier: Apache-2.0
// What a conversion leaves of the files beside a checkpoint, and what gc says of copies.
#include "beside.hpp"
#include "checkpoint.hpp"
#include "copies.hpp"
#include "json.hpp"
#include "support/scratch.hpp"

#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(tools_beside)

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
    std::ifstream f(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(f), {}};
}
ino_t inode_of(const fs::path& file) {
    struct ::stat s {};
    BOOST_REQUIRE(::stat(file.c_str(), &s) == 0);
    return s.st_ino;
}
fs::path saved(const fs::path& place) {
    std::vector<float> w(3);
    (void)cairn::save(cairn::state_dict{{"w", w}}, place.string());
    return place;
}
tool::beside beside_of(const fs::path& from, const std::string& to, bool dequantised = false) {
    return {from, to, tool::read_metadata(from.string()), dequantised};
}

/// For a while, this process is no administrator, who may do everything.
class another_user {
public:
    another_user() {
        if (is_root_) BOOST_REQUIRE(::seteuid(65534) == 0);
    }
    another_user(another_user&&) = delete;
    ~another_user() {
        if (is_root_) (void)!::seteuid(0);
    }

private:
    bool is_root_ = ::geteuid() == 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(files_beside_a_checkpoint_that_is_replaced_in_its_place_stay) {
    support::scratch s;
    auto const place = saved(s.dir / "c");
    fs::create_directories(place / ".git");
    for (auto const* name : {"train.log", "config.json", "__7_0.distcp", "hf_quant_config.json"})
        std::ofstream(place / name) << R"({"a": 1, "quantization_config": {}})";
    auto const log = inode_of(place / "train.log");
    for (auto const& to : {place.string(), place.string() + "/"}) {
        auto others = beside_of(place, to);
        BOOST_TEST(others.names().empty());
        BOOST_TEST(others.not_copied().empty());
        BOOST_TEST(others.unused().empty());
        others.stage();
        std::ofstream(place / "config.json", std::ios::app) << ' ';  // by somebody else
        others.appear();
        BOOST_TEST(others.failed().empty());
    }
    BOOST_TEST(text_of(place / "config.json").ends_with("}  "));
    BOOST_TEST(inode_of(place / "train.log") == log);

    auto others = beside_of(place, place.string(), true);
    others.stage();
    others.appear();
    BOOST_TEST(text_of(place / "config.json") == "{\n  \"a\": 1\n}\n");
    BOOST_TEST(inode_of(place / "train.log") == log);
    BOOST_TEST(others.failed().size() == 1u);
    BOOST_TEST(others.failed().count("hf_quant_config.json") == 1u);
}

BOOST_AUTO_TEST_CASE(a_target_within_the_source_is_not_beside_it) {
    support::scratch s;
    auto const from = saved(s.dir / "c");
    std::ofstream(from / "log") << "text";
    auto const to = saved(from / "below/dcp");
    auto const others = beside_of(from, to.string() + "/");
    BOOST_TEST((others.names() == std::vector<std::string>{"log"}));
    BOOST_TEST(others.not_copied().empty());
}

BOOST_AUTO_TEST_CASE(weights_for_older_programs_are_no_part_of_safetensors) {
    support::scratch s;
    auto const from = s.dir / "c";
    std::vector<float> w(3);
    cairn::state_dict const sd{{"w", w}};
    (void)cairn::save(sd, (from / "model.safetensors").string(), cairn::safetensors_writer());
    std::vector<std::string> const names{"pytorch_model-00001-of-00001.bin",
                                         "pytorch_model.bin.index.json"};
    for (auto const& name : names) std::ofstream(from / name) << "x";
    std::ofstream(from / "training_args.bin") << "x";
    auto const others = beside_of(from, s.dir / "to");
    BOOST_TEST((others.unused() == names));
    BOOST_TEST((others.names() == std::vector<std::string>{"training_args.bin"}));
}

BOOST_AUTO_TEST_CASE(a_file_that_becomes_shorter_keeps_nobody_from_the_rest) {
    // It always has fewer bytes than its size.
    fs::path const shorter = "/sys/kernel/mm/transparent_hugepage/enabled";
    if (!fs::exists(shorter) || text_of(shorter).size() >= fs::file_size(shorter)) {
        BOOST_TEST_MESSAGE("skipped: there is no such file in /sys");
        return;
    }
    support::scratch s;
    auto const from = saved(s.dir / "from"), to = s.dir / "to", dcp = s.dir / "dcp";
    fs::create_symlink(shorter, from / "log");
    std::ofstream(from / "name") << "text";
    auto staged = beside_of(from, dcp);
    BOOST_CHECK_NO_THROW(staged.stage());
    staged.appear();
    BOOST_TEST(text_of(dcp / "name") == "text");
    BOOST_TEST(!fs::exists(dcp / "log"));
    BOOST_TEST(staged.failed().size() == 1u);
    BOOST_TEST(staged.failed().count("log") == 1u);

    auto added = beside_of(from, to);
    cairn::safetensors_writer_options o;
    o.add_files = [&](auto const& put) { added.add_to(put); };
    BOOST_CHECK_NO_THROW(
        (void)cairn::convert(from.string(), to.string(), cairn::safetensors_writer(o)));
    BOOST_TEST(text_of(to / "name") == "text");
    BOOST_TEST(text_of(to / "log") == std::string(fs::file_size(shorter), '\0'));
    BOOST_TEST(added.failed().size() == 1u);
    BOOST_TEST(added.failed().count("log") == 1u);
}

BOOST_AUTO_TEST_CASE(copies_that_cannot_be_locked_are_named_and_stay) {
    support::scratch s;
    fs::permissions(s.dir, fs::perms(0755));
    auto const copies = s.dir / (std::string(tool::beside::staged_name) + ".abcdef");
    fs::create_directories(copies);
    fs::permissions(copies, fs::perms(0));
    cairn::garbage_report r;
    {
        another_user const other;
        tool::collect_copies(s.dir, false, r);
    }
    fs::permissions(copies, fs::perms(0755));
    BOOST_REQUIRE(r.lines.size() == 1u);
    BOOST_TEST(r.lines[0].find("cannot be locked") != std::string::npos);
    BOOST_TEST(r.files == 0u);
    BOOST_TEST(r.problems == 0u);
    BOOST_TEST(fs::exists(copies));
}

BOOST_AUTO_TEST_CASE(directories_that_are_gone_or_not_for_everybody_have_no_copies) {
    support::scratch s;
    fs::permissions(s.dir, fs::perms(0755));
    fs::create_directories(s.dir / "lost+found");
    fs::permissions(s.dir / "lost+found", fs::perms(0));
    cairn::garbage_report r;
    {
        another_user const other;
        tool::collect_copies(s.dir / "lost+found", false, r);
        tool::collect_copies(s.dir / "removed", false, r);
    }
    fs::permissions(s.dir / "lost+found", fs::perms(0755));
    BOOST_TEST(r.lines.empty());
    BOOST_TEST(r.problems == 0u);
}

BOOST_AUTO_TEST_CASE(json_keeps_keys_apart_that_would_have_one_name) {
    using cairn::value;
    auto const both = value::dict({{1, "a"}, {"1", "b"}});
    BOOST_TEST(tool::json(both) == R"({"dict": [[1, "a"], ["1", "b"]]})");
    BOOST_TEST(tool::json(value::dict({{2, both}, {"3", nullptr}})) ==
               R"({"2": {"dict": [[1, "a"], ["1", "b"]]}, "3": null})");
    BOOST_TEST(tool::json(value::dict({{1, "a"}, {"b", 2}})) == R"({"1": "a", "b": 2})");
}

BOOST_AUTO_TEST_SUITE_END()
