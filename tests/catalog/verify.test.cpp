// SPDX-License-Identifier: Apache-2.0
// What verify says of a checkpoint.
#include "format/torch_save_file.hpp"
#include "support/error_codes.hpp"

#include <cairn/catalog/verify.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(catalog_verify)

namespace {

/// The place of a checkpoint of a tensor of 6 MiB and a number.
cairn::memory_store saved_tensor() {
    cairn::memory_store store;
    std::vector<float> w(std::size_t{6} << 18, 1.0f);
    (void)cairn::save(cairn::state_dict{{"w", w}, {"step", cairn::value(7)}}, "c", store);
    return store.at("c");
}
std::string data_file(cairn::memory_store& place) {
    for (auto const& info : place.list())
        if (info.name != ".metadata") return info.name;
    return {};
}

/// A store whose data files cannot be read.
struct failing_store : cairn::memory_store {
    struct reader {
        cairn::memory_store::reader inner;
        bool bad;
        std::uint64_t size() const { return inner.size(); }
        void read(std::uint64_t at, std::span<std::byte> into) const {
            if (bad) throw cairn::error(cairn::errc::io, {.found = "a broken disk"});
            inner.read(at, into);
        }
    };
    reader open(std::string_view name) {
        return {cairn::memory_store::open(name), name != ".metadata"};
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_whole_checkpoint_is_read_and_stays_as_it_is) {
    auto place = saved_tensor();
    auto const before = place.list();
    std::vector<std::uint64_t> told;
    auto const r = cairn::verify(place, [&](std::uint64_t bytes) { told.push_back(bytes); });
    BOOST_TEST(r.whole());
    BOOST_TEST(!r.damaged);
    BOOST_TEST(r.unverified.empty());
    BOOST_TEST(r.torch_metadata);
    BOOST_TEST(r.items == 2u);
    BOOST_TEST(r.files == before.size() - 1);
    BOOST_TEST(r.bytes > std::uint64_t{6} << 20);
    BOOST_TEST_REQUIRE(told.size() >= 3u);
    BOOST_TEST(std::is_sorted(told.begin(), told.end()));
    BOOST_TEST(told.back() == r.bytes);
    BOOST_TEST((place.list() == before));
}

BOOST_AUTO_TEST_CASE(a_damaged_byte_is_a_finding_that_names_tensor_and_file) {
    auto place = saved_tensor();
    auto const name = data_file(place);
    auto object = place.open(name);
    cairn::byte_vector bytes(object.size());
    object.read(0, bytes);
    bytes[bytes.size() / 2] ^= std::byte{1};
    place.publish(name, bytes, std::nullopt);
    auto const r = cairn::verify(place);
    BOOST_TEST(!r.whole());
    BOOST_TEST(r.damaged);
    BOOST_REQUIRE(r.findings.size() == 1u);
    BOOST_TEST(r.findings[0].find("'w'") != std::string::npos, r.findings[0]);
    BOOST_TEST(r.findings[0].find(name) != std::string::npos, r.findings[0]);
}

BOOST_AUTO_TEST_CASE(storage_that_fails_is_a_finding_and_no_damage) {
    auto const r = cairn::verify(failing_store{saved_tensor()});
    BOOST_TEST(!r.whole());
    BOOST_TEST(!r.damaged);
}

BOOST_AUTO_TEST_CASE(a_place_without_a_checkpoint_is_an_error) {
    BOOST_CHECK_EXCEPTION((void)cairn::verify(cairn::memory_store()), cairn::error,
                          support::is(cairn::errc::not_found));
}

BOOST_AUTO_TEST_CASE(a_file_of_safetensors_is_read_whole) {
    std::string const header =
        R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})" + std::string(7, ' ');
    std::vector<std::byte> file(8 + header.size() + 24);
    file[0] = static_cast<std::byte>(header.size());
    std::memcpy(file.data() + 8, header.data(), header.size());
    cairn::memory_store place;
    auto const verified = [&](const std::string& name, std::size_t bytes) {
        place.publish(name, cairn::byte_span(file).first(bytes), std::nullopt);
        auto r = cairn::verify(place, {}, name);
        if (name == "model.safetensors") {  // it is also what the place has
            auto const same = cairn::verify(place);
            BOOST_TEST(same.findings.size() == r.findings.size());
            BOOST_TEST(same.bytes == r.bytes);
        }
        return r;
    };
    for (auto const* name : {"model.safetensors", "other.safetensors"}) {
        auto const r = verified(name, file.size());
        BOOST_TEST(r.whole());
        BOOST_TEST(r.bytes == 24u);
        BOOST_TEST(r.files == 1u);
        BOOST_TEST(r.items == 1u);
        BOOST_TEST(!r.unverified.empty());
    }
    auto const cut = verified("model.safetensors", file.size() - 1);
    BOOST_TEST(!cut.whole());
    BOOST_TEST(cut.damaged);
}

/// As `torch.zeros(1).expand(2**44)`.
BOOST_AUTO_TEST_CASE(a_tensor_that_repeats_a_stored_element_is_not_read_for_years) {
    constexpr std::int64_t count = std::int64_t{1} << 44;
    torch_save_file::pickled p;
    p.begin_dict();
    p.key("wide");
    p.tensor("0", 1, 0, {count}, {0});
    p.key("w");
    p.tensor("1", 2, 0, {2}, {1});
    p.end_dict();
    auto file = p.zip({{"0", std::string(4, '\1')}, {"1", std::string(8, '\1')}});
    cairn::memory_store place;
    auto const verified = [&] {
        place.publish("m.pt", std::as_bytes(std::span(file.data(), file.size())), std::nullopt);
        auto const end_soon = [](std::uint64_t bytes) {
            if (bytes > std::uint64_t{16} << 20) throw std::runtime_error("it is read for years");
        };
        return cairn::verify(place, end_soon, "m.pt");
    };
    auto const r = verified();
    BOOST_TEST(r.whole());
    BOOST_TEST(r.bytes == 4u + 8u);
    BOOST_REQUIRE(r.unverified.size() == 1u);
    BOOST_TEST(r.unverified[0].find("'wide': its 70368744177664 bytes repeat 4 stored ones") == 0u,
               r.unverified[0]);
    file[file.find(std::string(4, '\1'))] ^= 2;
    BOOST_TEST(verified().damaged);
}

BOOST_AUTO_TEST_SUITE_END()
