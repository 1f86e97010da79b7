// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_RELEASING_WRITER_HPP
#define CAIRN_TESTS_ARCHETYPE_RELEASING_WRITER_HPP

#include "storage_writer.hpp"

#include <cstdint>
#include <span>
#include <utility>

/// The least that `ReleasingWriter` asks for beyond `StorageWriter`, and near misses.
namespace cairn::archetype {

/// Writes the last item first.
class releasing_writer : public storage_writer {
public:
    using storage_writer::storage_writer;
    using storage_writer::write_data;

    void write_data(const_lvalue<save_plan>, const_lvalue<std::span<const item_data>> data,
                    const_lvalue<item_released> released, completion<write_results>&& done) {
        later([this, &all = data.get(), &tell = released.get(), done = std::move(done)]() mutable {
            write_results results;
            for (auto i = static_cast<std::uint32_t>(all.size()); i-- > 0;) {
                auto const name = prefix_ + std::to_string(i);
                put(name, all[i]);
                tell(i);
                results.items.push_back({i, storage_location{name, 0, 1, {}, {}}});
            }
            done(std::move(results));
        });
    }
};
static_assert(ReleasingWriter<releasing_writer>);

struct writer_releases_to_nobody : storage_writer {};
struct writer_changes_released : storage_writer {
    using storage_writer::write_data;
    void write_data(const save_plan&, std::span<const item_data>, item_released&,
                    completion<write_results>);
};
struct writer_releases_after_done : storage_writer {
    using storage_writer::write_data;
    void write_data(const save_plan&, std::span<const item_data>, completion<write_results>,
                    const item_released&);
};
struct writer_releases_blocking : storage_writer {
    using storage_writer::write_data;
    write_results write_data(const save_plan&, std::span<const item_data>, const item_released&,
                             completion<write_results>);
};
static_assert(!ReleasingWriter<writer_releases_to_nobody>);
static_assert(!ReleasingWriter<writer_changes_released>);
static_assert(!ReleasingWriter<writer_releases_after_done>);
static_assert(!ReleasingWriter<writer_releases_blocking>);

}  // namespace cairn::archetype

#endif
