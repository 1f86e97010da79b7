// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FORWARDING_STORE_HPP
#define CAIRN_TEST_SUPPORT_FORWARDING_STORE_HPP

#include <cairn/object_store/concepts.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace support {

/// All of a store over another one except `at` and `create`, for stores that interfere there.
template <cairn::ObjectStore Store>
class forwarding_store {
public:
    explicit forwarding_store(Store s) : store_(std::move(s)) {}

    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        store_.publish(n, b, std::move(m));
    }
    auto open(std::string_view n) { return store_.open(n); }
    cairn::object_tag tag(std::string_view n) { return store_.tag(n); }
    std::vector<cairn::object_info> list() { return store_.list(); }
    auto places() { return store_.places(); }
    void remove_place(const std::string& id) { store_.remove_place(id); }
    void remove(std::string_view n) { store_.remove(n); }
    void sync() { store_.sync(); }
    std::string describe(std::string_view n) { return store_.describe(n); }

protected:
    Store store_;
};

}  // namespace support

#endif
