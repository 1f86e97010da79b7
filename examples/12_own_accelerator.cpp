// SPDX-License-Identifier: Apache-2.0
// An accelerator of your own: one class, my_accelerator, tells cairn how to copy its memory. Pass
// it to every save and load of tensors on the accelerator. cairn's test suite checks it.
#include "own_accelerator.hpp"

#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/testing/memory_space.hpp>

#include <boost/asio/use_future.hpp>

#include <cstddef>
#include <cstdio>
#include <string>

namespace {

std::byte* allocate(std::size_t n) {
    return toy::memory::instance().allocate(n);
}
void release(std::byte* p) {
    toy::memory::instance().release(p);
}

/// A matrix on the accelerator whose rows are 512 bytes apart.
struct matrix {
    explicit matrix(toy::stream& s) : stream(&s) {}
    matrix(matrix&&) = delete;
    ~matrix() { release(memory); }

    /// Starts a slow kernel, which may still be running when this returns.
    void fill(std::byte value) { stream->fill(memory, value, bytes); }
    bool is_all(std::byte value) const {
        auto const* const now = toy::memory::instance().resolve(memory);
        for (std::size_t row = 0; row < 1000; ++row)
            for (std::size_t i = 0; i < 400; ++i)
                if (now[row * 512 + i] != value) return false;
        return true;
    }

    static constexpr std::size_t bytes = 1000 * 512;
    toy::stream* stream;
    std::byte* memory = allocate(bytes);
};

}  // namespace

template <>
struct cairn::tensor_traits<matrix> {
    static tensor_view view(const matrix& m) {
        return {dtype::float32, {1000, 100}, {128, 1}, m.memory, my_accelerator::device};
    }
};

int main(int argc, char** argv) {
    std::string const dir = argc > 1 ? argv[1] : "ckpt/own_accelerator";
    toy::stream trainer;
    my_accelerator accelerator(trainer);

    auto const failures = cairn::testing::memory_space_suite<my_accelerator>(
        {accelerator, my_accelerator::device, &trainer, allocate, release,
         [&](std::byte* at, std::byte value, std::size_t n) { trainer.fill(at, value, n); }});
    for (auto const& f : failures) std::printf("own accelerator: %s\n", f.c_str());

    matrix weights(trainer);
    cairn::state_dict state{{"weights", weights}};
    weights.fill(std::byte{7});
    cairn::save(state, dir + "/first", accelerator);

    // In the background: get() returns when the accelerator has copied the matrix, which may then
    // change.
    cairn::staging_arena arena;
    weights.fill(std::byte{8});
    auto second =
        cairn::async_save(state, dir + "/second", accelerator, arena, boost::asio::use_future)
            .get();
    weights.fill(std::byte{9});
    (void)second.wait();

    bool ok = true;
    for (auto const& [name, value] : {std::pair("/first", 7), std::pair("/second", 8)}) {
        cairn::load(state, dir + name, accelerator);
        ok = ok && weights.is_all(static_cast<std::byte>(value));
    }
    std::printf("own accelerator: %zu checks failed, the loaded tensor is %s\n", failures.size(),
                ok ? "as saved" : "different");
    return failures.empty() && ok ? 0 : 1;
}
