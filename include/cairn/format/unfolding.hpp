// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_UNFOLDING_HPP
#define CAIRN_FORMAT_UNFOLDING_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace cairn::format {

/// Limits the memory that `.metadata` expands to. A key or a file name is written once for any
/// number of chunks that refer to it, but code that uses the chunks may copy it for each: a
/// megabyte of name and a megabyte of chunks would become a terabyte.
class unfolding {
public:
    /// @param source  Number of encoded bytes.
    explicit unfolding(std::uint64_t source)
        : left_(allowed(source)), allowed_(left_), source_(source) {}

    /// Raises the limit for more chunks, however few bytes encode them.
    /// @param chunks  At most a small multiple of the encoded bytes.
    void allow(std::uint64_t chunks) noexcept {
        left_ += each_chunk * chunks;
        allowed_ += each_chunk * chunks;
    }
    /// Counts bytes before they are copied.
    /// @throws error errc::unsupported if they are too many for the source
    void spend(std::uint64_t n) {
        if (n > left_) {
            left_ = 0;
            throw error(errc::unsupported,
                        {.expected = "at most " + std::to_string(allowed_) + " bytes of names in " +
                                     std::to_string(source_) + " bytes of metadata",
                         .found = "more: names, lists or dicts that are shared too often"});
        }
        left_ -= n;
    }
    /// Checks, before `.metadata` is written, that it can be read again.
    /// @throws error errc::invalid_state
    static void check(const metadata& m, std::uint64_t source) {
        std::uint64_t sum = 0, most = allowed(source);
        auto const add = [&](const std::string& key, const storage_location& at) {
            sum += key.size() + at.file.size();
            for (auto const& t : at.transforms) sum += t.size();
        };
        for (auto const& [fqn, entry] : m.entries) {
            if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
                most += each_chunk * t->chunks.size();
                for (std::size_t i = 0; i < t->chunks.size(); ++i) {
                    auto const* c = t->chunks.unusual(i);
                    if (c != nullptr)
                        add(fqn, c->at);
                    else
                        sum += fqn.size() + t->chunks.file(i).size();
                }
            } else {
                add(fqn, std::get<value_metadata>(entry).at);
            }
        }
        if (sum > most)
            throw error(errc::invalid_state,
                        {.expected = "at most " + std::to_string(most) +
                                     " bytes of keys and file names over all chunks",
                         .found = std::to_string(sum),
                         .remedy = "shorten the keys or the names of the data files"});
    }

private:
    /// A chunk takes 12 bytes or more of the source, so it may have names of 384 bytes.
    static std::uint64_t allowed(std::uint64_t source) { return 32 * source + (1u << 20); }

    /// Packed by column a chunk takes 12 bytes; one by one, 40.
    static constexpr std::uint64_t each_chunk = 1024;

    std::uint64_t left_;
    std::uint64_t allowed_;
    std::uint64_t source_;
};

}  // namespace cairn::format

#endif
