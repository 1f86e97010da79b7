// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_WHOLE_HPP
#define CAIRN_TEST_SUPPORT_WHOLE_HPP

#include <cairn/cairn.hpp>
#include <cairn/storage/checkpoint_reader.hpp>

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// Everything a checkpoint holds, in host memory: what a test compares.
struct whole {
    struct tensor {
        cairn::dtype type;
        cairn::index_vector shape;
        std::vector<std::byte> bytes;
        friend bool operator==(const tensor&, const tensor&) = default;
    };
    std::map<std::string, tensor> tensors;
    std::map<std::string, cairn::value> objects;
    friend bool operator==(const whole&, const whole&) = default;
};

/// Room for all that `m` names.
inline whole room_for(const cairn::metadata& m) {
    whole w;
    for (auto const& [fqn, entry] : m.entries) {
        if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry)) {
            auto const n = static_cast<std::size_t>(t->shape.product()) * cairn::size_of(t->type);
            w.tensors[fqn] = {t->type, t->shape, std::vector<std::byte>(n, std::byte{0xee})};
        } else {
            w.objects[fqn] = "not loaded";
        }
    }
    return w;
}

/// Views on all of it, under flat names.
inline cairn::state_dict views(whole& w) {
    cairn::state_dict sd;
    for (auto& [fqn, t] : w.tensors) sd[fqn] = cairn::tensor_view(t.type, t.shape, t.bytes.data());
    for (auto& [fqn, v] : w.objects) sd[fqn] = std::ref(v);
    return sd;
}

/// What all numbers of a float32 tensor are; -1 if they are not all the same.
inline float only_number(const whole::tensor& t) {
    std::vector<float> all(t.bytes.size() / sizeof(float));
    std::memcpy(all.data(), t.bytes.data(), t.bytes.size());
    for (float v : all)
        if (v != all[0]) return -1;
    return all[0];
}

/// The whole checkpoint in one process.
template <class Store>
whole load_whole(Store store, const std::string& id) {
    cairn::checkpoint_reader reader(store);
    reader.reset(id);
    auto w = room_for(reader.read_metadata());
    auto sd = views(w);
    cairn::load(sd, id, store);
    return w;
}

/// The rows of every tensor that rank r of n holds: its own memory, and a state dict on it.
class rows {
public:
    rows(const cairn::metadata& m, int rank, int ranks) {
        for (auto const& [fqn, entry] : m.entries) {
            auto const* t = std::get_if<cairn::tensor_metadata>(&entry);
            if (t == nullptr) continue;
            auto& p = pieces_[fqn];
            p.type = t->type;
            p.global_shape = t->shape;
            p.region = t->shape.empty() ? cairn::box::whole(t->shape)
                                        : cairn::boxes_of(t->shape, cairn::device_mesh::line(ranks),
                                                          {cairn::shard_along{0}}, rank)
                                              .at(0);
            p.bytes.resize(static_cast<std::size_t>(p.region.volume()) * cairn::size_of(t->type));
        }
    }
    cairn::state_dict state_dict() {
        cairn::state_dict sd;
        for (auto& [fqn, p] : pieces_) {
            cairn::tensor_view const v(p.type, p.region.shape, p.bytes.data());
            sd[fqn] = cairn::sharded_view{p.global_shape, p.type, {cairn::shard(p.region, v)}};
        }
        return sd;
    }
    void load_state_dict(const cairn::state_dict&) {}

    /// Whether the rows equal those of the whole.
    bool equals(const whole& w) const {
        for (auto const& [fqn, p] : pieces_) {
            auto const& all = w.tensors.at(fqn);
            std::size_t at = 0;
            if (!p.global_shape.empty() && p.region.shape[0] != 0)
                at = static_cast<std::size_t>(p.region.offsets[0]) *
                     (p.bytes.size() / static_cast<std::size_t>(p.region.shape[0]));
            if (!std::equal(p.bytes.begin(), p.bytes.end(),
                            all.bytes.begin() + static_cast<std::ptrdiff_t>(at)))
                return false;
        }
        return true;
    }

private:
    struct piece {
        cairn::dtype type;
        cairn::index_vector global_shape;
        cairn::box region;
        std::vector<std::byte> bytes;
    };
    std::map<std::string, piece> pieces_;
};

}  // namespace support

#endif
