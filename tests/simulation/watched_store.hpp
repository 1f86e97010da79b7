// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_WATCHED_STORE_HPP
#define CAIRN_TEST_SIMULATION_WATCHED_STORE_HPP

#include "ordered_world.hpp"

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/memory.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

/// A store that tells the world which names each event has read or changed.
class watched_store {
public:
    watched_store(cairn::memory_store s, ordered_world& w) : store_(std::move(s)), world_(&w) {}

    class writer {
    public:
        writer(cairn::memory_store::writer h, ordered_world& w, std::string name)
            : handle_(std::move(h)), world_(&w), name_(std::move(name)) {}
        void write(std::uint64_t at, cairn::byte_span b) { handle_.write(at, b); }
        void finish(bool durable) {
            world_->touched(name_, true);
            handle_.finish(durable);
        }

    private:
        cairn::memory_store::writer handle_;
        ordered_world* world_;
        std::string name_;
    };

    watched_store at(std::string id) const { return {store_.at(std::move(id)), *world_}; }
    writer create(std::string_view n, std::uint64_t size) {
        world_->touched(n, true);
        return {store_.create(n, size), *world_, std::string(n)};
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        world_->touched(n, true);
        store_.publish(n, b, std::move(m));
    }
    cairn::memory_store::reader open(std::string_view n) {
        world_->touched(n, false);
        return store_.open(n);
    }
    cairn::object_tag tag(std::string_view n) {
        world_->touched(n, false);
        return store_.tag(n);
    }
    std::vector<cairn::object_info> list() {
        world_->listed();
        return store_.list();
    }
    void remove(std::string_view n) {
        world_->touched(n, true);
        store_.remove(n);
    }
    void sync() { store_.sync(); }
    std::string describe(std::string_view n) { return store_.describe(n); }

private:
    cairn::memory_store store_;
    ordered_world* world_;
};
static_assert(cairn::RelocatableStore<watched_store>);

}  // namespace simulation

#endif
