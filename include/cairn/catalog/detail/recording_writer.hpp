// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_DETAIL_RECORDING_WRITER_HPP
#define CAIRN_CATALOG_DETAIL_RECORDING_WRITER_HPP

#include <cairn/activity.hpp>
#include <cairn/catalog/detail/committed.hpp>
#include <cairn/catalog/detail/removal.hpp>
#include <cairn/catalog/retention.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/commit_record.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/written_part.hpp>
#include <cairn/storage/torch_options.hpp>
#include <cairn/storage/torch_writer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The knowledge of one run about the checkpoints in a store. Thread-safe.
class run_catalog {
public:
    /// A step in the order of commits that exceeds those of one run which cannot be seen: so many
    /// numbers has each second in which a run may begin.
    static constexpr std::uint64_t beyond_known = std::uint64_t{1} << 20;

    /// @param also     A second store with checkpoints of the run: the order of commits goes on
    ///                 from those in it, too.
    /// @param longest  How long the first save may wait for it.
    /// @param least    All numbers exceed it: see @ref numbers_since.
    explicit run_catalog(retention keep, std::optional<any_store> also = {},
                         std::chrono::milliseconds longest = std::chrono::seconds(10),
                         std::uint64_t least = 0)
        : keep_(std::move(keep)), also_(std::move(also)), longest_(longest), least_(least) {}
    run_catalog(run_catalog&&) = delete;

    /// Returns what the numbers of a run exceed that begins then: those of each run that began a
    /// second earlier, wherever they are. One that was saved where this run does not look, or
    /// could not, is then older, if hosts have the right time.
    static std::uint64_t numbers_since(std::chrono::system_clock::time_point begin) {
        auto const s =
            std::chrono::duration_cast<std::chrono::seconds>(begin.time_since_epoch()).count();
        return static_cast<std::uint64_t>(std::clamp<std::int64_t>(s, 0, std::int64_t{1} << 40)) *
               beyond_known;
    }

    const retention& keep() const noexcept { return keep_; }

    /// Notes that this run has read that checkpoint: later commits of this run exceed its number,
    /// and so many after it. Waits for no storage.
    CAIRN_DECL void note_read(const commit_record& record, std::uint64_t beyond = 0);
    /// Notes that a save of this run is about to commit there.
    CAIRN_DECL void note_save(const checkpoint_id& id, const std::string& save_id);
    /// Notes that a save may have left something there: `retain` looks.
    CAIRN_DECL void note_left(const checkpoint_id& id);
    /// Keeps the checkpoint of that save, whatever the rules, until it is released.
    CAIRN_DECL void hold(const std::string& save_id);
    CAIRN_DECL void release(const std::string& save_id);
    /// Returns the saves whose checkpoints this run has removed since the last call.
    CAIRN_DECL std::vector<std::string> take_removed();
    /// Returns the next number in the order of commits.
    /// @param warnings  Receives a warning, the first time, if others' numbers cannot be read, or
    ///                  places cannot be examined.
    /// @throws error errc::corrupt if there is none
    CAIRN_DECL std::uint64_t next_sequence(const any_store& root,
                                           std::vector<std::string>& warnings,
                                           cairn::activity* activity);
    /// Other coordinators may have saved in the second store since: it is asked again.
    CAIRN_DECL void look_again();
    /// Keeps what the next save that commits has to say.
    CAIRN_DECL void note_warnings(std::vector<std::string> warnings);
    CAIRN_DECL std::vector<std::string> take_warnings();
    /// Removes what is not kept; the first time also what was left by others. See `detail::retain`.
    /// @return Warnings about what could not be done.
    CAIRN_DECL std::vector<std::string> retain(const any_store& root, const std::string& own,
                                               cairn::activity* activity);

    /// Before a save writes: removes what is not kept, and what is left, of earlier runs, until a
    /// save of this run has committed. Where space is short, none would.
    CAIRN_DECL void make_room(const any_store& root, cairn::activity* activity);

    /// Lets other processes know the records that this one has read.
    CAIRN_DECL void list_records(const any_store& root) noexcept;

private:
    bool note_numbers(const any_store& root, bool first, known_records* known,
                      std::vector<std::string>& warnings, cairn::activity* activity,
                      std::optional<std::chrono::milliseconds> longest = {});
    error no_higher_number(const any_store& root) const;
    void take_reads();

    retention keep_;
    std::optional<any_store> also_;
    bool asks_also_ = true;
    std::chrono::milliseconds longest_;
    std::uint64_t least_;
    std::mutex m_{};
    run_memory run_{};
    std::uint64_t highest_ = 0;
    std::vector<std::string> warnings_{};  ///< Not told yet.
    struct noted_read {
        std::uint64_t sequence;
        std::int64_t committed;
        std::uint64_t beyond;
        friend bool operator==(const noted_read&, const noted_read&) = default;
    };
    /// Those that `take_reads` has not moved to `run_`: `retain` may have that for minutes.
    std::vector<noted_read> reads_{};
    std::mutex reads_m_{};  ///< Protects `reads_`; locked last.
};

/// A `torch_writer` that records its commits, and removes old checkpoints after them.
class recording_writer {
public:
    /// @param root    Where the checkpoints are.
    /// @param record  Step and metrics; the other members are filled in, unless it has a number.
    /// @param part    Receives what this rank writes, to a disk that ranks of other hosts may not
    ///                see. Null: all see the same store.
    recording_writer(const any_store& root, const torch_writer_options& options,
                     std::shared_ptr<run_catalog> catalog, commit_record record,
                     std::shared_ptr<written_part> part = nullptr)
        : root_(root), inner_(root, options), catalog_(std::move(catalog)),
          record_(std::move(record)), part_(std::move(part)) {
        if (part_) inner_.on_own_disks(part_->apart);
    }

    void reset(const checkpoint_id& id) {
        id_ = id;
        inner_.reset(id);
    }
    void set_up_writer(const storage_setup& setup) {
        activity_ = setup.activity;
        save_id_ = setup.save_id;
        is_coordinator_ = setup.coordinator;
        if (part_) part_->save_id = save_id_;
        if (part_ && part_->begun) part_->begun(activity_);
        inner_.set_up_writer(setup);
    }
    save_plan prepare_local_save_plan(save_plan plan) {
        return inner_.prepare_local_save_plan(std::move(plan));
    }
    std::vector<save_plan> prepare_global_save_plan(std::vector<save_plan> plans) {
        catalog_->make_room(root_, activity_.get());
        return inner_.prepare_global_save_plan(std::move(plans));
    }
    std::vector<std::string> name_files(std::span<const stored_amount> stored) {
        catalog_->make_room(root_, activity_.get());
        return inner_.name_files(stored);
    }
    void write_data(const save_plan& plan, std::span<const item_data> data,
                    completion<write_results> done) {
        take_number();
        inner_.write_data(plan, data, noted(plan, std::move(done)));
    }
    void write_data(const save_plan& plan, std::span<const item_data> data,
                    const item_released& released, completion<write_results> done) {
        take_number();
        inner_.write_data(plan, data, released, noted(plan, std::move(done)));
    }
    CAIRN_DECL void finish(const metadata& m, completion<commit_result> done);
    bool committed(const std::string& save_id) { return inner_.committed(save_id); }
    bool abandon() noexcept { return inner_.abandon(); }
    CAIRN_DECL void sweep(save_end end, completion<sweep_result> done);

private:
    CAIRN_DECL void take_number();
    CAIRN_DECL completion<write_results> noted(const save_plan& plan,
                                               completion<write_results> done);

    any_store root_;
    torch_writer inner_;
    std::shared_ptr<run_catalog> catalog_;
    commit_record record_;
    std::shared_ptr<written_part> part_;
    std::shared_ptr<cairn::activity> activity_{};
    checkpoint_id id_{};
    std::string save_id_{};
    bool is_coordinator_ = false;
};
static_assert(ReleasingWriter<recording_writer> && NamingWriter<recording_writer>);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/catalog/impl/recording_writer.ipp>
#endif

#endif
