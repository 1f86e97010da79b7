// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_TARGET_PLACE_HPP
#define CAIRN_STORAGE_DETAIL_TARGET_PLACE_HPP

#include <cairn/activity.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/other_formats.hpp>
#include <cairn/storage/file_adder.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Where a format whose files have fixed names is written, before all of it exists in one step. The
/// coordinator calls all members but the first group.
class target_place {
public:
    target_place() = default;
    target_place(target_place&&) = delete;
    virtual ~target_place() = default;

    // On all ranks:
    /// For what the ranks need meanwhile.
    virtual any_store& hidden() noexcept = 0;
    /// Where the files are created.
    virtual any_store& fresh() noexcept = 0;
    /// Of the target.
    virtual const std::string& name() const noexcept = 0;
    /// The place of the target, for a rank that asks whether it was committed.
    virtual any_store target() = 0;
    virtual void sync() = 0;

    /// Checks that the target may be replaced, and makes room for it.
    virtual void take(bool overwrite, cairn::activity* activity) = 0;
    /// Whether its files need names that no other target has.
    /// @param files  How many there are.
    virtual bool needs_unique_names(std::size_t files) const = 0;
    /// Called before files are created, with their names.
    virtual void announce(const std::vector<std::string>& files, cairn::activity* activity) = 0;
    /// Whether each file should be written from its beginning to its end.
    virtual bool in_order() const noexcept = 0;
    /// Whether the times of files show others that they are being written: the age of one that is
    /// sent in one request, or in parts, is that of its beginning.
    virtual bool shows_life() const noexcept = 0;
    /// Whether files that were created are this save's alone, so that they may be removed.
    virtual bool owns_files() const noexcept = 0;
    /// Adds a file of so many bytes. Called before `complete`.
    virtual void put(std::string_view name, std::uint64_t size, const file_adder::read_piece& read,
                     bool sync) = 0;
    /// Takes over objects of what is replaced, where `is_kept` returns true.
    virtual void keep(const std::function<bool(std::string_view)>& is_kept,
                      cairn::activity* activity) = 0;
    /// Calls `finish`, which completes the files.
    /// @param file, size  Of the first one.
    virtual void complete(const std::string& file, std::uint64_t size,
                          const std::function<void()>& finish) = 0;
    /// Makes the target exist, durably.
    /// @param marker  One of its files.
    virtual void commit(const std::string& marker) = 0;
    /// Whether `commit` has done it, although it threw.
    virtual bool committed() = 0;

    /// Removes what is no longer needed. @return Warnings.
    virtual std::vector<std::string> remove() = 0;
    /// Removes what is there, but not what says whose the place is: others may still write.
    virtual std::vector<std::string> clear() = 0;
    virtual std::vector<std::string> take_warnings() = 0;

protected:
    struct target_name {
        any_store in;  ///< Where the target has its name.
        std::string name;
    };
    /// @throws error errc::invalid_argument if an id has no name
    static target_name target_of(const any_store& base, checkpoint_id id) {
        while (!id.empty() && id.back() == '/') id.pop_back();
        auto const at = split_id(id);
        if (!is_object_name(at.name))
            throw error(errc::invalid_argument,
                        {.file = any_store(base).describe("."),
                         .expected = "an id that ends in the name of a directory, or of a file",
                         .found = "'" + id + "'",
                         .remedy = "its directory is replaced as a whole, so name it"});
        return {at.place.empty() ? base : base.at(at.place), at.name};
    }
    /// Refuses the name of an added file that would stop the next export to this target.
    /// @throws error errc::invalid_argument
    static void check_added(any_store& place, std::string_view name, bool takes_directories) {
        bool const stops = name == metadata_name || is_intent_name(name) ||
                           (!takes_directories && name.find('/') != name.npos);
        if (stops)
            throw error(errc::invalid_argument,
                        {.file = place.describe(name),
                         .expected = "a file beside the weights that the next export can replace",
                         .found = "'" + std::string(name) + "'",
                         .remedy = takes_directories ? "choose another name"
                                                     : "choose a name without '/', which is none "
                                                       "of a checkpoint's own files"});
    }
    template <class F>
    void attempt(F&& f) {
        try {
            f();
        } catch (...) {
            warnings_.push_back(text_of(std::current_exception()));
        }
    }

    std::vector<std::string> warnings_{};
};

}  // namespace cairn::detail

#endif
