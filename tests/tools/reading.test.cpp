// SPDX-License-Identifier: Apache-2.0
// What the subcommands read of a checkpoint, and how they copy what is beside it.
#include "beside.hpp"
#include "checkpoint.hpp"
#include "checkpoint_statistics.hpp"
#include "copies.hpp"
#include "descriptor_limit.hpp"
#include "format/torch_save_file.hpp"
#include "patterns.hpp"
#include "support/error_codes.hpp"
#include "support/scratch.hpp"

#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/storage/torch_save_writer.hpp>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace tools_reading {

std::atomic<int> synced_files{0}, synced_directories{0};

void count(int fd) {
    struct ::stat s {};
    if (::fstat(fd, &s) == 0) ++(S_ISDIR(s.st_mode) ? synced_directories : synced_files);
}

}  // namespace tools_reading

// In place of the C library's.
extern "C" int fsync(int fd) {
    tools_reading::count(fd);
    return static_cast<int>(::syscall(SYS_fsync, fd));
}
extern "C" int fdatasync(int fd) {
    tools_reading::count(fd);
    return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

BOOST_AUTO_TEST_SUITE(tools_reading)

namespace {

namespace fs = std::filesystem;

/// Bytes that this process has read with system calls.
std::uint64_t bytes_read() {
    std::ifstream io("/proc/self/io");
    std::string name;
    std::uint64_t n = 0;
    io >> name >> n;
    return name == "rchar:" ? n : 0;
}
std::string text_of(const fs::path& file) {
    std::ifstream f(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(f), {}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_storage_of_torch_save_is_read_twice_however_many_pieces_are_wanted) {
    if (bytes_read() == 0) {
        BOOST_TEST_MESSAGE("skipped: there is no /proc/self/io");
        return;
    }
    support::scratch s;
    auto const id = (s.dir / "m.pt").string();
    std::vector<float> w(std::size_t{1} << 18);
    std::iota(w.begin(), w.end(), 1.0f);
    cairn::tensor_view const all(cairn::dtype::f32, {256, 1024}, w.data());
    (void)cairn::save(cairn::state_dict{{"w", all}}, id, cairn::torch_save_writer());
    tool::opened from(id);
    auto const before = bytes_read();
    auto const pieces = tool::row_pieces({from.meta().tensor("w")}, 4096);
    BOOST_TEST(pieces.size() == 256u);
    for (auto const& piece : pieces) {
        auto const read = from.boxes({{"w", piece}});
        BOOST_TEST(std::memcmp(read[0].bytes.data(), w.data() + 1024 * piece.offsets[0], 4096) ==
                   0);
    }
    // Once for the checksum, and the pieces.
    BOOST_TEST(bytes_read() - before < 3 * w.size() * sizeof(float));
}

BOOST_AUTO_TEST_CASE(the_histogram_of_a_tensor_is_that_of_all_its_pieces) {
    support::scratch s;
    auto const id = (s.dir / "c").string();
    std::vector<float> w(std::size_t{9} << 20);  // 36 MiB
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i >> 18);
    (void)cairn::save(cairn::state_dict{{"w", w}}, id);
    tool::opened const from(id);
    tool::tensor_statistics whole;
    whole.bins.most_bins = 64;
    tool::element_statistics(whole).add(cairn::dtype::f32,
                                        reinterpret_cast<const std::byte*>(w.data()), w.size());
    auto const found = tool::statistics_pass(from, 64).run(2);
    BOOST_REQUIRE(found.size() == 1u);
    BOOST_TEST(found[0].found.bins.counts == whole.bins.counts, boost::test_tools::per_element());
    BOOST_TEST(found[0].found.bins.exponent == whole.bins.exponent);
    BOOST_TEST(found[0].found.bins.first == whole.bins.first);
}

/// As the parameters of a model whose storage is one flat tensor.
BOOST_AUTO_TEST_CASE(statistics_read_a_storage_twice_however_many_tensors_share_it) {
    if (bytes_read() == 0) {
        BOOST_TEST_MESSAGE("skipped: there is no /proc/self/io");
        return;
    }
    support::scratch s;
    auto const id = (s.dir / "m.pt").string();
    constexpr std::int64_t count = 16, each = std::int64_t{1} << 18;
    torch_save_file::pickled p;
    p.begin_dict();
    for (std::int64_t i = 0; i < count; ++i) {
        p.key("p" + std::to_string(i));
        p.tensor("0", count * each, i * each, {each}, {1});
    }
    p.end_dict();
    std::string const storage(static_cast<std::size_t>(count * each) * sizeof(float), '\0');
    std::ofstream(id, std::ios::binary) << p.zip({{"0", storage}});
    tool::opened const from(id);
    auto const before = bytes_read();
    auto const found = tool::statistics_pass(from).run(1);
    BOOST_TEST(found.size() == 16u);
    for (auto const& f : found) BOOST_TEST(f.problem == "");
    BOOST_TEST(bytes_read() - before < 3 * storage.size());
}

BOOST_AUTO_TEST_CASE(statistics_say_which_elements_they_lack) {
    tool::opened const part(std::string(CAIRN_GOLDEN) + "/one_rank");
    auto const found = tool::statistics_pass(part).run(1);
    auto const w = std::find_if(found.begin(), found.end(), [](auto& x) { return x.fqn == "w"; });
    BOOST_REQUIRE((w != found.end()));
    BOOST_TEST(w->problem == "");
    BOOST_TEST(!w->is_whole());
    BOOST_TEST(w->is_finite());
    BOOST_TEST(tool::stored_part(*w, *part.meta().tensor("w")) == "6 of 12 elements are stored");
    for (auto const& other : found) BOOST_TEST((other.is_whole() || other.fqn == "w"));
}

/// As `torch.zeros(1).expand(2**44)`.
BOOST_AUTO_TEST_CASE(statistics_of_a_tensor_that_repeats_a_stored_element_say_so) {
    support::scratch s;
    auto const id = (s.dir / "m.pt").string();
    torch_save_file::pickled p;
    p.begin_dict();
    p.key("w");
    p.tensor("0", 1, 0, {1}, {1});
    p.key("wide");
    p.tensor("0", 1, 0, {std::int64_t{1} << 44}, {0});
    p.end_dict();
    std::ofstream(id, std::ios::binary) << p.zip({{"0", std::string(4, '\0')}});
    tool::opened const from(id);
    auto const found = tool::statistics_pass(from).run(1);
    BOOST_REQUIRE(found.size() == 2u);
    BOOST_TEST(found[0].problem == "");
    BOOST_TEST(found[1].problem.find("bytes repeat 4 stored ones") != std::string::npos);
    BOOST_TEST(found[1].problem.find("malformed") == std::string::npos);
}

/// PyTorch has no ids of saves.
BOOST_AUTO_TEST_CASE(two_saves_of_pytorch_are_not_read_as_one) {
    support::scratch s;
    auto const golden = fs::path(CAIRN_GOLDEN) / "torch-2.14.1/meshes_4_ranks/checkpoint";
    auto const id = s.dir / "c";
    for (bool const is_data : {false, true}) {
        fs::remove_all(id);
        fs::copy(golden, id);
        tool::opened from(id.string());
        auto const& t = *from.meta().tensor("rows");
        auto const all = cairn::box::whole(t.shape);
        (void)from.boxes({{"rows", all}});
        auto const file = id / (is_data ? t.chunks.file(0) : ".metadata");
        fs::rename(file, s.dir / "before");
        fs::copy(s.dir / "before", file);
        fs::last_write_time(file, fs::last_write_time(s.dir / "before") + std::chrono::seconds(1));
        auto const is_said = support::is(cairn::errc::concurrent_save);
        BOOST_CHECK_EXCEPTION((void)from.boxes({{"rows", all}}), cairn::error, is_said);
        BOOST_CHECK_EXCEPTION((void)tool::statistics_pass(from).run(1), cairn::error, is_said);
    }
}

namespace {
std::ptrdiff_t copies_in(const fs::path& place) {
    return std::count_if(fs::directory_iterator(place), {}, [](auto const& entry) {
        return entry.path().filename().string().starts_with(".cairn-copies");
    });
}
}  // namespace

BOOST_AUTO_TEST_CASE(the_limit_of_descriptors_is_raised_to_the_maximum_and_restored) {
    auto const limit = [] {
        rlimit now{};
        BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &now) == 0);
        return now;
    };
    auto const before = limit();
    auto low = before;
    low.rlim_cur = 64;
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
    tool::descriptor_limit const raised;
    BOOST_TEST(limit().rlim_cur == before.rlim_max);
    raised.restore();
    BOOST_TEST(limit().rlim_cur == 64u);
    BOOST_TEST(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

BOOST_AUTO_TEST_CASE(a_pattern_that_matches_no_name_is_refused) {
    cairn::metadata m;
    m.entries.insert_or_assign("model.w", cairn::tensor_metadata());
    m.unsupported.insert_or_assign("codes", cairn::unsupported_tensor());
    m.unmade.insert_or_assign("fused", cairn::unmade_name());
    BOOST_CHECK_NO_THROW(tool::check_patterns(m, m, {"m*w", "codes", "f?sed"}));
    BOOST_CHECK_EXCEPTION(tool::check_patterns(m, m, {"model.*", "modle.*"}), cairn::error,
                          [](const cairn::error& e) {
                              return std::string(e.what()).find("'modle.*'") != std::string::npos;
                          });
}

BOOST_AUTO_TEST_CASE(copies_of_files_beside_a_checkpoint_are_durable) {
    support::scratch s;
    auto const from = s.dir / "from", to = s.dir / "to";
    std::vector<float> w(3);
    (void)cairn::save(cairn::state_dict{{"w", w}}, from.string());
    fs::create_directories(from / "tokenizer");
    std::ofstream(from / "tokenizer/vocab") << std::string(100'000, 'v');
    std::ofstream(from / "run.sh") << "text";
    fs::permissions(from / "run.sh", fs::perms(04750));
    tool::beside others(from, to, tool::read_metadata(from.string()), false);
    synced_files = synced_directories = 0;
    others.stage();
    BOOST_TEST(synced_files >= 2);
    BOOST_TEST(synced_directories >= 2);
    BOOST_TEST(!fs::exists(to / "run.sh"));
    auto const before = synced_directories.load();
    others.appear();
    BOOST_TEST(others.failed().empty());
    BOOST_TEST(synced_directories > before);
    BOOST_TEST(text_of(to / "tokenizer/vocab") == std::string(100'000, 'v'));
    BOOST_TEST(text_of(to / "run.sh") == "text");
    BOOST_TEST((fs::status(to / "run.sh").permissions() == fs::perms(0750)));
    BOOST_TEST(copies_in(to) == 0);
}

BOOST_AUTO_TEST_CASE(copies_that_cannot_be_removed_are_a_problem_and_not_counted) {
    support::scratch s;
    fs::permissions(s.dir, fs::perms(0755));
    auto const copies = s.dir / (std::string(tool::beside::staged_name) + ".abcdef");
    fs::create_directories(copies);
    std::ofstream(copies / "vocab") << "four";
    fs::create_directories(copies / "another_users");
    fs::permissions(copies / "another_users", fs::perms(0));
    fs::permissions(copies, fs::perms(0555));
    // An administrator may remove everything.
    bool const is_root = ::geteuid() == 0;
    if (is_root) BOOST_REQUIRE(::seteuid(65534) == 0);
    cairn::garbage_report r;
    tool::collect_copies(s.dir, false, r);
    if (is_root) BOOST_REQUIRE(::seteuid(0) == 0);
    fs::permissions(copies, fs::perms(0755));
    fs::permissions(copies / "another_users", fs::perms(0755));
    BOOST_TEST(r.files == 0u);
    BOOST_TEST(r.bytes == 0u);
    BOOST_TEST(r.problems == 1u);
    BOOST_TEST(r.lines.back().find("cannot be removed") != std::string::npos);
    r = {};
    tool::collect_copies(s.dir, false, r);
    BOOST_TEST(r.files == 1u);
    BOOST_TEST(r.bytes == 4u);
    BOOST_TEST(r.problems == 0u);
    BOOST_TEST(!fs::exists(copies));
}

BOOST_AUTO_TEST_CASE(copies_beside_an_export_have_the_permissions_of_their_files) {
    support::scratch s;
    auto const from = s.dir / "from", to = s.dir / "to";
    std::vector<float> w(3);
    (void)cairn::save(cairn::state_dict{{"w", w}}, from.string());
    std::map<std::string, fs::perms> modes{{"hf_token", fs::perms(0600)},
                                           {"log", fs::perms(0640)},
                                           {"run.sh", fs::perms(06750)},
                                           {"there", fs::perms(0644)}};
    for (auto const& [name, mode] : modes) {
        std::ofstream(from / name) << "text";
        fs::permissions(from / name, mode);
    }
    fs::create_directories(to);
    std::ofstream(to / "there") << "what is replaced leaves its permissions";
    fs::permissions(to / "there", fs::perms(0600));
    tool::beside others(from, to, tool::read_metadata(from.string()), false);
    cairn::safetensors_writer_options o;
    o.add_files = [&](auto const& put) { others.add_to(put); };
    (void)cairn::convert(from.string(), to.string(), cairn::safetensors_writer(o));
    BOOST_TEST((fs::status(to / "hf_token").permissions() == fs::perms(0600)));  // at any time
    fs::remove(from / "log");
    others.finish();
    modes["run.sh"] = fs::perms(0750);  // whoever runs it does not become its owner
    modes["there"] = fs::perms(0600);
    for (auto const& [name, mode] : modes)
        BOOST_TEST((fs::status(to / name).permissions() == mode), name);
}

BOOST_AUTO_TEST_CASE(files_that_are_gone_or_cannot_be_looked_at_keep_nobody_from_the_rest) {
    support::scratch s;
    fs::permissions(s.dir, fs::perms(0755));
    auto const from = s.dir / "from", to = s.dir / "to", dcp = s.dir / "dcp";
    std::vector<float> w(3);
    (void)cairn::save(cairn::state_dict{{"w", w}}, from.string());
    std::ofstream(from / "log") << "text";
    std::ofstream(from / "rotated") << "text";
    fs::create_symlink("itself", from / "itself");
    fs::create_directories(from / "lost+found");
    fs::permissions(from / "lost+found", fs::perms(0));
    // An administrator may list everything.
    bool const is_root = ::geteuid() == 0;
    if (is_root) BOOST_REQUIRE(::seteuid(65534) == 0);
    tool::beside others(from, to, tool::read_metadata(from.string()), false);
    if (is_root) BOOST_REQUIRE(::seteuid(0) == 0);
    fs::permissions(from / "lost+found", fs::perms(0755));
    BOOST_TEST((others.names() == std::vector<std::string>{"log", "rotated"}));
    BOOST_TEST((others.not_copied() == std::vector<std::string>{"itself", "lost+found"}));

    fs::remove(from / "rotated");
    cairn::safetensors_writer_options o;
    o.add_files = [&](auto const& put) { others.add_to(put); };
    BOOST_CHECK_NO_THROW(
        (void)cairn::convert(from.string(), to.string(), cairn::safetensors_writer(o)));
    BOOST_TEST(text_of(to / "log") == "text");
    BOOST_TEST(others.failed().count("rotated") == 1u);

    std::ofstream(from / "rotated") << "text";
    tool::beside staged(from, dcp, tool::read_metadata(from.string()), false);
    fs::remove(from / "rotated");
    BOOST_CHECK_NO_THROW(staged.stage());
    staged.appear();
    BOOST_TEST(text_of(dcp / "log") == "text");
    BOOST_TEST(staged.failed().size() == 1u);
    BOOST_TEST(staged.failed().count("rotated") == 1u);
}

BOOST_AUTO_TEST_CASE(checkpoints_below_are_not_copied_and_not_forgotten) {
    support::scratch s;
    auto const from = s.dir / "from";
    std::vector<float> w(3);
    cairn::state_dict const sd{{"w", w}};
    cairn::torch_writer_options own;
    own.file_name = [](int, int) { return std::string("shards/own"); };
    (void)cairn::save(sd, from.string(), cairn::torch_writer(cairn::file_store(), own));
    (void)cairn::save(sd, (from / "ckpt/step_1").string());
    std::string const id(32, 'a');
    fs::create_directories(from / "interrupted");
    fs::create_directories(from / "rank_metadata");
    for (auto const& name : std::vector<std::string>{
             "interrupted/.saving." + id, "interrupted/__0_0." + id + ".distcp",
             "rank_metadata/__1.metadata", "rank_metadata/__1_0.distcp", ".metadata.json",
             ".metadata.quarantined", ".reading." + id, ".cairn-trial." + id, ".cairn-records",
             "ckpt/left." + id + ".distcp", "left." + id + ".distcp",
             "shards/left." + id + ".distcp", "ckpt/log"})
        std::ofstream(from / name) << "x";
    tool::beside const others(from, s.dir / "to", tool::read_metadata(from.string()), false);
    BOOST_TEST((others.names() == std::vector<std::string>{".metadata.json", "ckpt/log"}));
    auto named = others.not_copied();
    std::sort(named.begin(), named.end());
    BOOST_TEST((named == std::vector<std::string>{"ckpt/left." + id + ".distcp", "ckpt/step_1",
                                                  "interrupted", "rank_metadata"}));
}

BOOST_AUTO_TEST_CASE(what_a_download_keeps_is_no_part_of_a_checkpoint) {
    support::scratch s;
    auto const from = s.dir / "from";
    std::vector<float> w(3);
    (void)cairn::save(cairn::state_dict{{"w", w}}, (from / "model.safetensors").string(),
                      cairn::safetensors_writer());
    for (auto const* name : {".git/lfs/objects", ".cache/huggingface", ".hydra", "a/.cache"}) {
        fs::create_directories(from / name);
        std::ofstream(from / name / "file") << "x";
    }
    std::ofstream(from / ".gitattributes") << "x";
    tool::beside const others(from, s.dir / "to", tool::read_metadata(from.string()), false);
    BOOST_TEST((others.unused() == std::vector<std::string>{".cache", ".git"}));
    BOOST_TEST((others.names() ==
                std::vector<std::string>{".gitattributes", ".hydra/file", "a/.cache/file"}));
    BOOST_TEST(others.not_copied().empty());
}

BOOST_AUTO_TEST_CASE(copies_take_the_place_of_other_files_once_they_are_all_there) {
    support::scratch s;
    auto const from = s.dir / "from", to = s.dir / "to", fresh = s.dir / "fresh";
    std::vector<float> w(3);
    (void)cairn::save(cairn::state_dict{{"w", w}}, from.string());
    std::ofstream(from / "common.pt") << "of this one";
    std::ofstream(from / "name") << "text";
    fs::create_directories(to / "name");
    fs::create_directories(to / ".cairn-copies");
    std::ofstream(to / "common.pt") << "of another one";
    for (auto const* name : {"common.pt", "other"})
        std::ofstream(to / ".cairn-copies" / name) << "of a conversion that was killed";
    tool::beside others(from, to.string() + "/", tool::read_metadata(from.string()), false);
    others.stage();
    BOOST_TEST(text_of(to / "common.pt") == "of another one");
    others.unstage();
    BOOST_TEST(text_of(to / "common.pt") == "of another one");
    BOOST_TEST(copies_in(to) == 0);
    others.stage();
    others.appear();
    BOOST_TEST(text_of(to / "common.pt") == "of this one");
    BOOST_TEST(others.failed().size() == 1u);
    BOOST_TEST(others.failed().count("name") == 1u);  // there is a directory
    BOOST_TEST(!fs::exists(to / "other"));
    BOOST_TEST(copies_in(to) == 0);
    tool::beside again(from, fresh, tool::read_metadata(from.string()), false);
    again.stage();
    again.unstage();
    BOOST_TEST(!fs::exists(fresh));
}

BOOST_AUTO_TEST_CASE(two_conversions_to_one_place_keep_their_copies_apart) {
    support::scratch s;
    auto const a = s.dir / "a", b = s.dir / "b", to = s.dir / "to";
    std::vector<float> w(3);
    for (auto const& from : {a, b}) {
        (void)cairn::save(cairn::state_dict{{"w", w}}, from.string());
        std::ofstream(from / "config.json") << from.filename().string();
    }
    tool::beside first(a, to, tool::read_metadata(a.string()), false);
    tool::beside second(b, to, tool::read_metadata(b.string()), false);
    first.stage();
    second.stage();
    BOOST_TEST(copies_in(to) == 2);
    second.unstage();
    first.appear();
    BOOST_TEST(first.failed().empty());
    BOOST_TEST(text_of(to / "config.json") == "a");
    BOOST_TEST(copies_in(to) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
