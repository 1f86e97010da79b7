// SPDX-License-Identifier: Apache-2.0
// What PyTorch and others wrote, loaded whole and by rows on several ranks, against what it holds.
#include "support/expected.hpp"
#include "support/sha256.hpp"
#include "support/whole.hpp"

#include <boost/json/src.hpp>
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(golden_samples)

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

using support::hex, support::plain, support::slurp;

fs::path const golden = CAIRN_GOLDEN;

struct sample {
    fs::path dir;
    json::object expected;
    std::string id() const {
        for (auto const* key : {"checkpoint", "file"})
            if (auto const* name = expected.if_contains(key))
                return (dir / std::string(name->as_string())).string();
        return fs::exists(dir / "checkpoint") ? (dir / "checkpoint").string() : dir.string();
    }
};
/// @param refused  Those that must be, otherwise the others.
std::vector<sample> samples(bool refused = false) {
    std::vector<sample> out;
    for (auto const& e : fs::recursive_directory_iterator(golden)) {
        if (e.path().filename() != "expected.json") continue;
        auto expected = json::parse(slurp(e.path())).as_object();
        if (expected.contains("refuse") != refused) continue;
        sample s{e.path().parent_path(), std::move(expected)};
        auto const kind = fs::path(s.id()).extension();
        if (kind != ".pt" && kind != ".ckpt") out.push_back(std::move(s));
    }
    return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_samples_are_there) {
    BOOST_TEST(samples().size() >= 20u);
    BOOST_TEST(samples(true).size() >= 3u);
}

BOOST_AUTO_TEST_CASE(samples_load_whole_as_pytorch_says) {
    for (auto const& s : samples()) {
        BOOST_TEST_CONTEXT(s.dir) {
            auto const w = support::load_whole(cairn::file_store(), s.id());
            auto const& want = s.expected;
            auto const& tensors = want.at("tensors").as_object();
            BOOST_TEST(w.tensors.size() == tensors.size());
            for (auto const& [key, x] : tensors) {
                BOOST_TEST_CONTEXT(key) {
                    auto const it = w.tensors.find(std::string(key));
                    BOOST_REQUIRE((it != w.tensors.end()));
                    auto const& t = it->second;
                    BOOST_TEST(cairn::name_of(t.type) ==
                               std::string_view(x.at("dtype").as_string()));
                    cairn::index_vector shape;
                    for (auto const& n : x.at("shape").as_array()) shape.push_back(n.as_int64());
                    BOOST_TEST((t.shape == shape));
                    auto const* const bytes = x.as_object().if_contains("hex");
                    auto const& wanted = bytes != nullptr ? *bytes : x.at("sha256");
                    BOOST_TEST((bytes != nullptr ? hex(t.bytes) : support::sha256(t.bytes)) ==
                               std::string_view(wanted.as_string()));
                }
            }
            auto const* const values = want.if_contains("objects");
            auto const objects = values != nullptr ? values->as_object() : json::object();
            BOOST_TEST(w.objects.size() == objects.size());
            for (auto const& [key, x] : objects) {
                auto const it = w.objects.find(std::string(key));
                BOOST_REQUIRE((it != w.objects.end()));
                BOOST_TEST(plain(it->second) == x, key);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(samples_load_by_rows_on_other_numbers_of_ranks) {
    for (auto const& one : samples()) {
        auto const id = one.id();
        auto const w = support::load_whole(cairn::file_store(), id);
        cairn::checkpoint_reader reader{cairn::file_store()};
        reader.reset(id);
        auto const m = reader.read_metadata();
        for (int n : {1, 2, 3, 5, 8}) {
            cairn::run_ranks(n, [&](cairn::thread_group::member& me) {
                support::rows r(m, me.rank(), n);
                cairn::load(r, id, me);
                if (!r.equals(w)) throw std::runtime_error(id + ": rows differ");
            });
        }
        BOOST_TEST(!m.entries.empty());
    }
}

BOOST_AUTO_TEST_CASE(hostile_samples_are_refused) {
    for (auto const& s : samples(true)) {
        BOOST_TEST_CONTEXT(s.dir) {
            BOOST_CHECK_THROW((void)support::load_whole(cairn::file_store(), s.id()), cairn::error);
        }
    }
}

/// Each rank has its own metadata, with its shards; `zstd` has the same tensors in one.
BOOST_AUTO_TEST_CASE(parts_of_single_ranks_have_what_the_whole_has) {
    auto const all =
        support::load_whole(cairn::file_store(), (golden / "zstd/checkpoint").string());
    for (std::int64_t rank = 0; rank < 2; ++rank) {
        auto const id = (golden / "rank_local" / ("__" + std::to_string(rank) + ".metadata"));
        auto const row = rank * 4, rows = 4 - rank;  // of 7
        std::vector<float> part(static_cast<std::size_t>(rows) * 6);
        cairn::value step;
        cairn::state_dict sd{
            {"step", std::ref(step)},
            {"rows",
             cairn::sharded_view{
                 {7, 6},
                 cairn::dtype::f32,
                 {cairn::shard(cairn::box({row, 0}, {rows, 6}),
                               cairn::tensor_view(cairn::dtype::f32, {rows, 6}, part.data()))}}}};
        (void)cairn::load(sd, id.string(), cairn::file_store());
        BOOST_TEST(step.as<int>() == 7);
        BOOST_TEST(std::memcmp(part.data(), all.tensors.at("rows").bytes.data() + row * 24,
                               part.size() * sizeof(float)) == 0);
    }
}

BOOST_AUTO_TEST_CASE(crafted_variants_are_accepted_or_refused_as_told) {
    auto const reference =
        support::load_whole(cairn::file_store(), (golden / "crafted/A_min").string());
    for (auto const& e : fs::directory_iterator(golden / "crafted")) {
        auto const name = e.path().filename().string();
        BOOST_TEST_CONTEXT(name) {
            auto const load = [&] {
                return support::load_whole(cairn::file_store(), e.path().string());
            };
            if (name[0] == 'B' || name[0] == 'D') {
                BOOST_CHECK_EXCEPTION(load(), cairn::error, [](const cairn::error& x) {
                    return x.code() == cairn::make_error_code(cairn::errc::corrupt);
                });
            } else if (name[0] == 'C') {
                BOOST_CHECK_EXCEPTION(load(), cairn::error, [](const cairn::error& x) {
                    return x.code() == cairn::make_error_code(cairn::errc::checksum_mismatch);
                });
            } else {
                BOOST_TEST(load().tensors.size() == reference.tensors.size());
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
