// SPDX-License-Identifier: Apache-2.0
// What PyTorch wrote, loaded whole and by rows on several ranks, against what it holds.
#include "support/expected.hpp"
#include "support/whole.hpp"

#include <boost/json/src.hpp>
#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(golden_samples)

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

using support::hex, support::plain, support::slurp;

fs::path const golden = CAIRN_GOLDEN;

std::vector<fs::path> cases() {
    std::vector<fs::path> out;
    for (auto const& e : fs::recursive_directory_iterator(golden))
        if (e.path().filename() == "expected.json" &&
            fs::exists(e.path().parent_path() / "checkpoint"))
            out.push_back(e.path().parent_path());
    return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_samples_are_there) {
    BOOST_TEST(cases().size() >= 12u);
}

BOOST_AUTO_TEST_CASE(samples_load_whole_as_pytorch_says) {
    for (auto const& dir : cases()) {
        BOOST_TEST_CONTEXT(dir) {
            auto const w = support::load_whole(cairn::file_store(), (dir / "checkpoint").string());
            auto const want = json::parse(slurp(dir / "expected.json"));
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
                    BOOST_TEST(hex(t.bytes) == std::string_view(x.at("hex").as_string()));
                }
            }
            auto const& objects = want.at("objects").as_object();
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
    for (auto const& dir : cases()) {
        auto const id = (dir / "checkpoint").string();
        auto const w = support::load_whole(cairn::file_store(), id);
        cairn::torch_reader reader{cairn::file_store()};
        reader.reset(id);
        auto const m = reader.read_metadata();
        for (int n : {1, 2, 3, 5, 8}) {
            cairn::run_ranks(n, [&](cairn::thread_group::member& me) {
                support::rows r(m, me.rank(), n);
                cairn::load(r, id, me);
                if (!r.equals(w)) throw std::runtime_error(dir.string() + ": rows differ");
            });
        }
        BOOST_TEST(!m.entries.empty());
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
