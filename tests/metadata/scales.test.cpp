// SPDX-License-Identifier: Apache-2.0
#include <cairn/metadata/detail/scales.hpp>

#include <cairn/metadata/metadata.hpp>
#include <cairn/tensor/dtype.hpp>

#include <boost/test/unit_test.hpp>

#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>

BOOST_AUTO_TEST_SUITE(scales)

namespace {

using cairn::dtype;

cairn::metadata of(std::initializer_list<std::pair<const char*, dtype>> tensors) {
    cairn::metadata m;
    for (auto const& [name, type] : tensors)
        m.entries.emplace(name, cairn::tensor_metadata{type, {2}, false, {}});
    return m;
}
/// The scales of the codes under a name; empty: it has none.
std::string found(const cairn::metadata& m, const std::string& name) {
    auto const codes = cairn::detail::codes_of(m, name, m.tensor(name)->type);
    return codes ? codes->scales : std::string();
}

}  // namespace

BOOST_AUTO_TEST_CASE(codes_are_numbers_of_one_byte_with_scales_of_any_known_name) {
    for (auto const& [codes, type, scales] : {
             std::tuple("a.w", dtype::float8_e4m3fn, "a.w_scale_inv"),
             std::tuple("a.w", dtype::int8, "a.w_scale"),
             std::tuple("a.w", dtype::uint8, "a.w_zero_point"),
             std::tuple("a.w_blocks", dtype::uint8, "a.w_scales"),
             std::tuple("a.w_packed", dtype::uint8, "a.w_scale"),
             std::tuple("a.weight", dtype::int8, "a.SCB"),
             std::tuple("a.weight", dtype::uint8, "a.weight.absmax"),
             std::tuple("a.weight", dtype::float8_e4m3fn, "a.scale_weight"),
             std::tuple("weight", dtype::float8_e4m3fn, "qscale_weight"),
         }) {
        BOOST_TEST(found(of({{codes, type}, {scales, dtype::float32}}), codes) == scales);
        BOOST_TEST(found(of({{codes, dtype::float16}, {scales, dtype::float32}}), codes).empty());
        BOOST_TEST(found(of({{codes, dtype::boolean}, {scales, dtype::float32}}), codes).empty());
        auto m = of({{codes, type}});
        BOOST_TEST(found(m, codes).empty());
        m.unsupported[scales].type = "F8_NEW";
        BOOST_TEST(found(m, codes) == scales);
        m.unsupported.clear();
        m.entries.emplace(scales, cairn::value_metadata{});
        BOOST_TEST(found(m, codes) == scales);
    }
    BOOST_TEST(found(of({{"a.weight", dtype::int8},
                         {"a.input_scale", dtype::float32},
                         {"a.weight_scale", dtype::float32}}),
                     "a.weight") == "a.weight_scale");
}

BOOST_AUTO_TEST_CASE(a_scale_that_belongs_to_something_else_makes_no_codes) {
    auto const m = of({{"logit_scale", dtype::float32},
                       {"text_projection", dtype::float8_e4m3fn},
                       {"positions", dtype::uint8},
                       {"weight", dtype::float8_e4m3fn},
                       {"a.b.scale", dtype::float32},
                       {"a.weight", dtype::int8},
                       {"ab.scale", dtype::float32},
                       {"c.weight", dtype::float8_e5m2},
                       {"c.logit_scale", dtype::float8_e5m2}});
    for (auto const* name : {"text_projection", "positions", "a.weight", "c.weight"})
        BOOST_TEST(found(m, name).empty(), name);
    BOOST_TEST(found(m, "weight") == "logit_scale");
}

BOOST_AUTO_TEST_SUITE_END()
