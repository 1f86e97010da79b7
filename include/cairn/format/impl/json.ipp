// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_IMPL_JSON_IPP
#define CAIRN_FORMAT_IMPL_JSON_IPP

#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>
#include <cairn/format/json.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::json {

namespace impl {

/// RFC 8259, by recursive descent.
class text_reader {
    using kind = event::type;

public:
    text_reader(const source& from, const receiver& to, dialect d)
        : from_(from), to_(to), python_(d == dialect::python) {}

    void run() {
        value();
        if (next_after_space() != end) refuse("more than one value");
    }

private:
    static constexpr int end = -1;

    [[noreturn]] void refuse(const std::string& found) const {
        throw error(errc::corrupt,
                    {.expected = "JSON", .found = found + " at byte " + std::to_string(at_)});
    }
    /// Returns the next byte, without taking it; `end` behind the last.
    int peek() {
        if (i_ == piece_.size()) {
            if (ended_) return end;
            piece_ = from_();
            i_ = 0;
            ended_ = piece_.empty();
            if (ended_) return end;
        }
        return static_cast<int>(piece_[i_]);
    }
    void skip() {
        ++i_;
        ++at_;
    }
    char take(const char* inside) {
        int const c = peek();
        if (c == end) refuse(std::string("an end inside ") + inside);
        skip();
        return static_cast<char>(c);
    }
    bool takes(char c) {
        bool const is = peek() == c;
        if (is) skip();
        return is;
    }
    int next_after_space() {
        for (;;) {
            int const c = peek();
            if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return c;
            skip();
        }
    }

    void tell(const event& e) { to_({path_.data(), depth_}, e); }
    void value() {
        switch (int const c = next_after_space(); c) {
            case end: refuse("an end where a value is expected");
            case '{': return container('}', {kind::object}, {kind::object_end});
            case '[': return container(']', {kind::array}, {kind::array_end});
            case '"': string(); return tell({kind::text, text_});
            case 't': return constant("true");
            case 'f': return constant("false");
            case 'n': return constant("null");
            default:
                if (python_ && c == 'N') return constant("NaN");
                if (python_ && c == 'I') return constant("Infinity");
                if (c != '-' && !is_digit(c)) refuse("no value");
                auto const n = number();
                return tell({kind::number, text_, n});
        }
    }
    void container(char close, const event& first, const event& last) {
        if (depth_ == max_depth)
            throw error(errc::unsupported,
                        {.expected = "JSON of at most " + std::to_string(max_depth) + " levels",
                         .found = "a deeper one at byte " + std::to_string(at_)});
        tell(first);
        skip();
        if (path_.size() == depth_) path_.emplace_back();
        path_[depth_++].clear();
        if (next_after_space() == close) {
            skip();
        } else {
            do {
                if (close == '}') key();
                value();
                next_after_space();
            } while (takes(','));
            if (!takes(close)) refuse("neither ',' nor the end of a list or object");
        }
        --depth_;
        tell(last);
    }
    void key() {
        if (next_after_space() != '"') refuse("an object with something else than a key");
        string();
        path_[depth_ - 1].swap(text_);
        next_after_space();
        if (!takes(':')) refuse("a key without ':'");
    }
    void constant(const char* word) {
        for (auto const* c = word; *c != 0; ++c)
            if (!takes(*c)) refuse("no value");
        tell({kind::constant, word});
    }

    static bool is_digit(int c) { return c >= '0' && c <= '9'; }
    void digits(std::uint64_t* n = nullptr, bool* fits = nullptr) {
        if (!is_digit(peek())) refuse("a number without a digit");
        for (; is_digit(peek()); keep()) {
            if (n == nullptr) continue;
            auto const d = static_cast<std::uint64_t>(peek() - '0');
            constexpr auto most = std::numeric_limits<std::uint64_t>::max();
            *fits = *fits && (*n < most / 10 || (*n == most / 10 && d <= most % 10));
            if (*fits) *n = 10 * *n + d;
        }
    }
    void keep() {
        text_ += static_cast<char>(peek());
        skip();
    }
    bool keeps(char c) {
        bool const is = peek() == c;
        if (is) keep();
        return is;
    }
    /// Reads a number, and its text into `text_`.
    std::optional<std::uint64_t> number() {
        text_.clear();
        std::uint64_t n = 0;
        bool fits = !keeps('-');
        if (python_ && !fits && peek() == 'I') {
            for (char const c : std::string_view("Infinity"))
                if (!keeps(c)) refuse("no value");
            return {};
        }
        if (!keeps('0')) digits(&n, &fits);
        if (keeps('.')) {
            fits = false;
            digits();
        }
        if (peek() == 'e' || peek() == 'E') {
            keep();
            fits = false;
            if (!keeps('+')) keeps('-');
            digits();
        }
        return fits ? std::optional(n) : std::nullopt;
    }

    /// Reads a string into `text_`.
    void string() {
        skip();
        text_.clear();
        for (;;) {
            char const c = take("a string");
            if (c == '"') break;
            if (static_cast<unsigned char>(c) < 0x20) refuse("a control character in a string");
            if (c == '\\')
                escaped();
            else
                text_ += c;
        }
        if (cairn::detail::find_not_utf8(text_) != text_.npos) refuse("a string that is not UTF-8");
    }
    void escaped() {
        constexpr std::string_view names = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
        char const c = take("a string");
        if (auto const i = names.find(c); i != names.npos) {
            text_ += meant[i];
            return;
        }
        if (c != 'u') refuse("an unknown escape");
        auto code = four_digits();
        if (code >= 0xd800 && code < 0xdc00) {  // half of a pair
            if (!takes('\\') || !takes('u')) refuse("a lone surrogate");
            auto const low = four_digits();
            if (low < 0xdc00 || low >= 0xe000) refuse("a lone surrogate");
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        } else if (code >= 0xdc00 && code < 0xe000) {
            refuse("a lone surrogate");
        }
        auto const put = [&](std::uint32_t bits) { text_ += static_cast<char>(bits); };
        auto const more = [&](int shift) { put(0x80 | (code >> shift & 0x3f)); };
        if (code < 0x80) return put(code);
        if (code < 0x800) {
            put(0xc0 | code >> 6);
        } else {
            if (code < 0x10000) {
                put(0xe0 | code >> 12);
            } else {
                put(0xf0 | code >> 18);
                more(12);
            }
            more(6);
        }
        more(0);
    }
    std::uint32_t four_digits() {
        std::uint32_t n = 0;
        for (int k = 0; k < 4; ++k) {
            int const c = take("an escape");
            int const digit = is_digit(c)              ? c - '0'
                              : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                              : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                                       : -1;
            if (digit < 0) refuse("an escape without four hex digits");
            n = n << 4 | static_cast<std::uint32_t>(digit);
        }
        return n;
    }

    const source& from_;
    const receiver& to_;
    std::span<const std::byte> piece_{};
    std::size_t i_ = 0;     ///< In the piece.
    std::uint64_t at_ = 0;  ///< In the text.
    bool ended_ = false;
    bool python_;
    std::vector<std::string> path_{};
    std::size_t depth_ = 0;
    std::string text_{};
};

}  // namespace impl

CAIRN_DECL void read(const source& from, const receiver& to, dialect d) {
    impl::text_reader(from, to, d).run();
}
CAIRN_DECL void read(std::span<const std::byte> text, const receiver& to, dialect d) {
    read([&] { return std::exchange(text, {}); }, to, d);
}

}  // namespace cairn::format::json

#endif
