// SPDX-License-Identifier: Apache-2.0
// expect: StorageWriter
// expect: finish
#include <cairn/storage/concepts.hpp>

struct half_a_writer {
    void reset(const cairn::checkpoint_id&) {}
    void set_up_writer(const cairn::storage_setup&) {}
    cairn::save_plan prepare_local_save_plan(cairn::save_plan p) { return p; }
    std::vector<cairn::save_plan> prepare_global_save_plan(std::vector<cairn::save_plan> p) {
        return p;
    }
    void write_data(const cairn::save_plan&, std::span<const cairn::item_data>,
                    cairn::completion<cairn::write_results>) {}
#ifdef BASELINE
    void finish(const cairn::metadata&, cairn::completion<cairn::commit_result>) {}
#endif
    bool committed(const std::string&) { return false; }
    bool abandon() noexcept { return true; }
    void sweep(cairn::save_end, cairn::completion<cairn::sweep_result>) {}
};

void use(cairn::StorageWriter auto&) {}
void f(half_a_writer& w) {
    use(w);
}
