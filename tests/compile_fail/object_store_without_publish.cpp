// SPDX-License-Identifier: Apache-2.0
// expect: ObjectStore
// expect: publish
#include <cairn/object_store/concepts.hpp>

struct handle {
    void write(std::uint64_t, cairn::byte_span) {}
    void finish(bool) {}
    void read(std::uint64_t, std::span<std::byte>) {}
    std::uint64_t size() { return 0; }
};

struct half_a_store {
    handle create(std::string_view, std::uint64_t) { return {}; }
#ifdef BASELINE
    void publish(std::string_view, cairn::byte_span, std::optional<cairn::object_tag>) {}
#endif
    handle open(std::string_view) { return {}; }
    cairn::object_tag tag(std::string_view) { return {}; }
    std::vector<cairn::object_info> list() { return {}; }
    void remove(std::string_view) {}
    void sync() {}
    std::string describe(std::string_view name) { return std::string(name); }
};

void use(cairn::ObjectStore auto&) {}
void f(half_a_store& s) {
    use(s);
}
