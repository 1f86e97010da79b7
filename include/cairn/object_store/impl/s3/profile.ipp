// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_PROFILE_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_PROFILE_IPP

#include <cairn/object_store/detail/s3/profile.hpp>

#include <cairn/detail/unique_fd.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/posix_file.hpp>
#include <cairn/object_store/detail/s3/text.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace cairn::detail::s3 {

CAIRN_DECL std::optional<std::string> read_small_file(const std::string& path) {
    auto const fd = open_path(path, O_RDONLY);
    if (fd.get() < 0) {
        if (errno == ENOENT || errno == ENOTDIR) return {};
        fail(errno, path, "cannot open it");
    }
    std::string text(std::size_t{1} << 20, '\0');
    std::size_t have = 0;
    while (have < text.size()) {
        auto const n = retry_interrupted(
            [&] { return ::read(fd.get(), text.data() + have, text.size() - have); });
        if (n < 0) fail(errno, path, "cannot read it");
        if (n == 0) break;
        have += static_cast<std::size_t>(n);
    }
    text.resize(have);
    return text;
}

class aws_file_parser {
public:
    explicit aws_file_parser(const std::string& path) : path_(path) {}

    std::map<std::string, settings> parse(std::string_view text) {
        while (!text.empty()) {
            auto const end = std::min(text.find('\n'), text.size());
            ++number_;
            line(text.substr(0, end));
            text.remove_prefix(std::min(end + 1, text.size()));
        }
        return std::move(sections_);
    }

private:
    [[noreturn]] void refuse(const char* expected) const {
        throw error(errc::invalid_argument,
                    {.file = path_,
                     .expected = expected,
                     .found = "something else in line " + std::to_string(number_)});
    }

    void line(std::string_view l) {
        auto const rest = trimmed(l);
        if (rest.empty() || rest.starts_with('#') || rest.starts_with(';')) return;
        auto const indent = l.find_first_not_of(" \t");
        if (rest.starts_with('[')) return header(rest);
        if (current_ == nullptr) refuse("a section in brackets first");
        auto const equals = rest.find('=');
        if (!outer_.empty() && indent > outer_indent_) {
            // Below a setting without a value are more; otherwise the line goes on with the value,
            // as no setting that matters here does.
            if (equals != rest.npos) set(outer_ + '.', rest, equals);
            return;
        }
        if (equals == rest.npos) refuse("name = value");
        outer_ = set("", rest, equals);
        outer_indent_ = indent;
    }

    void header(std::string_view rest) {
        auto const end = rest.find(']');
        if (end == rest.npos) refuse("[section]");
        auto name = trimmed(rest.substr(1, end - 1));
        std::string whole;
        if (auto const blank = name.find_first_of(" \t"); blank != name.npos) {
            whole = std::string(name.substr(0, blank)) + ' ';
            name = trimmed(name.substr(blank));
        }
        if (name.size() >= 2 && name.front() == '"' && name.back() == '"')
            name = name.substr(1, name.size() - 2);
        current_ = &sections_[whole + std::string(name)];
        outer_.clear();
    }

    /// @return the name
    std::string set(const std::string& outer, std::string_view text, std::size_t equals) {
        auto name = lower_case(trimmed(text.substr(0, equals)));
        auto value = trimmed(text.substr(equals + 1));
        for (auto const* comment : {" #", " ;", "\t#", "\t;"})
            value = trimmed(value.substr(0, value.find(comment)));
        (*current_)[outer + name] = value;
        return name;
    }

    const std::string& path_;
    std::size_t number_ = 0;
    std::map<std::string, settings> sections_{};
    settings* current_ = nullptr;
    std::string outer_{};
    std::size_t outer_indent_ = 0;
};

CAIRN_DECL std::map<std::string, settings> parse_aws_file(std::string_view text,
                                                          const std::string& path) {
    return aws_file_parser(path).parse(text);
}

CAIRN_DECL profile read_profile(const aws_environment& e) {
    profile p;
    auto const sections_of = [&](const std::string& path, bool is_named) {
        std::optional<std::string> text;
        try {
            if (!path.empty()) text = read_small_file(path);
        } catch (const error& denied) {
            // As of a container's user without a home of its own: nobody has asked for it.
            bool const is_asked_for = is_named || !e.profile.empty();
            if (is_asked_for || denied.code() != make_error_code(errc::permission_denied)) throw;
            p.unreadable = path;
        }
        return parse_aws_file(text.value_or(""), path);
    };
    auto const credentials = sections_of(e.credentials_file, e.names_credentials_file);
    auto const config = sections_of(e.config_file, e.names_config_file);
    p.name = e.profile.empty() ? "default" : e.profile;
    auto const add = [&](const std::map<std::string, settings>& from, const std::string& section) {
        auto const at = from.find(section);
        if (at == from.end()) return;
        p.exists = true;
        p.all.insert(at->second.begin(), at->second.end());  // what is there already stays
    };
    add(credentials, p.name);
    add(config, "profile " + p.name);
    if (p.name == "default") add(config, p.name);
    if (!p.exists && !e.profile.empty())
        throw error(errc::invalid_argument,
                    {.expected = "the profile '" + p.name + "' of AWS_PROFILE in '" +
                                 e.credentials_file + "' or '" + e.config_file + "'",
                     .found = "no such section",
                     .remedy = "add it, or unset AWS_PROFILE"});

    p.s3_endpoint_url = p.get("endpoint_url");
    if (auto const services = config.find("services " + p.get("services"));
        services != config.end())
        if (auto const url = services->second.find("s3.endpoint_url");
            url != services->second.end())
            p.s3_endpoint_url = url->second;
    return p;
}

}  // namespace cairn::detail::s3

#endif
