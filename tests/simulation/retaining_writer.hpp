// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_RETAINING_WRITER_HPP
#define CAIRN_TEST_SIMULATION_RETAINING_WRITER_HPP

#include <cairn/activity.hpp>
#include <cairn/catalog/detail/recording_writer.hpp>
#include <cairn/completion.hpp>
#include <cairn/metadata/commit_record.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// What `recording_writer` does, on an executor of the simulation: it has threads of its own.
class retaining_writer {
public:
    template <class Store>
    retaining_writer(Store store, const cairn::torch_writer_options& options,
                     boost::asio::any_io_executor jobs)
        : root_(std::move(store)), inner_(root_, options, std::move(jobs)) {}

    /// Before each save.
    /// @param now         Milliseconds of the coordinator's clock.
    /// @param publishing  Called on the coordinator just before it publishes.
    void prepare(std::shared_ptr<cairn::detail::run_catalog> catalog, cairn::commit_record record,
                 std::function<std::int64_t()> now, std::function<void()> publishing) {
        catalog_ = std::move(catalog);
        record_ = std::move(record);
        now_ = std::move(now);
        publishing_ = std::move(publishing);
        warnings_.clear();
    }

    void reset(const cairn::checkpoint_id& id) {
        id_ = id;
        inner_.reset(id);
    }
    void set_up_writer(const cairn::storage_setup& setup) {
        activity_ = setup.activity;
        save_id_ = setup.save_id;
        is_coordinator_ = setup.coordinator;
        inner_.set_up_writer(setup);
    }
    cairn::save_plan prepare_local_save_plan(cairn::save_plan plan) {
        return inner_.prepare_local_save_plan(std::move(plan));
    }
    std::vector<cairn::save_plan> prepare_global_save_plan(std::vector<cairn::save_plan> plans) {
        return inner_.prepare_global_save_plan(std::move(plans));
    }
    std::vector<std::string> name_files(std::span<const cairn::stored_amount> stored) {
        return inner_.name_files(stored);
    }
    void write_data(const cairn::save_plan& plan, std::span<const cairn::item_data> data,
                    cairn::completion<cairn::write_results> done) {
        if (is_coordinator_) {
            record_.sequence = catalog_->next_sequence(root_, warnings_, activity_.get());
            record_.committed = now_();
        }
        inner_.write_data(plan, data, std::move(done));
    }
    void finish(const cairn::metadata& m, cairn::completion<cairn::commit_result> done) {
        auto warnings = std::exchange(warnings_, {});
        catalog_->note_save(id_, save_id_);
        publishing_();
        // It completes inside the call.
        auto result = cairn::await_completion<cairn::commit_result>(
            [&](auto then) { inner_.finish(m, record_, std::move(then)); });
        for (auto& w : warnings) result.warnings.push_back(std::move(w));
        done(std::move(result));
    }
    bool committed(const std::string& save_id) { return inner_.committed(save_id); }
    bool abandon() noexcept { return inner_.abandon(); }
    void sweep(cairn::save_end end, cairn::completion<cairn::sweep_result> done) {
        auto result = cairn::await_completion<cairn::sweep_result>(
            [&](auto then) { inner_.sweep(end, std::move(then)); });
        if (end == cairn::save_end::committed)
            for (auto& w : catalog_->retain(root_, save_id_, activity_.get()))
                result.warnings.push_back(std::move(w));
        if (end == cairn::save_end::committed) catalog_->list_records(root_);
        done(std::move(result));
    }

private:
    cairn::any_store root_;
    cairn::torch_writer inner_;
    std::shared_ptr<cairn::detail::run_catalog> catalog_{};
    cairn::commit_record record_{};
    std::function<std::int64_t()> now_{};
    std::function<void()> publishing_{};
    std::shared_ptr<cairn::activity> activity_{};
    cairn::checkpoint_id id_{};
    std::string save_id_{};
    bool is_coordinator_ = false;
    std::vector<std::string> warnings_{};
};
static_assert(cairn::NamingWriter<retaining_writer>);

}  // namespace simulation

#endif
