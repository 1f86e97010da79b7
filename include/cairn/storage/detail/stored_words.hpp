// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_STORED_WORDS_HPP
#define CAIRN_STORAGE_DETAIL_STORED_WORDS_HPP

#include <cairn/storage/payload.hpp>
#include <cairn/tensor/dtype.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace cairn::detail {

/// How bytes as stored differ from elements: by their byte order, and in a lazy view by signs.
class stored_words {
public:
    stored_words() = default;
    explicit stored_words(const payload& p) {
        if (!p.is_changed()) return;
        auto const& about = info(p.type);
        element_ = about.size;
        word_ = about.kind == dtype_class::complex ? element_ / 2 : element_;
        swaps_ = p.big_endian;
        real_ = p.negative;
        imaginary_ = p.negative != p.conjugate;
    }
    friend bool operator==(const stored_words&, const stored_words&) = default;

    /// @param bytes  Of whole elements.
    void to_elements(std::span<std::byte> bytes) const {
        swap(bytes);
        change_signs(bytes);
    }
    void to_stored(std::span<std::byte> bytes) const {
        change_signs(bytes);
        swap(bytes);
    }

private:
    void swap(std::span<std::byte> bytes) const {
        if (!swaps_ || word_ == 1) return;
        for (; bytes.size() >= word_; bytes = bytes.subspan(word_))
            std::reverse(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(word_));
    }
    void change_signs(std::span<std::byte> bytes) const {
        if (!real_ && !imaginary_) return;
        for (std::size_t i = 0; i + word_ <= bytes.size(); i += word_)
            if (i % element_ != 0 ? imaginary_ : real_) bytes[i + word_ - 1] ^= std::byte{0x80};
    }

    std::size_t element_ = 1, word_ = 1;
    bool swaps_ = false, real_ = false, imaginary_ = false;
};

}  // namespace cairn::detail

#endif
