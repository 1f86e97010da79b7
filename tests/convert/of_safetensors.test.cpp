// SPDX-License-Identifier: Apache-2.0
// What only files of safetensors have.
#include "support/error_codes.hpp"
#include "support/scratch.hpp"

#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>
#include <cairn/mapping/text.hpp>
#include <cairn/storage/checkpoint_reader.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

BOOST_AUTO_TEST_SUITE(convert_of_safetensors)

namespace {

namespace fs = std::filesystem;
using support::is;

void write(const fs::path& file, const std::string& header, std::size_t bytes) {
    std::ofstream f(file, std::ios::binary);
    for (unsigned i = 0; i < 8; ++i) f.put(static_cast<char>(header.size() >> (8 * i) & 0xff));
    f << header << std::string(bytes, 'x');
}

}  // namespace

BOOST_AUTO_TEST_CASE(tensors_of_parts_of_bytes_that_become_others_are_named_or_refused) {
    support::scratch s;
    auto const from = (s.dir / "from.safetensors").string(),
               to = (s.dir / "to.safetensors").string();
    write(from,
          R"({"even":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]},)"
          R"("f6":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[3,6]},)"
          R"("odd":{"dtype":"F4","shape":[2,3],"data_offsets":[6,9]}})",
          9);
    auto const is_odd = [](const cairn::error& e) {
        return is(e, cairn::errc::unsupported) && e.context().fqn == "odd" &&
               e.context().found == "F4 [2, 3]";
    };
    BOOST_CHECK_EXCEPTION((void)cairn::convert(from, to, cairn::safetensors_writer()), cairn::error,
                          is_odd);
    BOOST_CHECK_EXCEPTION(cairn::check_conversion(from, {}), cairn::error, is_odd);
    BOOST_TEST(!fs::exists(to));
    cairn::convert_options o;
    o.wants = [](std::string_view fqn) { return fqn != "odd"; };
    auto const r = cairn::convert(from, to, o, cairn::safetensors_writer());
    BOOST_REQUIRE(r.saved.warnings.size() == 1u);
    BOOST_TEST(r.saved.warnings[0] == "'f6' was F6_E2M3 [4]; its bytes are copied as uint8 [3]");
    o.wants = [](std::string_view fqn) { return fqn == "even"; };
    BOOST_TEST(cairn::convert(from, to, o, cairn::safetensors_writer()).saved.warnings.empty());
    // The names of a mapping are those that count.
    o.wants = [](std::string_view fqn) { return fqn == "x"; };
    auto const how = cairn::parse_mapping("\"x\" = \"even\"\n");
    BOOST_TEST(
        cairn::convert(from, to, o, cairn::safetensors_writer(), how).saved.warnings.empty());
    BOOST_CHECK_NO_THROW(cairn::check_conversion(from, o, how));
    BOOST_CHECK_EXCEPTION(cairn::check_conversion(from, o), cairn::error, [](const auto& e) {
        return is(e, cairn::errc::invalid_argument);  // there is no 'x'
    });
}

BOOST_AUTO_TEST_CASE(codes_and_scales_of_any_form_do_not_become_another_dtype) {
    auto const of = [](const char* method) {
        return std::string(R"({"quantization_config":{"quant_method":")") + method + "\"}}";
    };
    struct sample {
        std::string tensors{};  ///< `name:dtype`, of shape [2, 2].
        std::string config{};
        std::string refused{};  ///< The first name; empty: none is.
    };
    for (auto const& [tensors, config, refused] : {
             sample{"l.qweight:I32 l.scales:F16", "", "l.scales"},
             sample{"l.qweight:I32 l.qzeros:I32 l.scales:F16", of("gptq"), "l.scales"},
             sample{"l.qweight:I32 m.weight:F16", of("gptq"), ""},
             sample{"l.codes:I16 l.codebooks:F16", of("aqlm"), "l.codebooks"},
             sample{"l.codes:I16 l.codebooks:F16", "", ""},
             sample{"l.weight:U8 l.weight.absmax:F32", "", "l.weight.absmax"},
             sample{"l.SCB:F32 l.bias:F16 l.weight:I8", "", "l.SCB"},
             sample{"l.weight:F8_E4M3", "", ""},
             sample{"l.weight:F8_E4M3", of("quark"), "l.weight"},
             sample{"l.weight:F8_E4M3", of("fp8"), ""},
             sample{"l.scale_weight:BF16 l.weight:F8_E4M3", "", "l.weight"},
             sample{"l.weight:F8_E4M3 l.weight_scale:U8", "", "l.weight"},
             sample{"l.weight:F8_E4M3 l.weight_scale:F8_NEW", "", "l.weight"},
             sample{"a.logit_scale:F32 a.relative_position_index:I64", "", ""},
         }) {
        support::scratch s;
        std::string header;
        std::size_t at = 0;
        std::istringstream all(tensors);
        for (std::string one; all >> one;) {
            auto const colon = one.find(':');
            auto const type = one.substr(colon + 1);
            std::size_t const size = type.find('8') != type.npos ? 1
                                     : type.ends_with("16")      ? 2
                                     : type.ends_with("32")      ? 4
                                                                 : 8;
            header += (header.empty() ? "{\"" : ",\"") + one.substr(0, colon) + R"(":{"dtype":")" +
                      type + R"(","shape":[2,2],"data_offsets":[)" + std::to_string(at) + "," +
                      std::to_string(at + 4 * size) + "]}";
            at += 4 * size;
        }
        auto const from = (s.dir / "model.safetensors").string(),
                   to = (s.dir / "to.safetensors").string();
        write(from, header + "}", at);
        if (!config.empty()) std::ofstream(s.dir / "config.json") << config;
        cairn::convert_options o;
        o.floats_as = cairn::dtype::bfloat16;
        auto const run = [&] { (void)cairn::convert(from, to, o, cairn::safetensors_writer()); };
        BOOST_TEST_CONTEXT(tensors << ", " << config) {
            if (refused.empty()) {
                BOOST_CHECK_NO_THROW(run());
                continue;
            }
            BOOST_CHECK_EXCEPTION(run(), cairn::error, [&name = refused](const cairn::error& e) {
                return is(e, cairn::errc::invalid_argument) && e.context().fqn == name;
            });
            BOOST_TEST(!fs::exists(to));
        }
    }
}

/// Weights that cannot be what they stand for are left out, here all of them.
BOOST_AUTO_TEST_CASE(a_target_with_nothing_replaces_nothing) {
    support::scratch s;
    auto const from = (s.dir / "from.safetensors").string();
    write(from, R"({"w":{"dtype":"F8_E4M3","shape":[3,2],"data_offsets":[0,6]}})", 6);
    auto const before = fs::file_size(from);
    cairn::convert_options o;
    o.dequantise.emplace();
    BOOST_CHECK_EXCEPTION((void)cairn::convert(from, from, o, cairn::safetensors_writer()),
                          cairn::error, [](const cairn::error& e) {
                              return is(e, cairn::errc::unsupported) && e.context().fqn == "w";
                          });
    BOOST_TEST(fs::file_size(from) == before);
}

/// It may throw, and the target is there then.
BOOST_AUTO_TEST_CASE(a_conversion_asks_what_is_wanted_before_its_target_exists) {
    support::scratch s;
    auto const from = (s.dir / "from.safetensors").string(),
               to = (s.dir / "to.safetensors").string();
    write(from,
          R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
          R"("w":{"dtype":"F8_E4M3","shape":[3,2],"data_offsets":[8,14]}})",
          14);
    cairn::convert_options o;
    o.dequantise.emplace();
    o.wants = [&](std::string_view) {
        if (fs::exists(to)) throw std::runtime_error("asked after the commit");
        return true;
    };
    auto const r = cairn::convert(from, to, o, cairn::safetensors_writer());
    BOOST_REQUIRE(r.left_out.size() == 1u);
    BOOST_TEST(r.left_out[0] == "w");
}

BOOST_AUTO_TEST_CASE(members_of_the_header_that_a_copy_does_not_have_are_listed) {
    support::scratch s;
    std::string const tensors = R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    write(s.dir / "model-00001-of-00001.safetensors",
          R"({"__metadata__":{"format":"pt","cairn_crc32":"{}","DCP_VERSION":"1.0",)"
          R"("modelspec.title":"x"},)" +
              tensors,
          1);
    write(s.dir / "flax.safetensors", R"({"__metadata__":{"format":"flax"},)" + tensors, 1);
    write(s.dir / "tied.safetensors",
          R"({"__metadata__":{"tied":"w","other":"x","w":"w"},)" + tensors, 1);
    auto const listed = [](const fs::path& checkpoint) {
        cairn::checkpoint_reader reader{cairn::file_store()};
        reader.reset(checkpoint.string());
        return reader.read_metadata().unknown_members;
    };
    using names = std::set<std::string, std::less<>>;
    auto const file = s.dir / "model-00001-of-00001.safetensors";
    BOOST_TEST((listed(file) == names{"__metadata__.modelspec.title"}));
    BOOST_TEST((listed(s.dir / "flax.safetensors") == names()));
    BOOST_TEST(
        (listed(s.dir / "tied.safetensors") == names{"__metadata__.other", "__metadata__.w"}));
    std::ofstream(s.dir / "model.safetensors.index.json")
        << R"({"weight_map":{"w":"model-00001-of-00001.safetensors"}})";
    BOOST_TEST((listed(s.dir) == names{"__metadata__.modelspec.title"}));
}

BOOST_AUTO_TEST_SUITE_END()
