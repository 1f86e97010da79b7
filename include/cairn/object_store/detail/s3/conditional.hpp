// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_CONDITIONAL_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_CONDITIONAL_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/s3/client.hpp>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::detail::s3 {

/// What there is under a key, compared with what should be.
struct found_object {
    bool is_ours = false;  ///< It has these bytes.
    object_tag tag{};
};
/// @throws error if that cannot be found out
CAIRN_DECL found_object look_at(client& c, const std::string& key, byte_span bytes);

/// How a server takes the tag in `If-Match`.
enum class tag_form { quoted, plain };

/// PUTs that have a condition, at a server that was seen to heed them.
///
/// Thread-safe.
class conditional_puts {
public:
    /// @param c  Must outlive this.
    explicit conditional_puts(client& c) : client_(c) {}
    conditional_puts(conditional_puts&&) = delete;

    /// Replaces an object of which `match` is the tag; makes it if that is empty.
    /// @throws error errc::concurrent_save if there is another, or another version; errc::io if it
    /// was certainly not replaced; errc::outcome_unknown if it may have been, or may still be;
    /// errc::unsupported at a server that does not heed conditions
    CAIRN_DECL void put(const std::string& key, byte_span bytes, const object_tag& match);

    /// Replaces an object, or makes it, whatever there is.
    /// @throws error errc::io if it was certainly not replaced; errc::outcome_unknown if it may
    /// have been, or may still be
    CAIRN_DECL void put_unchecked(const std::string& key, byte_span bytes);

    /// Tries the server, beside that key, unless it was tried before.
    /// @throws error errc::unsupported
    CAIRN_DECL tag_form prepare(const std::string& key);

private:
    struct trial;
    tag_form find_out(std::string_view place);
    /// What a server has received may still take effect after this has given up.
    error unknown(const call& c, const answer& a) const;

    client& client_;
    std::mutex m_{};
    std::optional<tag_form> form_{};  ///< Known when the server has been tried.
};

/// What the names of objects begin with that exist during a trial.
inline constexpr std::string_view trial_prefix = ".cairn-trial.";

/// PUT of a whole object, with no condition.
CAIRN_DECL call put_call(client& c, const std::string& key, byte_span bytes);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/conditional.ipp>
#endif

#endif
