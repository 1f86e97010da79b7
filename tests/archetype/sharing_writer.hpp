// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_SHARING_WRITER_HPP
#define CAIRN_TESTS_ARCHETYPE_SHARING_WRITER_HPP

#include "storage_writer.hpp"

#include <memory>
#include <string>
#include <utility>

/// The least that `SharingWriter` asks for beyond `StorageWriter`, and near misses.
namespace cairn::archetype {

/// A rank's share is what ranks of its number wrote in earlier saves, modulo the number of ranks.
class sharing_writer : public storage_writer {
public:
    explicit sharing_writer(std::shared_ptr<shelf> to)
        : storage_writer(to), replaced_(std::move(to)) {}

    void reset(const_lvalue<checkpoint_id> id) {
        id_ = id.get();
        storage_writer::reset(id);
    }
    void set_up_writer(const_lvalue<storage_setup> s) {
        me_ = s.get();
        storage_writer::set_up_writer(s);
    }
    void remove_share(completion<share_result>&& done) {
        later([this, done = std::move(done)]() mutable {
            {
                std::lock_guard const lock(replaced_->m);
                std::erase_if(replaced_->checkpoints[id_].items, [&](auto const& item) {
                    auto const slash = item.first.find('/');
                    return item.first.substr(0, slash) != me_.save_id &&
                           std::stoi(item.first.substr(slash + 1)) % me_.world_size == me_.rank;
                });
            }
            done(share_result{true});
        });
    }
    /// Relies on the shares.
    void sweep(save_end end, completion<sweep_result>&& done) {
        if (end != save_end::shares_removed) return storage_writer::sweep(end, std::move(done));
        later([done = std::move(done)]() mutable { done(sweep_result{}); });
    }

private:
    std::shared_ptr<shelf> replaced_;
    std::string id_;
    storage_setup me_{};
};
static_assert(SharingWriter<sharing_writer>);

struct writer_shares_nothing : storage_writer {};
struct writer_shares_blocking : storage_writer {
    share_result remove_share();
};
struct writer_shares_like_a_sweep : storage_writer {
    void remove_share(save_end, completion<share_result>);
};
struct writer_shares_without_result : storage_writer {
    void remove_share(completion<done_t>);
};
static_assert(!SharingWriter<writer_shares_nothing> && !SharingWriter<writer_shares_blocking>);
static_assert(!SharingWriter<writer_shares_like_a_sweep>);
static_assert(!SharingWriter<writer_shares_without_result>);

}  // namespace cairn::archetype

#endif
