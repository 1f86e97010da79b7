// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_HTTPS_HPP
#define CAIRN_OBJECT_STORE_HTTPS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/concepts.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// What an @ref https_store needs to know besides its URL.
struct https_options {
    /// The header `Authorization`, e.g. `Bearer hf_…`: for the host of the URL, and no other.
    std::string authorization{};
    /// A file with certificates to trust. Empty: those of the system; `AWS_CA_BUNDLE` is not read.
    std::string ca_file{};
    std::chrono::milliseconds connect_timeout{10'000};
    /// A connection on which nothing moves for so long is closed.
    std::chrono::seconds stall_timeout{30};
    /// Bytes per second: while less of an answer moves, nothing does. An answer takes at most
    /// `stall_timeout` and what its bytes take at this rate. From 1.
    std::uint64_t least_rate = std::uint64_t{16} << 10;
    /// How long a request is tried again after failures that may pass.
    std::chrono::milliseconds retry_for{60'000};
    /// From 1 to 256.
    std::size_t requests_in_flight = 8;
};

/// Reads the files of a web server: checkpoints that are published, not saved, there.
///
/// The server must answer requests for ranges of bytes; one that sends whole files is refused. It
/// cannot list what it has, so a checkpoint is named by its file (`model.safetensors`), or is one
/// that has a file with a fixed name (`.metadata`, `model.safetensors.index.json`). Redirections
/// are followed, to https only, and never with `authorization` to another host; what a file is
/// redirected to is asked as long as it answers.
///
/// Everything that would change an object, and `list`, fails with @ref errc::unsupported.
///
/// Copies share their connections. Thread-safe; works in forked children.
class https_store {
    struct state;
    struct found;

public:
    /// @param url  `https://HOST/PATH`, without a query; `http://` for this host only, e.g.
    ///             `http://127.0.0.1:8000`.
    /// @throws error errc::invalid_argument if it is none
    CAIRN_DECL explicit https_store(const std::string& url, https_options options = {});

    /// @param id  A path within the store's own, or a URL of the same host.
    CAIRN_DECL https_store at(const std::string& id) const;

    /// A file as it was when it was opened.
    class reader {
    public:
        CAIRN_DECL explicit reader(std::shared_ptr<found> f);
        CAIRN_DECL void read(std::uint64_t at, std::span<std::byte> into) const;
        CAIRN_DECL std::uint64_t size() const noexcept;
        /// As @ref https_store::tag: the version that was opened.
        CAIRN_DECL object_tag tag() const;
        std::size_t read_size() const noexcept { return std::size_t{8} << 20; }

    private:
        std::shared_ptr<found> f_;
    };
    /// Never made: the store is read only.
    class writer {
    public:
        void write(std::uint64_t, byte_span) {}
        void finish(bool) {}
    };

    CAIRN_DECL reader open(std::string_view name) const;
    CAIRN_DECL object_tag tag(std::string_view name) const;
    CAIRN_DECL std::string describe(std::string_view name) const;
    CAIRN_DECL std::size_t requests_in_flight() const noexcept;
    void sync() {}

    writer create(std::string_view name, std::uint64_t) { throw read_only(name); }
    void publish(std::string_view name, byte_span, const std::optional<object_tag>&) {
        throw read_only(name);
    }
    void remove(std::string_view name) { throw read_only(name); }
    CAIRN_DECL std::vector<object_info> list() const;

private:
    CAIRN_DECL error read_only(std::string_view name) const;
    std::string target(std::string_view name) const;

    std::shared_ptr<state> s_;
    /// Path of the place, percent-encoded; begins with `/`, and does not end with it.
    std::string prefix_{};
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/https.ipp>
#endif

#endif
