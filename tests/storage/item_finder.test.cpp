// SPDX-License-Identifier: Apache-2.0
// What finds the items of a format: what its exceptions say.
#include "support/known_reader.hpp"

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(item_finder)

namespace {

using cairn::dtype;
using support::counted;
using support::known_reader;
using support::stored;
using support::with_file;

}  // namespace

/// None of them says where it happened.
BOOST_AUTO_TEST_CASE(an_exception_of_a_finder_is_an_error_that_names_tensor_and_file) {
    cairn::metadata m;
    m.entries["w"] = stored(dtype::float32, {4}, "f", 0, 16);
    m.entries["v"] = cairn::value_metadata{{"f", 0, 8, {}, {}}};
    auto const own = make_error_code(boost::system::errc::bad_message);
    auto const missing = make_error_code(cairn::errc::not_found);
    auto const is_named = [&](cairn::error_code code, const std::function<void()>& fail) {
        cairn::item_finder finder;
        finder.find_chunk = [&](auto&&...) {
            fail();
            return cairn::payload();
        };
        finder.read_value = [&](auto&&...) {
            fail();
            return cairn::value();
        };
        std::vector<float> w(4);
        std::int64_t v = 0;
        for (std::string const fqn : {"w", "v"}) {
            auto const is_of_it = [&](const cairn::error& e) {
                auto const& where = e.context();
                return e.code() == code && where.fqn == fqn && where.file.ends_with("f") &&
                       where.found.starts_with("why");
            };
            cairn::state_dict sd;
            if (fqn == "w")
                sd[fqn] = w;
            else
                sd[fqn] = std::ref(v);
            BOOST_CHECK_EXCEPTION(
                (void)cairn::load(sd, "", known_reader(with_file("f", counted(4)), m, finder)),
                cairn::error, is_of_it);
        }
    };
    is_named(make_error_code(cairn::errc::rank_failed), [] { throw std::runtime_error("why"); });
    is_named(own, [&] { throw boost::system::system_error(own, "why"); });
    is_named(own, [&] { throw cairn::error(own, {.found = "why"}); });
    is_named(missing, [&] { throw cairn::error(missing, {.found = "why"}); });
}

BOOST_AUTO_TEST_SUITE_END()
