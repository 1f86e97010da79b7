// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_RESULTS_CODEC_HPP
#define CAIRN_PLANNER_RESULTS_CODEC_HPP

#include <cairn/detail/name_numbers.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/planner/plan_codec.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn {

/// Encodes results as @ref encode_save_plan does plans: the names of files once, then for each item
/// its number, the number of its file, and its location there; then sizes and warnings.
inline std::vector<std::byte> encode_write_results(const write_results& results) {
    detail::name_numbers files;
    for (auto const& i : results.items) files.add(i.at.file);
    detail::wire_writer w;
    detail::begin(w);
    w.varint(files.size());
    for (auto const name : files.names()) w.string(name);
    w.varint(results.items.size());
    for (auto const& i : results.items) {
        w.varint(i.item);
        w.varint(files.add(i.at.file));
        detail::put_within_file(w, i.at);
    }
    detail::put(w, results.file_sizes);
    detail::put(w, results.warnings);
    return w.take();
}

namespace detail {

/// Reads encoded results one by one: the location of each is made where it belongs.
class results_reader {
public:
    /// @param b  Must outlive this.
    /// @throws error errc::corrupt, as all that follows
    explicit results_reader(std::span<const std::byte> b) : r_(b) {
        begin(r_);
        files_ = get_strings(r_);
        left_ = r_.count(5);
    }
    const std::vector<std::string>& files() const noexcept { return files_; }
    /// Returns how many results are left.
    std::size_t left() const noexcept { return left_; }
    /// Returns the number of the next result's item; its file and its location must be read next.
    /// @pre Some are left.
    std::uint32_t next_item() {
        --left_;
        auto const item = r_.varint();
        if (item > UINT32_MAX) wire_reader::fail("a result for no item");
        return static_cast<std::uint32_t>(item);
    }
    /// Returns the position of its file in `files()`.
    std::size_t next_file() {
        auto const file = r_.varint();
        if (file >= files_.size()) wire_reader::fail("a result in a file without a name");
        return static_cast<std::size_t>(file);
    }
    wire_reader& location() noexcept { return r_; }
    /// @pre None is left.
    file_size_map file_sizes() { return get_file_sizes(r_); }
    /// @pre The sizes were read.
    std::vector<std::string> warnings() {
        auto all = get_strings(r_);
        end(r_);
        return all;
    }

private:
    wire_reader r_;
    std::vector<std::string> files_{};
    std::size_t left_ = 0;
};

}  // namespace detail

}  // namespace cairn

#endif
