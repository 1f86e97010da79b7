// SPDX-License-Identifier: Apache-2.0
// Bytes of a data file belong to one item, except those of a tied weight in cairn's own metadata.
#include <cairn/metadata/check.hpp>

#include <cairn/cairn.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

BOOST_AUTO_TEST_SUITE(shared_bytes)

namespace {

/// Two tensors of one file; the first item takes bytes 0 to 100.
cairn::metadata two_tensors(std::uint64_t second, const std::string& save_id) {
    cairn::metadata m;
    m.save_id = save_id;
    for (auto const& [name, offset] :
         {std::pair<const char*, std::uint64_t>{"a", 0}, {"b", second}}) {
        cairn::tensor_metadata t;
        t.shape = {5};
        cairn::chunk c;
        c.region = cairn::box::whole(t.shape);
        c.at = {"__0_0.distcp", offset, 100, {}, {}};
        t.chunks.push_back(c);
        m.entries[name] = t;
    }
    return m;
}
/// Of the tensors above.
constexpr std::uint64_t payload_bytes = 5 * sizeof(float);

/// The first of these tensors has a payload that the index describes.
cairn::metadata with_payload(std::uint64_t offset, std::uint64_t bytes) {
    auto m = two_tensors(100, std::string(32, 'a'));
    std::get<cairn::tensor_metadata>(m.entries.find("a")->second)
        .chunks.edit(0, [&](cairn::chunk& c) {
            c.at.layout = cairn::item_layout{
                .payload_offset = offset, .payload_length = bytes, .strides = {1}};
        });
    return m;
}

}  // namespace

BOOST_AUTO_TEST_CASE(shared_bytes_are_refused_unless_they_are_a_tied_weight_of_cairns) {
    std::string const cairns(32, 'a');
    for (auto const& save_id : {std::string(), cairns}) {
        BOOST_CHECK_NO_THROW(cairn::check_metadata(two_tensors(100, save_id)));
        for (std::uint64_t const offset : {1u, 50u, 99u})
            BOOST_CHECK_THROW(cairn::check_metadata(two_tensors(offset, save_id)), cairn::error);
    }
    BOOST_CHECK_NO_THROW(cairn::check_metadata(two_tensors(0, cairns)));
    BOOST_CHECK_THROW(cairn::check_metadata(two_tensors(0, {})), cairn::error);
}

/// The payload of an item lies within it: the next bytes are another item's.
BOOST_AUTO_TEST_CASE(a_payload_that_leaves_its_item_shares_no_bytes) {
    auto const with_payload_at = [](std::uint64_t offset) {
        return with_payload(offset, payload_bytes);
    };
    for (std::uint64_t const offset : {0u, 64u, 80u})
        BOOST_CHECK_NO_THROW(cairn::check_metadata(with_payload_at(offset)));
    for (std::uint64_t const offset :
         {std::uint64_t{81}, std::uint64_t{100}, UINT64_MAX - 20, UINT64_MAX - 19, UINT64_MAX})
        BOOST_CHECK_EXCEPTION(
            cairn::check_metadata(with_payload_at(offset)), cairn::error, [](const auto& e) {
                return e.code() == make_error_code(cairn::errc::corrupt) && e.context().fqn == "a";
            });
}

/// Nor may a payload be longer or shorter than what its box has.
BOOST_AUTO_TEST_CASE(a_payload_of_another_length_shares_no_bytes) {
    BOOST_CHECK_NO_THROW(cairn::check_metadata(with_payload(0, payload_bytes)));
    for (auto const bytes :
         {payload_bytes - 4, payload_bytes - 1, payload_bytes + 1, payload_bytes + 4})
        BOOST_CHECK_THROW(cairn::check_metadata(with_payload(0, bytes)), cairn::error);
}

/// Whatever the order in which equal ranges are looked at, which takes more than a few to change.
BOOST_AUTO_TEST_CASE(two_chunks_of_one_tensor_share_no_bytes) {
    constexpr int names = 40;
    for (int twice = -1; twice < names; ++twice) {
        cairn::metadata m;
        m.save_id = std::string(32, 'a');
        for (int i = 0; i < names; ++i) {
            cairn::tensor_metadata t;
            t.shape = {0};
            cairn::chunk c;
            c.region = cairn::box::whole(t.shape);
            c.at = {"__0_0.distcp", 0, 100, {}, {}};
            for (int n = i == twice ? 2 : 1; n > 0; --n) t.chunks.push_back(c);
            m.entries[std::to_string(i)] = t;
        }
        if (twice < 0)
            BOOST_CHECK_NO_THROW(cairn::check_metadata(m));
        else
            BOOST_CHECK_THROW(cairn::check_metadata(m), cairn::error);
    }
}

BOOST_AUTO_TEST_SUITE_END()
