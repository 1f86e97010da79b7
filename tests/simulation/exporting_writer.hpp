// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_EXPORTING_WRITER_HPP
#define CAIRN_TEST_SIMULATION_EXPORTING_WRITER_HPP

#include <cairn/completion.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/job_executor.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/storage/torch_options.hpp>
#include <cairn/storage/torch_save_writer.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// A rank's writer of safetensors or of `torch.save` files, as an id's end says.
class exporting_writer {
public:
    template <class Store>
    exporting_writer(Store store, const cairn::torch_writer_options&,
                     boost::asio::any_io_executor jobs)
        : root_(std::move(store)), jobs_(std::move(jobs)) {}

    /// Before each save.
    void prepare(cairn::safetensors_writer_options o) {
        o.thread_count = 1;
        o.skip_values = true;
        options_ = std::move(o);
    }
    void reset(const cairn::checkpoint_id& id) {
        safetensors_.reset();
        torch_.reset();
        if (id.ends_with(".pt"))
            torch_.emplace(root_, cairn::torch_save_writer_options{.thread_count = 1}, jobs_);
        else
            safetensors_.emplace(root_, options_, jobs_);
        to().reset(id);
    }
    void set_up_writer(const cairn::storage_setup& s) { to().set_up_writer(s); }
    cairn::save_plan prepare_local_save_plan(cairn::save_plan plan) { return plan; }
    std::vector<cairn::save_plan> prepare_global_save_plan(std::vector<cairn::save_plan> plans) {
        return to().prepare_global_save_plan(std::move(plans));
    }
    void write_data(const cairn::save_plan& plan, std::span<const cairn::item_data> data,
                    cairn::completion<cairn::write_results> done) {
        to().write_data(plan, data, std::move(done));
    }
    void finish(const cairn::metadata& m, cairn::completion<cairn::commit_result> done) {
        to().finish(m, std::move(done));
    }
    bool committed(const std::string& save_id) { return to().committed(save_id); }
    bool abandon() noexcept { return to().abandon(); }
    void sweep(cairn::save_end end, cairn::completion<cairn::sweep_result> done) {
        to().sweep(end, std::move(done));
    }

private:
    cairn::detail::layout_writer& to() {
        if (torch_) return *torch_;
        return *safetensors_;
    }

    cairn::any_store root_;
    cairn::job_executor jobs_;
    cairn::safetensors_writer_options options_{};
    std::optional<cairn::safetensors_writer> safetensors_{};
    std::optional<cairn::torch_save_writer> torch_{};
};
static_assert(cairn::StorageWriter<exporting_writer>);

}  // namespace simulation

#endif
