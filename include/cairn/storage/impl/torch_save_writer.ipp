// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_TORCH_SAVE_WRITER_IPP
#define CAIRN_STORAGE_IMPL_TORCH_SAVE_WRITER_IPP

#include <cairn/format/target_file.hpp>
#include <cairn/format/torch_save/layout.hpp>
#include <cairn/format/torch_save/new_entry.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/prefix_place.hpp>
#include <cairn/storage/detail/target_assembly.hpp>
#include <cairn/storage/detail/target_shares.hpp>
#include <cairn/storage/detail/target_writer.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/torch_save_writer.hpp>
#include <cairn/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

static_assert(ReleasingWriter<torch_save_writer>);

namespace detail {

/// What is torch.save about a target.
struct torch_save_target {
    static constexpr bool keeps_values = true;

    static bool check(const checkpoint_id&, const any_store&) { return true; }
    static value_policy values() { return value_policy::kept; }
    static std::function<bool(std::string_view)> prefers() { return {}; }
    static dtype type_of(dtype held) { return held; }
    void lay_out(const std::string& file, const planned_tensors& tensors,
                 std::span<const save_plan> plans, target_values held) {
        std::map<std::string_view, format::torch_save::new_tensor> all;
        tensors.for_each([&](std::string_view fqn, dtype type, const index_vector& shape,
                             std::string_view stored_as) {
            all[fqn] = {type, shape, false, stored_as == fqn ? "" : std::string(stored_as)};
        });
        // In the order of the state, as far as there is one.
        format::torch_save::new_entries entries;
        format::torch_save::key_paths paths;
        for (auto const& plan : plans) {
            for (auto const& item : plan.items) {
                if (item.kind == item_kind::value) {
                    if (auto v = held.extract(item.fqn))
                        entries.push_back({item.fqn, std::move(v.mapped())});
                } else if (auto t = all.extract(std::string_view(item.fqn))) {
                    t.mapped().requires_grad = item.requires_grad;
                    entries.push_back({item.fqn, std::move(t.mapped())});
                }
            }
            paths.insert(plan.paths.begin(), plan.paths.end());
        }
        layout.emplace(file, entries, paths,
                       plans.empty() ? std::set<key_path>() : plans[0].text_keys);
    }
    std::vector<const format::target_file*> files() const {
        if (!layout) return {};
        return {&layout->file()};
    }
    std::vector<format::placed_bytes> fixed(std::size_t) const { return layout->fixed(); }
    std::vector<format::placed_bytes> rest(std::size_t,
                                           const target_assembly::tensor_crcs& crcs) const {
        std::vector<std::uint32_t> in_order;
        for (auto const& t : layout->file().tensors) in_order.push_back(crcs.at(t.fqn));
        return layout->rest(in_order);
    }
    template <class Put>
    void add(const Put&, const std::string&, const target_assembly::tensor_crcs&) const {}
    static bool keeps(std::string_view) { return false; }
    std::vector<std::string> warnings() const {
        std::vector<std::string> out;
        for (auto const& [fqn, classes] : layout->to_trust())
            for (auto const& name : classes)
                out.push_back("'" + fqn + "': torch.load reads the file only with " +
                              "weights_only=False, or if '" + name + "' is a safe global");
        return out;
    }
    static std::string recorded_save(const any_store&) { return {}; }
    static target_format description() { return {}; }

    std::optional<format::torch_save::layout> layout{};
};

}  // namespace detail

CAIRN_DECL torch_save_writer::torch_save_writer(any_store store, torch_save_writer_options options)
    : torch_save_writer(std::move(store), options, job_executor()) {}
CAIRN_DECL torch_save_writer::torch_save_writer(any_store store, torch_save_writer_options options,
                                                const job_executor& jobs)
    : layout_writer(std::make_unique<detail::target_writer<detail::torch_save_target>>(
          std::move(store), detail::torch_save_target(), options, jobs)) {}

}  // namespace cairn

#endif
