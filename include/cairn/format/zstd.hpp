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
    throw error(code, {.expected = "whole zstd frames, with windows of at most 128 MiB",
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

/// Decodes frames, one behind the other, in pieces, into memory of the caller. Some may be those
/// that are skipped.
class decoder {
public:
    /// @param most    Maximum number of decoded bytes, of all frames.
    /// @param beyond  Of the error if there are more.
    explicit decoder(std::uint64_t most, errc beyond = errc::corrupt)
        : context_(ZSTD_createDCtx()), most_(most), beyond_(beyond) {
        if (!context_) throw std::bad_alloc();
        impl::checked(ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, most_window_log));
    }

    /// Decodes until `out` is full or `piece` has been taken; bytes may then still be left in the
    /// decoder, unless less than all of `out` was filled.
    /// @param piece  The next bytes, shortened by those that were taken; the first ones have the
    ///               whole header of the first frame, of 18 bytes at most.
    /// @return The number of bytes that were decoded.
    /// @throws error errc::corrupt; errc::unsupported for a frame that needs a dictionary or a
    /// larger window
    std::size_t decode(std::span<const std::byte>& piece, std::span<std::byte> out) {
        if (!std::exchange(begun_, true)) check_header(piece);
        std::span<const std::byte> const all(piece);
        ZSTD_inBuffer in{piece.data(), piece.size(), 0};
        ZSTD_outBuffer to{out.data(), out.size(), 0};
        while (!ended_ || in.pos != in.size) {
            if (ended_ && !begins_frame(all.subspan(in.pos))) refuse_more(in.size - in.pos);
            ended_ = impl::checked(ZSTD_decompressStream(context_.get(), &to, &in)) == 0;
            if (to.pos == to.size || in.pos == in.size) break;
        }
        piece = all.subspan(in.pos);
        size_ += to.pos;
        if (size_ > most_) too_long("more");
        return to.pos;
    }
    /// Whether no frame has begun that has not ended.
    bool has_ended() const noexcept { return ended_; }
    /// @throws error errc::corrupt if no frame ends here
    void check_end() const {
        if (!ended_) impl::refuse(errc::corrupt, "a frame that ends too early");
    }

private:
    /// Whether a frame may begin so, or one to be skipped. Those of versions before 0.8, whose
    /// windows libzstd does not limit, begin with other bytes.
    static bool begins_frame(std::span<const std::byte> bytes) {
        return !bytes.empty() &&
               (bytes[0] == std::byte{0x28} || (bytes[0] & std::byte{0xf0}) == std::byte{0x50});
    }
    [[noreturn]] static void refuse_more(std::uint64_t n) {
        impl::refuse(errc::corrupt, cairn::detail::counted(n, "byte") + " behind a frame");
    }
    void check_header(std::span<const std::byte> bytes) const {
        auto const size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
        if (!begins_frame(bytes) || size == ZSTD_CONTENTSIZE_ERROR)
            impl::refuse(errc::corrupt, "no frame, or one cut short");
        if (auto const id = ZSTD_getDictID_fromFrame(bytes.data(), bytes.size()); id != 0)
            impl::refuse(errc::unsupported, "one that needs dictionary " + std::to_string(id));
        if (size != ZSTD_CONTENTSIZE_UNKNOWN && size > most_) too_long(std::to_string(size));
    }
    [[noreturn]] void too_long(std::string found) const {
        throw error(beyond_, {.expected = "at most " + std::to_string(most_) + " decoded bytes",
                              .found = std::move(found)});
    }

    std::unique_ptr<ZSTD_DCtx, impl::free_context> context_;
    std::uint64_t most_;
    errc beyond_;
    std::uint64_t size_ = 0;  ///< Of what was decoded.
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
