// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_IMPL_ERROR_IPP
#define CAIRN_DETAIL_IMPL_ERROR_IPP

#include <cairn/error.hpp>

#include <cairn/detail/utf8.hpp>
#include <cairn/printable.hpp>

#include <utility>

namespace cairn {

CAIRN_DECL std::size_t rank_failure::count() const noexcept {
    std::size_t n = ranks.empty() ? 1 : 0;
    for (auto const& r : ranks) n += static_cast<std::size_t>(r.last - r.first) + 1;
    return n;
}

CAIRN_DECL error::error(error_code ec, error_context where)
    : system_error(ec), context_(std::move(where)), text_(describe(ec.message(), context_)) {}

CAIRN_DECL error::error(errc e, error_context where)
    : error(make_error_code(e), std::move(where)) {}

CAIRN_DECL error::error(std::vector<rank_failure> failures, bool state_modified)
    : system_error(failures.empty() ? make_error_code(errc::rank_failed) : failures.front().code),
      context_(failures.empty() ? error_context{.found = "no description of its failure"}
                                : failures.front().where),
      failures_(std::move(failures)), state_modified_(state_modified) {
    if (failures_.empty()) text_ = describe(code().message(), context_);
    constexpr std::size_t shown = 3;
    for (std::size_t i = 0; i < failures_.size() && i < shown; ++i) {
        if (i != 0) text_ += "; ";
        text_ += terminal_text(failures_[i].text);  // another program may have sent it
    }
    std::size_t others = 0;
    for (std::size_t i = shown; i < failures_.size(); ++i) others += failures_[i].count();
    if (others == 1) text_ += "; and 1 more rank failed";
    if (others > 1) text_ += "; and " + std::to_string(others) + " more ranks failed";
    if (state_modified_) text_ += " (part of the state was already overwritten)";
}

CAIRN_DECL const char* error::what() const noexcept {
    return text_.c_str();
}

CAIRN_DECL rank_failure error::as_failure(int rank) const {
    rank_failure f{code(), context_, text_};
    if (f.where.rank < 0) {
        f.where.rank = rank;
        f.text = "rank " + std::to_string(rank) + ": " + f.text;
    }
    return f;
}

CAIRN_DECL error detail::completed(const error& e, error_context more) {
    auto where = e.context();
    if (where.rank < 0) where.rank = more.rank;
    for (auto const text : {&error_context::fqn, &error_context::file, &error_context::expected,
                            &error_context::found, &error_context::remedy})
        if ((where.*text).empty()) where.*text = std::move(more.*text);
    return {e.code(), std::move(where)};
}

CAIRN_DECL std::string error::describe(const std::string& what, const error_context& c) {
    constexpr std::size_t most = 2048;
    auto const text = [](const std::string& t) {
        return terminal_text(detail::shortened(t, most));
    };
    std::string s;
    if (c.rank >= 0) s += "rank " + std::to_string(c.rank) + ": ";
    if (!c.fqn.empty()) s += "'" + text(c.fqn) + "'";
    if (!c.file.empty()) s += (c.fqn.empty() ? "'" : " in '") + text(c.file) + "'";
    if (!c.fqn.empty() || !c.file.empty()) s += ": ";
    s += what;
    if (!c.expected.empty()) s += "; expected " + text(c.expected);
    if (!c.found.empty()) s += (c.expected.empty() ? "; " : ", found ") + text(c.found);
    if (!c.remedy.empty()) s += "; " + text(c.remedy);
    return s;
}

}  // namespace cairn

namespace cairn::detail {

class error_category_impl final : public boost::system::error_category {
public:
    // The id makes codes from two copies of this category equal, e.g. one copy per shared object.
    // Without it Boost compares addresses.
    constexpr error_category_impl() noexcept : error_category(0x8c1f3a5d6b7e2490) {}
    using error_category::message;  // the other overload stays visible
    const char* name() const noexcept override { return "cairn"; }
    std::string message(int ev) const override {
        switch (static_cast<errc>(ev)) {
            case errc::missing_key: return "the checkpoint has no such key";
            case errc::unexpected_key:
                return "the checkpoint has a key that the state does not contain";
            case errc::shape_mismatch: return "shapes differ";
            case errc::dtype_mismatch: return "dtypes differ";
            case errc::kind_mismatch: return "kinds differ";
            case errc::invalid_state: return "the state cannot be used";
            case errc::invalid_plan: return "the ranks' plans contradict each other";
            case errc::checksum_mismatch: return "bytes fail their checksum";
            case errc::corrupt: return "malformed or truncated data";
            case errc::unsupported: return "not supported by cairn";
            case errc::foreign_file: return "the data file belongs to another save";
            case errc::not_found: return "there is no checkpoint";
            case errc::already_exists: return "already exists";
            case errc::concurrent_save: return "another save committed to the same place";
            case errc::io: return "storage failed";
            case errc::rank_failed: return "a rank failed";
            case errc::abandoned: return "a backend dropped an operation without completing it";
            case errc::timed_out: return "the deadline passed";
            case errc::poisoned: return "the group of ranks is no longer usable";
            case errc::outcome_unknown: return "the save may or may not have been committed";
            case errc::invalid_argument: return "invalid argument";
            case errc::cancelled: return "cancelled";
            case errc::device_failed: return "a device or its driver failed";
            case errc::state_changed: return "a tensor changed while it was being saved";
            case errc::missing_file: return "a data file of the checkpoint is missing";
            case errc::replicas_differ: return "replicas differ between ranks";
            case errc::permission_denied: return "access denied";
            case errc::value_mismatch: return "the stored value does not fit";
        }
        return "unknown cairn error";
    }
};

/// There is one, also where some files are compiled header-only.
inline const error_category_impl& only_category() noexcept {
    static const error_category_impl instance;
    return instance;
}

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL const boost::system::error_category& category() noexcept {
    return detail::only_category();
}

CAIRN_DECL error_code make_error_code(errc e) noexcept {
    return {static_cast<int>(e), category()};
}

}  // namespace cairn

#endif
