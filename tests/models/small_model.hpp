// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_MODELS_SMALL_MODEL_HPP
#define CAIRN_TEST_MODELS_SMALL_MODEL_HPP

#include <cairn/models.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace small {

/// A tensor of two rows, or whatever `values` holds.
using tensor = std::vector<float>;

/// An embedding whose weight the head uses too, a frozen layer, a buffer.
struct model {
    tensor embedding{1, 2, 3, 4};
    tensor frozen{5, 6};
    tensor bias{7};
    tensor mean{0.5f};
    bool tied = true;
    tensor head{9, 9, 9, 9};
};

/// Keeps momentum, for those parameters that it was given.
struct sgd {
    struct slot {
        tensor* parameter;
        tensor momentum{};
        bool trained = true;
    };
    struct group {
        std::vector<slot> slots{};
        double lr = 0.1;
        std::string note = "plain";
    };
    std::vector<group> groups{};
};

}  // namespace small

template <>
struct cairn::model_traits<small::model> {
    static void visit(small::model& m, auto& v) {
        v.parameter("module._fsdp_wrapped_module.embed.weight", m.embedding);
        v.parameter("module.frozen._orig_mod.weight", m.frozen, false);
        v.parameter("module.bias", m.bias);
        v.parameter("module.none", static_cast<small::tensor*>(nullptr));
        v.buffer("module.norm.mean", m.mean);
        v.parameter("module.head.weight", m.tied ? m.embedding : m.head);
        v.elsewhere("module.stage2");
    }
};
template <>
struct cairn::optimizer_traits<small::sgd> {
    static void init_state(small::sgd& o) {
        for (auto& g : o.groups)
            for (auto& s : g.slots)
                if (s.trained) s.momentum.resize(s.parameter->size());
    }
    static void visit(small::sgd& o, auto& v) {
        for (auto& g : o.groups) {
            v.group();
            for (auto& s : g.slots) {
                if (s.trained)
                    v.parameter(*s.parameter, {{"momentum_buffer", s.momentum}});
                else
                    v.parameter(*s.parameter);
            }
            v.hyperparameter("lr", g.lr);
            v.hyperparameter("note", g.note);
            v.hyperparameter("nesterov", cairn::value(false));
        }
    }
};

namespace small {

/// All keys of a state dict, flattened.
inline std::vector<std::string> keys(const cairn::state_dict& d) {
    std::vector<std::string> out;
    auto const f = cairn::flatten(d);
    for (auto const& l : f.leaves) out.push_back(l.fqn);
    std::sort(out.begin(), out.end());
    return out;
}
inline std::string text_of(const cairn::error& e) {
    return e.what();
}

}  // namespace small

#endif
