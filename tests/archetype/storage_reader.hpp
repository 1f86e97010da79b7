// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_STORAGE_READER_HPP
#define CAIRN_TESTS_ARCHETYPE_STORAGE_READER_HPP

#include "shelf.hpp"
#include "stingy.hpp"

#include <cairn/storage/concepts.hpp>
#include <cairn/tensor/layout.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// The least that `StorageReader` asks for, and types that miss one requirement each.
namespace cairn::archetype {

/// Copies items from a shelf. Completes on a thread of its own, after the call.
class storage_reader : stingy_part {
public:
    explicit storage_reader(std::shared_ptr<shelf> from) : stingy_part(0), from_(std::move(from)) {}
    storage_reader(storage_reader&&) = default;
    storage_reader& operator=(storage_reader&&) = default;
    ~storage_reader() { join(); }

    void reset(const_lvalue<checkpoint_id> id) { id_ = id.get(); }
    metadata read_metadata() {
        std::lock_guard const lock(from_->m);
        auto const it = from_->checkpoints.find(id_);
        if (it == from_->checkpoints.end() || !it->second.there)
            throw error(errc::not_found, {.file = id_});
        return it->second.meta;
    }
    void set_up_reader(const_lvalue<metadata> m, const_lvalue<storage_setup>) { meta_ = m.get(); }
    load_plan prepare_local_load_plan(load_plan&& p) { return std::move(p); }
    std::vector<load_plan> prepare_global_load_plan(std::vector<load_plan>&& p) {
        return std::move(p);
    }
    void read_data(const_lvalue<load_plan> plan, const_lvalue<read_target> target,
                   completion<read_result>&& done) {
        join();
        worker_ = std::thread([this, &items = plan.get().items, &to = target.get(),
                               done = std::move(done)]() mutable {
            try {
                for (auto const& item : items) fetch(item, to);
            } catch (...) {
                return done.fail(std::current_exception());
            }
            done({});
        });
    }

private:
    void join() {
        if (worker_.joinable()) worker_.join();
    }
    void fetch(const read_item& item, const read_target& to) {
        if (auto const* o = meta_.value(item.fqn))
            return to.load_value(item, from_->find(id_, o->at.file)->object);
        auto const* t = meta_.tensor(item.fqn);
        auto const& c = t->chunks[item.chunk];
        auto const stored = from_->find(id_, c.at.file);
        const_tensor_view part(t->type, c.region.shape, stored->bytes.data());
        for (std::size_t d = 0; d < item.shape.size(); ++d)
            part.data += item.source_offsets[d] * part.strides[d] *
                         static_cast<std::int64_t>(size_of(t->type));
        part.shape = item.shape;
        auto const window = to.resolve_tensor(item);
        copy_elements(part, window);
        to.commit_tensor(item, window);
    }

    std::shared_ptr<shelf> from_;
    std::string id_;
    metadata meta_;
    std::thread worker_;
};
static_assert(StorageReader<storage_reader>);

// Each hides one member: it is missing there, or of another type.
struct reader_immovable : storage_reader {
    reader_immovable(reader_immovable&&) = delete;
};
struct reader_without_reset : storage_reader {
    void reset() = delete;
};
struct reader_reset_returns : storage_reader {
    bool reset(const checkpoint_id&);
};
struct reader_without_metadata : storage_reader {
    void read_metadata(int) = delete;
};
struct reader_metadata_is_reference : storage_reader {
    const metadata& read_metadata();
};
struct reader_without_set_up : storage_reader {
    void set_up_reader() = delete;
};
struct reader_set_up_without_metadata : storage_reader {
    void set_up_reader(storage_setup);
};
struct reader_set_up_changes_metadata : storage_reader {
    void set_up_reader(metadata&, const storage_setup&);
};
struct reader_without_local : storage_reader {
    void prepare_local_load_plan() = delete;
};
struct reader_local_returns_nothing : storage_reader {
    void prepare_local_load_plan(load_plan);
};
struct reader_without_global : storage_reader {
    void prepare_global_load_plan() = delete;
};
struct reader_global_gives_one : storage_reader {
    load_plan prepare_global_load_plan(std::vector<load_plan>);
};
struct reader_without_read : storage_reader {
    void read_data() = delete;
};
struct reader_read_blocks : storage_reader {
    void read_data(const load_plan&, const read_target&);
};
struct reader_read_completes_with_nothing : storage_reader {
    void read_data(const load_plan&, const read_target&, completion<done_t>);
};
struct reader_read_completes_with_results : storage_reader {
    void read_data(const load_plan&, const read_target&, completion<write_results>);
};

static_assert(!StorageReader<reader_immovable> && !StorageReader<reader_without_reset>);
static_assert(!StorageReader<reader_reset_returns> && !StorageReader<reader_without_metadata>);
static_assert(!StorageReader<reader_metadata_is_reference>);
static_assert(!StorageReader<reader_without_set_up>);
static_assert(!StorageReader<reader_set_up_without_metadata>);
static_assert(!StorageReader<reader_set_up_changes_metadata>);
static_assert(!StorageReader<reader_without_local>);
static_assert(!StorageReader<reader_local_returns_nothing>);
static_assert(!StorageReader<reader_without_global> && !StorageReader<reader_global_gives_one>);
static_assert(!StorageReader<reader_without_read> && !StorageReader<reader_read_blocks>);
static_assert(!StorageReader<reader_read_completes_with_results>);
static_assert(!StorageReader<reader_read_completes_with_nothing>);

/// The least that `IndexReader` asks for beyond `StorageReader`, and near misses.
class index_reader : public storage_reader {
public:
    using storage_reader::storage_reader;
    stored_index read_index() { return {read_metadata(), {}}; }
};
static_assert(IndexReader<index_reader>);

struct reader_index_is_metadata : storage_reader {
    metadata read_index();
};
struct reader_inherits_index : index_reader {};
static_assert(!IndexReader<storage_reader> && !IndexReader<reader_index_is_metadata> &&
              !IndexReader<reader_inherits_index>);

/// The least that `ChecksumReader` asks for beyond `StorageReader`, and near misses.
class checksum_reader : public storage_reader {
public:
    using storage_reader::storage_reader;
    std::optional<chunk_checksum> checksum(const std::string&, std::size_t) { return {}; }
};
static_assert(ChecksumReader<checksum_reader>);

struct reader_checksum_of_all : storage_reader {
    std::optional<chunk_checksum> checksum(const std::string&);
};
struct reader_always_has_checksum : storage_reader {
    chunk_checksum checksum(const std::string&, std::size_t);
};
static_assert(!ChecksumReader<storage_reader> && !ChecksumReader<reader_checksum_of_all> &&
              !ChecksumReader<reader_always_has_checksum>);

/// The least that `LocalReader` asks for beyond `StorageReader`, and near misses.
class local_reader : public storage_reader {
public:
    using storage_reader::storage_reader;
    bool items_stay_local() { return true; }
};
static_assert(LocalReader<local_reader>);

struct reader_items_stay_perhaps : storage_reader {
    std::optional<bool> items_stay_local();
};
struct reader_inherits_items : local_reader {};
static_assert(!LocalReader<storage_reader> && !LocalReader<reader_items_stay_perhaps> &&
              !LocalReader<reader_inherits_items>);

/// The least that `DividingReader` asks for beyond `StorageReader`, and near misses.
class dividing_reader : public storage_reader {
public:
    using storage_reader::storage_reader;
    bool divides_chunks() { return true; }
};
static_assert(DividingReader<dividing_reader>);

struct reader_divides_perhaps : storage_reader {
    std::optional<bool> divides_chunks();
};
struct reader_inherits_division : dividing_reader {};
static_assert(!DividingReader<storage_reader> && !DividingReader<reader_divides_perhaps> &&
              !DividingReader<reader_inherits_division>);

/// The least that `VersionedReader` asks for beyond `StorageReader`, and near misses.
class versioned_reader : public storage_reader {
public:
    using storage_reader::storage_reader;
    void check_unchanged() {}
};
static_assert(VersionedReader<versioned_reader>);

struct reader_says_whether_unchanged : storage_reader {
    bool check_unchanged();
};
static_assert(!VersionedReader<storage_reader> && !VersionedReader<reader_says_whether_unchanged>);

}  // namespace cairn::archetype

#endif
