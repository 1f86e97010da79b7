// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_ERASED_STORAGE_HPP
#define CAIRN_STORAGE_DETAIL_ERASED_STORAGE_HPP

#include <cairn/state/flat_state.hpp>
#include <cairn/storage/concepts.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A type-erased StorageWriter. Makes the guarantees of the concept.
class erased_storage_writer {
public:
    erased_storage_writer() = default;
    erased_storage_writer(erased_storage_writer&&) = delete;

    virtual void reset(const checkpoint_id&) = 0;
    virtual void set_up_writer(const storage_setup&) = 0;
    virtual save_plan prepare_local_save_plan(save_plan) = 0;
    virtual std::vector<save_plan> prepare_global_save_plan(std::vector<save_plan>) = 0;
    /// Whether the next function replaces the one before.
    virtual bool names_files() const noexcept = 0;
    virtual std::vector<std::string> name_files(std::span<const stored_amount>) = 0;
    virtual void write_data(const save_plan&, const std::span<const item_data>&,
                            completion<write_results>) = 0;
    /// Whether the next function calls `released`.
    virtual bool releases() const noexcept = 0;
    virtual void write_data(const save_plan&, const std::span<const item_data>&,
                            const item_released&, completion<write_results>) = 0;
    virtual void finish(const metadata&, completion<commit_result>) = 0;
    virtual bool committed(const std::string& save_id) = 0;
    virtual bool abandon() noexcept = 0;
    virtual void sweep(save_end, completion<sweep_result>) = 0;

protected:
    ~erased_storage_writer() = default;
};
/// A type-erased StorageReader.
class erased_storage_reader {
public:
    erased_storage_reader() = default;
    erased_storage_reader(erased_storage_reader&&) = delete;

    virtual void reset(const checkpoint_id&) = 0;
    /// Without bytes if the reader is no `IndexReader`.
    virtual stored_index read_index() = 0;
    /// Makes of the metadata that was read what a load of this state sees of it; on every rank,
    /// before `set_up_reader`.
    virtual void show(metadata&, const flat_state&) {}
    virtual void set_up_reader(const metadata&, const storage_setup&) = 0;
    virtual load_plan prepare_local_load_plan(load_plan) = 0;
    virtual std::vector<load_plan> prepare_global_load_plan(std::vector<load_plan>) = 0;
    /// False if the reader is no `LocalReader`.
    virtual bool items_stay_local() = 0;
    /// False if the reader is no `DividingReader`.
    virtual bool divides_chunks() { return false; }
    /// Nothing if the reader is no `ChecksumReader`.
    virtual std::optional<chunk_checksum> checksum(const std::string& fqn, std::size_t chunk) = 0;
    virtual void read_data(const load_plan&, const read_target&, completion<read_result>) = 0;
    /// Nothing if the reader is no `VersionedReader`.
    virtual void check_unchanged() {}

protected:
    ~erased_storage_reader() = default;
};

/// The type-erased form of a writer or reader, valid while a verb runs.
template <StorageWriter W>
class storage_writer_ref final : public erased_storage_writer {
public:
    explicit storage_writer_ref(W& to) : to_(to) {}

    void reset(const checkpoint_id& id) override { to_.reset(id); }
    void set_up_writer(const storage_setup& s) override { to_.set_up_writer(s); }
    save_plan prepare_local_save_plan(save_plan plan) override {
        return to_.prepare_local_save_plan(std::move(plan));
    }
    std::vector<save_plan> prepare_global_save_plan(std::vector<save_plan> plans) override {
        return to_.prepare_global_save_plan(std::move(plans));
    }
    bool names_files() const noexcept override { return NamingWriter<W>; }
    std::vector<std::string> name_files(std::span<const stored_amount> stored) override {
        if constexpr (NamingWriter<W>)
            return to_.name_files(stored);
        else
            return {};
    }
    void write_data(const save_plan& plan, const std::span<const item_data>& data,
                    completion<write_results> done) override {
        to_.write_data(plan, data, std::move(done));
    }
    bool releases() const noexcept override { return ReleasingWriter<W>; }
    void write_data(const save_plan& plan, const std::span<const item_data>& data,
                    const item_released& released, completion<write_results> done) override {
        if constexpr (ReleasingWriter<W>)
            to_.write_data(plan, data, released, std::move(done));
        else
            to_.write_data(plan, data, std::move(done));
    }
    void finish(const metadata& m, completion<commit_result> done) override {
        to_.finish(m, std::move(done));
    }
    bool committed(const std::string& save_id) override { return to_.committed(save_id); }
    bool abandon() noexcept override { return to_.abandon(); }
    void sweep(save_end end, completion<sweep_result> done) override {
        to_.sweep(end, std::move(done));
    }

private:
    W& to_;
};
template <StorageReader R>
class storage_reader_ref final : public erased_storage_reader {
public:
    explicit storage_reader_ref(R& to) : to_(to) {}

    void reset(const checkpoint_id& id) override { to_.reset(id); }
    stored_index read_index() override {
        if constexpr (IndexReader<R>)
            return to_.read_index();
        else
            return {to_.read_metadata(), {}};
    }
    void set_up_reader(const metadata& m, const storage_setup& s) override {
        to_.set_up_reader(m, s);
    }
    load_plan prepare_local_load_plan(load_plan plan) override {
        return to_.prepare_local_load_plan(std::move(plan));
    }
    std::vector<load_plan> prepare_global_load_plan(std::vector<load_plan> plans) override {
        return to_.prepare_global_load_plan(std::move(plans));
    }
    bool items_stay_local() override {
        if constexpr (LocalReader<R>) return to_.items_stay_local();
        return false;
    }
    bool divides_chunks() override {
        if constexpr (DividingReader<R>) return to_.divides_chunks();
        return false;
    }
    std::optional<chunk_checksum> checksum(const std::string& fqn, std::size_t chunk) override {
        if constexpr (ChecksumReader<R>)
            return to_.checksum(fqn, chunk);
        else
            return {};
    }
    void read_data(const load_plan& plan, const read_target& target,
                   completion<read_result> done) override {
        to_.read_data(plan, target, std::move(done));
    }
    void check_unchanged() override {
        if constexpr (VersionedReader<R>) to_.check_unchanged();
    }

private:
    R& to_;
};

}  // namespace cairn::detail

#endif
