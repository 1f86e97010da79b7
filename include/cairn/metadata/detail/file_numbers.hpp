// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_DETAIL_FILE_NUMBERS_HPP
#define CAIRN_METADATA_DETAIL_FILE_NUMBERS_HPP

#include <cairn/metadata/chunk_list.hpp>
#include <cairn/metadata/file_names.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::detail {

/// Maps the files of chunks to numbers of the caller's, chunk by chunk, and looks each name up once
/// for all lists that share their names.
class file_numbers {
public:
    /// @param number  Called as `number(const std::string&)`, once for each name of a table, and
    ///                each time for a chunk without a file. The same name gets the same number.
    template <class F>
    std::uint32_t of(const chunk_list& chunks, std::size_t i, F&& number) {
        auto const n = chunks.row_of(i).file;
        if (n == chunk_list::row::no_file) return number(chunks.file(i));
        if (chunks.names() != names_) {
            names_ = chunks.names();
            known_.clear();
        }
        if (n >= known_.size()) known_.resize(names_->size(), none);
        if (known_[n] == none) known_[n] = number(chunks.file(i));
        return known_[n];
    }

private:
    chunk_list::names_ptr names_{};
    static constexpr std::uint32_t none = chunk_list::row::no_file;
    std::vector<std::uint32_t> known_{};
};

}  // namespace cairn::detail

#endif
