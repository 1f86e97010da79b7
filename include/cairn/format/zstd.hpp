// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_ZSTD_HPP
#define CAIRN_FORMAT_ZSTD_HPP

#include <cairn/detail/counted.hpp>
#include <cairn/error.hpp>

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::format::zstd {

/// Log2 of the largest window, the memory behind the current position that a frame refers to.
inline constexpr int most_window_log = 27;

namespace impl {

struct free_context {
    void operator()(ZSTD_DCtx* d) const noexcept { ZSTD_freeDCtx(d); }
    void operator()(ZSTD_CCtx* c) const noexcept { ZSTD_freeCCtx(c); }
};

[[noreturn]] inline void refuse(errc code, std::string found) {
    throw error(code, {.expected = "one whole zstd frame, with a window of at most 128 MiB",
                       .found = std::move(found)});
}
/// Returns the result of a function of libzstd.
/// @throws error for one that says that it has failed
inline std::size_t checked(std::size_t result) {
    if (!ZSTD_isError(result)) return result;
    switch (ZSTD_getErrorCode(result)) {
        case ZSTD_error_memory_allocation: throw std::bad_alloc();
        case ZSTD_error_dictionary_wrong: refuse(errc::unsupported, "one that needs a dictionary");
        case ZSTD_error_frameParameter_windowTooLarge:
            refuse(errc::unsupported, "one with a larger window");
        default: refuse(errc::corrupt, std::string("'") + ZSTD_getErrorName(result) + "'");
    }
}

}  // namespace impl

/// Decodes one frame, in pieces. Its memory grows with what it has decoded, whatever the frame says
/// about its size.
class decoder {
public:
    /// @param length  Of the frame.
    /// @param most    Maximum number of decoded bytes.
    decoder(std::uint64_t length, std::uint64_t most) : context_(ZSTD_createDCtx()), most_(most) {
        if (!context_) throw std::bad_alloc();
        impl::checked(ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, most_window_log));
        // Weights are compressed to little less than they are; more than this grows as needed.
        constexpr std::uint64_t usual_ratio = 8;
        if (length < most / usual_ratio) most = length * usual_ratio;
        decoded_.reserve(static_cast<std::size_t>(most));
    }

    /// @param piece  The next bytes; the first piece has the whole header, of 18 bytes at most.
    /// @throws error errc::corrupt; errc::unsupported for a frame that needs a dictionary or a
    /// larger window
    void append(std::span<const std::byte> piece) {
        if (!std::exchange(begun_, true)) check_header(piece);
        ZSTD_inBuffer in{piece.data(), piece.size(), 0};
        for (bool more = true; more && !ended_;) {
            if (size_ == decoded_.size()) make_room();
            ZSTD_outBuffer out{decoded_.data(), decoded_.size(), size_};
            ended_ = impl::checked(ZSTD_decompressStream(context_.get(), &out, &in)) == 0;
            size_ = out.pos;
            if (size_ > most_) too_long("more");
            more = in.pos != in.size || size_ == decoded_.size();
        }
        if (in.pos != in.size)
            impl::refuse(errc::corrupt,
                         cairn::detail::counted(in.size - in.pos, "byte") + " behind a frame");
    }
    /// Returns what was decoded.
    /// @throws error errc::corrupt if the frame does not end here
    std::vector<std::byte> finish() {
        if (!ended_) impl::refuse(errc::corrupt, "a frame that ends too early");
        decoded_.resize(size_);
        return std::move(decoded_);
    }

private:
    void check_header(std::span<const std::byte> bytes) const {
        auto const size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
        // Frames to be skipped, and those of old versions, are none that PyTorch writes.
        bool const current = bytes.size() >= 4 && bytes[0] == std::byte{0x28} &&
                             bytes[1] == std::byte{0xb5} && bytes[2] == std::byte{0x2f} &&
                             bytes[3] == std::byte{0xfd};
        if (!current || size == ZSTD_CONTENTSIZE_ERROR)
            impl::refuse(errc::corrupt, "no frame, or one cut short");
        if (auto const id = ZSTD_getDictID_fromFrame(bytes.data(), bytes.size()); id != 0)
            impl::refuse(errc::unsupported, "one that needs dictionary " + std::to_string(id));
        if (size != ZSTD_CONTENTSIZE_UNKNOWN && size > most_) too_long(std::to_string(size));
    }
    [[noreturn]] void too_long(std::string found) const {
        throw error(errc::corrupt,
                    {.expected = "at most " + std::to_string(most_) + " decoded bytes",
                     .found = std::move(found)});
    }
    /// Makes room for some bytes, one of which may be one too many.
    void make_room() {
        constexpr std::uint64_t step = std::uint64_t{1} << 20;
        decoded_.resize(size_ + static_cast<std::size_t>(std::min(step, most_ - size_ + 1)));
    }

    std::unique_ptr<ZSTD_DCtx, impl::free_context> context_;
    std::uint64_t most_;
    std::vector<std::byte> decoded_{};  ///< Longer than what was decoded.
    std::size_t size_ = 0;              ///< Of what was decoded.
    bool begun_ = false, ended_ = false;
};

/// Whether libzstd has a compression level.
inline bool is_level(int level) {
    return level >= ZSTD_minCLevel() && level <= ZSTD_maxCLevel();
}

/// Encodes frames, one after the other. Equal content, appended in equal pieces, makes equal
/// frames.
class encoder {
public:
    explicit encoder(int level) : context_(ZSTD_createCCtx()), out_(ZSTD_CStreamOutSize()) {
        if (!context_) throw std::bad_alloc();
        set(ZSTD_c_compressionLevel, level);
        set(ZSTD_c_checksumFlag, 1);
    }

    /// @param size  Of all that is appended to this frame.
    void begin(std::uint64_t size) {
        impl::checked(ZSTD_CCtx_reset(context_.get(), ZSTD_reset_session_only));
        impl::checked(ZSTD_CCtx_setPledgedSrcSize(context_.get(), size));
    }
    /// @param sink  Called with encoded bytes, valid during the call.
    template <class Sink>
    void append(std::span<const std::byte> piece, Sink&& sink) {
        run(piece, ZSTD_e_continue, sink);
    }
    template <class Sink>
    void finish(Sink&& sink) {
        run({}, ZSTD_e_end, sink);
    }

private:
    void set(ZSTD_cParameter what, int value) {
        impl::checked(ZSTD_CCtx_setParameter(context_.get(), what, value));
    }
    template <class Sink>
    void run(std::span<const std::byte> piece, ZSTD_EndDirective how, Sink& sink) {
        ZSTD_inBuffer in{piece.data(), piece.size(), 0};
        for (std::size_t left = 1; left != 0;) {
            ZSTD_outBuffer out{out_.data(), out_.size(), 0};
            left = impl::checked(ZSTD_compressStream2(context_.get(), &out, &in, how));
            if (out.pos != 0) sink(std::span<const std::byte>(out_.data(), out.pos));
            if (how == ZSTD_e_continue) left = in.size - in.pos;
        }
    }

    std::unique_ptr<ZSTD_CCtx, impl::free_context> context_;
    std::vector<std::byte> out_;
};

}  // namespace cairn::format::zstd

#endif
