// SPDX-License-Identifier: Apache-2.0
// Items that PyTorch's readers would take, and cairn does not: of other classes, or damaged.
#include <cairn/format/torch/item.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(value_item)

namespace {

namespace torch = cairn::format::torch;
using cairn::errc;
using cairn::value;
using bytes = std::vector<std::byte>;

std::span<const std::byte> bytes_of(std::string_view s) {
    return std::as_bytes(std::span(s.data(), s.size()));
}
value unpickled(std::string_view pickle) {
    auto const t = cairn::format::pickle::reader::read(bytes_of(pickle));
    return cairn::format::pickle::to_value(t)(t.root);
}
void is_error(errc code, const std::function<void()>& f) {
    BOOST_CHECK_EXCEPTION(f(), cairn::error,
                          [&](const cairn::error& e) { return e.code() == make_error_code(code); });
}
/// The same item with one byte of its data.pkl changed, whose checksum stays.
bytes damaged(bytes item, std::string_view within) {
    auto const text = bytes_of(within);
    auto const at = std::search(item.begin(), item.end(), text.begin(), text.end());
    BOOST_REQUIRE(at != item.end());
    *at ^= std::byte{1};
    return item;
}

}  // namespace

BOOST_AUTO_TEST_CASE(objects_of_any_other_class_are_refused) {
    using namespace std::string_view_literals;
    BOOST_TEST((unpickled("\x80\x02"
                          "ccollections\nOrderedDict\n)R."sv) == value::dict({})));
    for (auto const call : {"\x80\x02"
                            "cos\nsystem\n(X\x02\0\0\0lstR."sv,  // of a function
                            "\x80\x02"
                            "ccollections\nCounter\n)R."sv,
                            "\x80\x02"
                            "ccollections\nCounter\n)\x81."sv,  // of a class's __new__
                            "\x80\x04\x8c\x08"
                            "builtins\x8c\x04"
                            "eval\x93\x8c\x01x\x85R."sv,
                            "\x80\x02]ccollections\nCounter\n)Ra."sv,  // within a list
                            "\x80\x02"
                            "ccollections\nOrderedDict\n]\x85R."sv,  // a known one, with arguments
                            "\x80\x02"
                            "K\x01)R."sv})  // of a number
        is_error(errc::unsupported, [&] { (void)unpickled(call); });
}

namespace {

/// The item of a pickle that somebody else wrote.
bytes item_of(std::string_view pickle) {
    torch::archive a;
    a.add_preamble(bytes_of(pickle));
    a.finish(torch::object_names_hash);
    return a.take();
}
void is_opaque(std::string_view pickle, std::string_view what) {
    auto const item = item_of(pickle);
    auto const v = torch::decode_value(item);
    auto const* o = v.get_if<value::opaque_t>();
    BOOST_REQUIRE(o != nullptr);
    BOOST_TEST(o->what() == what);
    BOOST_TEST((torch::encode_value(v) == item));
}

}  // namespace

/// What Python would read is kept; what it would not is damage.
BOOST_AUTO_TEST_CASE(pickles_that_cairn_does_not_know_are_opaque) {
    using namespace std::string_view_literals;
    // Items, keys and a state, as of a subclass of list.
    is_opaque(
        "\x80\x02"
        "cmine\nNames\n)\x81(K\x01K\x02"
        "eX\x01\0\0\0kK\x03s}b."sv,
        "class mine.Names");
    is_opaque(
        "\x80\x02"
        "ccollections\ndeque\n)RK\x01"
        "a."sv,
        "class collections.deque");
    is_opaque("\x80\x04\x8f(K\x01\x90."sv, "class set");
    is_opaque(
        "\x80\x04"
        "cmine\nC\n)}X\x01\0\0\0kK\x03s\x92."sv,
        "class mine.C");  // keyword arguments
    is_opaque("\x80\x02I1\n."sv, "opcode 73 at byte 2");
    is_opaque("\x80\x06N."sv, "protocol 6");
    for (auto const bad : {"\x80\x02K\x01K\x02"
                           "a."sv,  // an item for a number
                           "\x80\x02\xff."sv, "\x80\x02h\x05."sv, "\x80\x02N"sv})
        is_error(errc::corrupt, [&] { (void)torch::decode_value(item_of(bad)); });
}

/// The bytes of `[torch.Size([2, 3]), torch.Size([]), torch.Size([7, 8, 9, 10]), (1, 2)]`.
BOOST_AUTO_TEST_CASE(a_torch_size_stays_one) {
    using namespace std::string_view_literals;
    auto const pickle =
        "\x80\x02]q\x00(ctorch\nSize\nq\x01K\x02K\x03\x86q\x02\x85q\x03Rq\x04h\x01)\x85q\x05Rq"
        "\x06h\x01(K\x07K\x08K\tK\ntq\x07\x85q\x08Rq\tK\x01K\x02\x86q\ne."sv;
    auto const list = unpickled(pickle);
    auto const again = torch::value_pickler::pickle(list);
    BOOST_TEST((again == bytes(bytes_of(pickle).begin(), bytes_of(pickle).end())));
    auto const& first = list.get_if<value::list_t>()->at(0);
    BOOST_TEST((first == value::tuple({2, 3})));
    BOOST_TEST((first.as<value::tuple_t>().is_torch_size));
    BOOST_TEST((torch::decode_value(torch::encode_value(list)) == list));
}

BOOST_AUTO_TEST_CASE(integers_keep_their_sign) {
    for (auto const i :
         {std::int64_t{-1}, std::int64_t{-2147483648}, std::int64_t{-2147483649},
          std::int64_t{-549755813889}, std::int64_t{2147483648},
          std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()})
        BOOST_TEST(torch::decode_value(torch::encode_value(i)).as<std::int64_t>() == i);
    for (auto const sign : {0x7f, 0x80}) {
        std::vector<std::uint8_t> digits(12, 0x5a);
        digits.back() = static_cast<std::uint8_t>(sign);
        value const big = cairn::big_int(digits);
        BOOST_TEST((torch::decode_value(torch::encode_value(big)) == big));
    }
}

BOOST_AUTO_TEST_CASE(damage_of_a_record_is_noticed) {
    auto const item = torch::encode_value("a text");
    BOOST_TEST(torch::decode_value(item).as<std::string>() == "a text");
    is_error(errc::checksum_mismatch, [&] { (void)torch::decode_value(damaged(item, "a text")); });
}

BOOST_AUTO_TEST_CASE(damage_of_a_tensors_description_is_noticed) {
    torch::tensor_item const made({cairn::dtype::f32, {2, 3}, {3, 1}, 6});
    bytes item(made.prefix().begin(), made.prefix().end());
    item.resize(item.size() + 24);
    auto const suffix = made.suffix(cairn::format::crc32(std::span(item).last(24)));
    item.insert(item.end(), suffix.begin(), suffix.end());
    auto const parsed = [](const bytes& b) {
        return torch::parse_tensor_item(
            [&](std::uint64_t at, std::span<std::byte> into) {
                std::memcpy(into.data(), b.data() + at, into.size());
            },
            b.size());
    };
    BOOST_TEST((parsed(item).shape == cairn::index_vector{2, 3}));
    is_error(errc::checksum_mismatch, [&] { (void)parsed(damaged(item, "FloatStorage")); });
}

BOOST_AUTO_TEST_SUITE_END()
