// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_LAYOUT_WRITER_HPP
#define CAIRN_STORAGE_DETAIL_LAYOUT_WRITER_HPP

#include <cairn/storage/concepts.hpp>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The members of a StorageWriter for a format whose files have their layout before an element is
/// written: what writers of such formats derive from. A `target_writer` of the format does the
/// work.
class layout_writer {
public:
    /// One rank's saves, one after the other.
    class implementation {
    public:
        implementation() = default;
        implementation(implementation&&) = delete;
        virtual ~implementation() = default;

        virtual void reset(const checkpoint_id&) = 0;
        virtual void set_up_writer(const storage_setup&) = 0;
        virtual save_plan prepare_local(save_plan) = 0;
        virtual std::vector<save_plan> prepare_global(std::vector<save_plan>) = 0;
        /// @param released  May be null.
        virtual void write_data(const save_plan&, std::span<const item_data>,
                                const item_released* released, completion<write_results>) = 0;
        virtual void finish(completion<commit_result>) = 0;
        virtual bool committed(const std::string& save_id) = 0;
        virtual bool abandon() noexcept = 0;
        virtual void sweep(save_end, completion<sweep_result>) = 0;
    };

    void reset(const checkpoint_id& id) { to_->reset(id); }
    /// @throws error errc::invalid_argument for an id without a name; errc::unsupported for a store
    /// that cannot rename
    void set_up_writer(const storage_setup& setup) { to_->set_up_writer(setup); }
    save_plan prepare_local_save_plan(save_plan plan) {
        return to_->prepare_local(std::move(plan));
    }
    /// @throws error errc::unsupported for what the format does not have, naming it;
    /// errc::already_exists for a target that may not be replaced
    std::vector<save_plan> prepare_global_save_plan(std::vector<save_plan> plans) {
        return to_->prepare_global(std::move(plans));
    }
    void write_data(const save_plan& plan, std::span<const item_data> data,
                    completion<write_results> done) {
        to_->write_data(plan, data, nullptr, std::move(done));
    }
    /// @param released  See @ref ReleasingWriter.
    void write_data(const save_plan& plan, std::span<const item_data> data,
                    const item_released& released, completion<write_results> done) {
        to_->write_data(plan, data, &released, std::move(done));
    }
    void finish(const metadata&, completion<commit_result> done) { to_->finish(std::move(done)); }
    /// For ranks other than the coordinator true only if there is an index, which has the save id.
    bool committed(const std::string& save_id) { return to_->committed(save_id); }
    bool abandon() noexcept { return to_->abandon(); }
    void sweep(save_end end, completion<sweep_result> done) { to_->sweep(end, std::move(done)); }

protected:
    explicit layout_writer(std::unique_ptr<implementation> to) : to_(std::move(to)) {}

private:
    std::unique_ptr<implementation> to_;
};

}  // namespace cairn::detail

#endif
