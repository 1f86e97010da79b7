// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_STORAGE_WRITER_HPP
#define CAIRN_TESTS_ARCHETYPE_STORAGE_WRITER_HPP

#include "shelf.hpp"
#include "stingy.hpp"

#include <cairn/storage/concepts.hpp>
#include <cairn/tensor/layout.hpp>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// The least that `StorageWriter` asks for, and types that miss one requirement each.
namespace cairn::archetype {

/// Copies items to a shelf. Completes on threads of its own, after the call.
class storage_writer : stingy_part {
public:
    explicit storage_writer(std::shared_ptr<shelf> to) : stingy_part(0), to_(std::move(to)) {}
    storage_writer(storage_writer&&) = default;
    storage_writer& operator=(storage_writer&&) = default;
    ~storage_writer() { join(); }

    void reset(const_lvalue<checkpoint_id> id) {
        id_ = id.get();
        names_.clear();
    }
    void set_up_writer(const_lvalue<storage_setup> s) {
        prefix_ = s.get().save_id + "/" + std::to_string(s.get().rank) + "/";
    }
    save_plan prepare_local_save_plan(save_plan&& p) { return std::move(p); }
    std::vector<save_plan> prepare_global_save_plan(std::vector<save_plan>&& p) {
        return std::move(p);
    }
    void write_data(const_lvalue<save_plan>, const_lvalue<std::span<const item_data>> data,
                    completion<write_results>&& done) {
        later([this, &all = data.get(), done = std::move(done)]() mutable {
            write_results results;
            for (std::uint32_t i = 0; i < all.size(); ++i) {
                auto const name = prefix_ + std::to_string(i);
                put(name, all[i]);
                results.items.push_back({i, storage_location{name, 0, 1, {}, {}}});
            }
            done(std::move(results));
        });
    }
    void finish(const_lvalue<metadata> m, completion<commit_result>&& done) {
        later([this, &meta = m.get(), done = std::move(done)]() mutable {
            {
                std::lock_guard const lock(to_->m);
                auto& c = to_->checkpoints[id_];
                c.meta = meta;
                c.there = true;
            }
            done(commit_result{});
        });
    }
    bool committed(const_lvalue<std::string> save_id) {
        std::lock_guard const lock(to_->m);
        auto const& c = to_->checkpoints[id_];
        return c.there && c.meta.save_id == save_id.get();
    }
    bool abandon() noexcept {
        std::lock_guard const lock(to_->m);
        for (auto const& n : names_) to_->checkpoints[id_].items.erase(n);
        return true;
    }
    void sweep(save_end end, completion<sweep_result>&& done) {
        later([this, end, done = std::move(done)]() mutable {
            if (end == save_end::committed) {
                std::lock_guard const lock(to_->m);
                auto& c = to_->checkpoints[id_];
                std::erase_if(c.items, [&](auto const& x) {
                    return x.first.substr(0, x.first.find('/')) != c.meta.save_id;
                });
            }
            done(sweep_result{});
        });
    }

protected:
    template <class F>
    void later(F f) {
        join();
        worker_ = std::thread(std::move(f));
    }
    void join() {
        if (worker_.joinable()) worker_.join();
    }
    void put(const std::string& name, const item_data& d) {
        auto made = std::make_shared<shelf::item>();
        if (auto const* object = std::get_if<const value*>(&d)) {
            made->object = **object;
        } else {
            auto const& from = std::get<const_tensor_view>(d);
            made->bytes.resize(static_cast<std::size_t>(from.bytes()));
            copy_elements(from, {from.type, from.shape, made->bytes.data()});
        }
        std::lock_guard const lock(to_->m);
        to_->checkpoints[id_].items[name] = made;
        names_.insert(name);
    }

    std::string prefix_;

private:
    std::shared_ptr<shelf> to_;
    std::string id_;
    std::set<std::string> names_;
    std::thread worker_;
};
static_assert(StorageWriter<storage_writer>);

// Each hides one member: it is missing there, or of another type.
struct writer_immovable : storage_writer {
    writer_immovable(writer_immovable&&) = delete;
};
struct writer_without_reset : storage_writer {
    void reset() = delete;
};
struct writer_reset_returns : storage_writer {
    bool reset(const checkpoint_id&);
};
struct writer_reset_changes_the_id : storage_writer {
    void reset(checkpoint_id&);
};
struct writer_without_set_up : storage_writer {
    void set_up_writer() = delete;
};
struct writer_set_up_by_rank : storage_writer {
    void set_up_writer(int);
};
struct writer_without_local : storage_writer {
    void prepare_local_save_plan() = delete;
};
struct writer_local_returns_nothing : storage_writer {
    void prepare_local_save_plan(save_plan);
};
struct writer_local_gives_reference : storage_writer {
    const save_plan& prepare_local_save_plan(const save_plan&);
};
struct writer_without_global : storage_writer {
    void prepare_global_save_plan() = delete;
};
struct writer_global_gives_one : storage_writer {
    save_plan prepare_global_save_plan(std::vector<save_plan>);
};
struct writer_without_write : storage_writer {
    void write_data() = delete;
};
struct writer_write_blocks : storage_writer {
    write_results write_data(const save_plan&, std::span<const item_data>);
};
struct writer_write_takes_the_plan : storage_writer {
    void write_data(save_plan&&, std::span<const item_data>, completion<write_results>);
};
struct writer_write_completes_empty : storage_writer {
    void write_data(const save_plan&, std::span<const item_data>, completion<done_t>);
};
struct writer_without_finish : storage_writer {
    void finish() = delete;
};
struct writer_finish_blocks : storage_writer {
    void finish(const metadata&);
};
struct writer_finish_completes_empty : storage_writer {
    void finish(const metadata&, completion<done_t>);
};
struct writer_without_committed : storage_writer {
    void committed() = delete;
};
struct writer_committed_is_text : storage_writer {
    std::string committed(const std::string&);
};
struct writer_without_abandon : storage_writer {
    void abandon(int) = delete;
};
struct writer_abandon_throws : storage_writer {
    bool abandon();
};
struct writer_abandon_says_nothing : storage_writer {
    void abandon() noexcept;
};
struct writer_without_sweep : storage_writer {
    void sweep() = delete;
};
struct writer_sweep_blocks : storage_writer {
    sweep_result sweep(save_end);
};

static_assert(!StorageWriter<writer_immovable> && !StorageWriter<writer_without_reset>);
static_assert(!StorageWriter<writer_reset_returns> && !StorageWriter<writer_without_set_up>);
static_assert(!StorageWriter<writer_reset_changes_the_id>);
static_assert(!StorageWriter<writer_set_up_by_rank> && !StorageWriter<writer_without_local>);
static_assert(!StorageWriter<writer_local_returns_nothing>);
static_assert(!StorageWriter<writer_local_gives_reference>);
static_assert(!StorageWriter<writer_without_global> && !StorageWriter<writer_global_gives_one>);
static_assert(!StorageWriter<writer_without_write> && !StorageWriter<writer_write_blocks>);
static_assert(!StorageWriter<writer_write_takes_the_plan>);
static_assert(!StorageWriter<writer_write_completes_empty>);
static_assert(!StorageWriter<writer_without_finish> && !StorageWriter<writer_finish_blocks>);
static_assert(!StorageWriter<writer_finish_completes_empty>);
static_assert(!StorageWriter<writer_without_committed>);
static_assert(!StorageWriter<writer_committed_is_text>);
static_assert(!StorageWriter<writer_without_abandon> && !StorageWriter<writer_abandon_throws>);
static_assert(!StorageWriter<writer_abandon_says_nothing>);
static_assert(!StorageWriter<writer_without_sweep> && !StorageWriter<writer_sweep_blocks>);

}  // namespace cairn::archetype

#endif
