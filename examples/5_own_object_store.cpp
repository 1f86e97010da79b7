// SPDX-License-Identifier: Apache-2.0
// A place of your own: one class, and every format and verb of cairn works on it.
#include <cairn/cairn.hpp>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

/// Objects in a map. A real one would speak to a bucket or a database.
class my_store {
    using bytes = cairn::byte_vector;
    struct shared {
        std::mutex m;
        std::map<std::string, bytes, std::less<>> objects;
    };
    std::shared_ptr<shared> s_ = std::make_shared<shared>();
    static cairn::error no(cairn::errc e, std::string_view n) {
        return {e, {.object = std::string(n)}};
    }

public:
    struct writer {
        std::shared_ptr<shared> s;
        std::string name;
        bytes data;
        void write(std::uint64_t at, cairn::byte_span b) {
            if (!b.empty()) std::memcpy(data.data() + at, b.data(), b.size());
        }
        void finish(bool) {
            std::lock_guard lock(s->m);
            if (!s->objects.try_emplace(name, std::move(data)).second)
                throw no(cairn::errc::already_exists, name);
        }
    };
    struct reader {
        bytes data;
        void read(std::uint64_t at, std::span<std::byte> into) {
            if (at + into.size() > data.size()) throw no(cairn::errc::corrupt, "too short");
            if (!into.empty()) std::memcpy(into.data(), data.data() + at, into.size());
        }
        std::uint64_t size() const { return data.size(); }
    };
    writer create(std::string_view n, std::uint64_t size) {
        return {s_, std::string(n), bytes(size)};
    }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> match) {
        std::lock_guard lock(s_->m);
        if (match && version(n) != *match) throw no(cairn::errc::concurrent_save, n);
        s_->objects[std::string(n)] = bytes(b.begin(), b.end());
    }
    reader open(std::string_view n) {
        std::lock_guard lock(s_->m);
        auto const it = s_->objects.find(n);
        if (it == s_->objects.end()) throw no(cairn::errc::not_found, n);
        return {it->second};
    }
    cairn::object_tag tag(std::string_view n) {
        std::lock_guard lock(s_->m);
        return version(n);
    }
    cairn::object_tag version(std::string_view n) const {
        auto const it = s_->objects.find(n);
        if (it == s_->objects.end()) return {};
        return {std::to_string(cairn::format::crc32(it->second)) + "/" +
                std::to_string(it->second.size())};
    }
    std::vector<cairn::object_info> list() {
        std::lock_guard lock(s_->m);
        std::vector<cairn::object_info> out;
        for (auto const& [name, b] : s_->objects) out.push_back({name, b.size()});
        return out;
    }
    void remove(std::string_view n) {
        std::lock_guard lock(s_->m);
        if (auto const it = s_->objects.find(n); it != s_->objects.end()) s_->objects.erase(it);
    }
    void sync() {}
    std::string describe(std::string_view n) { return "my-store:" + std::string(n); }
};
static_assert(cairn::ObjectStore<my_store>);

int main() {
    my_store store;
    int wrong = 0;
    auto const run = [&](cairn::thread_group::member& ranks, bool save) {
        std::vector<float> rows(4, save ? static_cast<float>(ranks.rank()) : -1.0f);
        cairn::state_dict state{
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {1, 4}, rows.data()),
                                       {3, 4}, cairn::device_mesh::line(3), {cairn::shard_along{0}},
                                       ranks.rank())}};
        if (save) {
            cairn::save(state, "run/step_1", ranks, store);
            return;
        }
        cairn::load(state, "run/step_1", ranks, store);
        wrong += rows[3] != static_cast<float>(ranks.rank());
    };
    cairn::run_ranks(3, [&](auto& ranks) { run(ranks, true); });
    cairn::run_ranks(3, [&](auto& ranks) { run(ranks, false); });
    std::printf("own object store: %zu objects, %d ranks wrong\n", store.list().size(), wrong);
    return wrong;
}
