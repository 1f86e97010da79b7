// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_VARY_HPP
#define CAIRN_TEST_FUZZ_VARY_HPP

#include "engine.hpp"
#include "fields.hpp"

#include <cairn/metadata/chunk_list.hpp>
#include <cairn/metadata/value.hpp>

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace fuzz {

template <class T>
concept Described = requires(T& x) { fields(x); };

/// Changes one thing in a decoded structure: a number, a name, a kind; or removes, repeats, swaps
/// or copies entries. A structure is described by a function `fields` that ties its members.
class varier {
public:
    explicit varier(engine& e) : e_(e) {}

    template <Described T>
    void operator()(T& x) {
        auto members = fields(x);
        constexpr auto n = std::tuple_size_v<decltype(members)>;
        auto left = e_.below(n);
        std::apply([&](auto&... m) { (void)((left-- == 0 ? ((*this)(m), true) : false) || ...); },
                   members);
    }
    template <class T>
        requires(std::is_integral_v<T> || std::is_enum_v<T>)
    void operator()(T& n) {
        if constexpr (std::is_same_v<T, bool>)
            n = !n;
        else if constexpr (std::is_enum_v<T>)  // also none of its enumerators
            n = static_cast<T>(e_.one_in(8) ? e_() : e_.below(16));
        else
            n = static_cast<T>(e_.number(static_cast<std::uint64_t>(n)));
    }
    /// Of an encoder's input: a name for it is looked up. Other codes come from changed bytes.
    void operator()(cairn::dtype& t) {
        t = static_cast<cairn::dtype>(e_.below(cairn::dtype_count));
    }
    void operator()(cairn::chunk_list& chunks) {
        std::vector<cairn::chunk> all(chunks.begin(), chunks.end());
        (*this)(all);
        chunks = {};
        for (auto const& c : all) chunks.push_back(c);
    }
    void operator()(cairn::index_vector& numbers) {
        std::vector<std::int64_t> all(numbers.begin(), numbers.end());
        (*this)(all);
        numbers = all;
    }
    void operator()(std::chrono::milliseconds& t) {
        auto n = t.count();
        (*this)(n);
        t = std::chrono::milliseconds(n);
    }
    void operator()(double& d) {
        d = e_.one_in(2) ? std::bit_cast<double>(e_()) : static_cast<double>(e_.below(9));
    }
    void operator()(std::byte& b) { b = static_cast<std::byte>(e_()); }
    void operator()(std::string& s) {
        switch (e_.below(8)) {
            case 0: s.clear(); break;
            case 1: s += "." + std::to_string(e_.below(100)); break;
            case 2: s += std::string(e_.below(4000), 'x'); break;
            case 3: s = last_; break;
            case 4: s = words()[e_.below(words().size())]; break;
            case 5: s.resize(e_.below(s.size() + 1)); break;
            default:
                if (!s.empty()) s[e_.below(s.size())] = static_cast<char>(e_());
        }
        last_ = s.substr(0, 256);
    }
    template <class T>
    void operator()(std::optional<T>& o) {
        if (o && !e_.one_in(4))
            (*this)(*o);
        else if (o)
            o.reset();
        else
            o.emplace();
    }
    template <class... T>
    void operator()(std::variant<T...>& v) {
        if (e_.one_in(8)) {
            auto n = e_.below(sizeof...(T));
            (void)((n-- == 0 ? (v.template emplace<T>(), true) : false) || ...);
        }
        std::visit([&](auto& x) { (*this)(x); }, v);
    }
    void operator()(cairn::value& v) {
        if (e_.one_in(4))
            v = any_value();
        else
            std::visit([&](auto& x) { inside(x); }, v.raw());
    }
    template <class A, class B>
    void operator()(std::pair<A, B>& p) {
        e_.one_in(2) ? (*this)(p.first) : (*this)(p.second);
    }
    template <class T>
    void operator()(std::shared_ptr<T>& p) {
        p = p ? std::make_shared<T>(*p) : std::make_shared<T>();
        (*this)(*p);
    }
    template <class T, std::size_t N>
    void operator()(std::array<T, N>& a) {
        (*this)(a[e_.below(N)]);
    }
    /// Vectors, also of numbers.
    template <class C>
        requires requires(C& c) {
            c.emplace_back();
            c.pop_back();
        } && (!Described<C>)
    void operator()(C& c) {
        if (c.empty()) return (void)c.emplace_back();
        auto const a = e_.any(c), b = e_.any(c);
        switch (e_.below(10)) {
            case 0: c.erase(a); return;
            case 1: {
                auto again = *a;
                c.insert(b, std::move(again));
                return;
            }
            case 2: {
                auto other = *a;
                *a = *b;
                *b = std::move(other);
                return;
            }
            case 3: {
                auto other = *a;
                *b = std::move(other);
                return;
            }
            case 4: c.resize(e_.below(c.size() + 1)); return;
            default: return (*this)(*a);
        }
    }
    template <class K, class T, class L>
    void operator()(std::map<K, T, L>& m) {
        if (m.empty()) return (void)m[K()];
        auto const a = e_.any(m);
        switch (e_.below(10)) {
            case 0: m.erase(a); return;
            case 1: {
                auto key = a->first;
                (*this)(key);
                m[std::move(key)] = a->second;
                return;
            }
            case 2: {
                auto node = m.extract(a);
                (*this)(node.key());
                m.insert(std::move(node));
                return;
            }
            case 3: {
                auto other = e_.any(m)->second;
                a->second = std::move(other);
                return;
            }
            default: return (*this)(a->second);
        }
    }

private:
    void inside(cairn::value::none_t) {}
    void inside(cairn::value::opaque_t&) {}
    void inside(cairn::big_int& i) { i = big(); }
    void inside(cairn::value::tuple_t& t) { (*this)(t.items); }
    void inside(cairn::value::dict_t& d) { (*this)(d.items); }
    template <class T>
    void inside(T& x) {
        (*this)(x);
    }
    /// More than 64 bits.
    cairn::big_int big() {
        std::vector<std::uint8_t> digits(10 + e_.below(12));
        for (auto& d : digits) d = static_cast<std::uint8_t>(e_());
        digits.back() = e_.one_in(2) ? 0x7f : 0x80;
        return cairn::big_int(std::move(digits));
    }
    cairn::value any_value() {
        switch (e_.below(10)) {
            case 0: return {};
            case 1: return e_.one_in(2);
            case 2: return big();
            case 3: return std::bit_cast<double>(e_());
            case 4: return words()[e_.below(words().size())];
            case 5: return cairn::value::bytes_t(e_.below(4), static_cast<std::byte>(e_()));
            case 6: return cairn::value::tuple({});
            case 7: return cairn::value::list({});
            case 8: return cairn::value::dict({});
            default: return static_cast<std::int64_t>(e_.number(e_()));
        }
    }
    /// Names that mean something somewhere.
    static const std::vector<std::string>& words() {
        static const std::vector<std::string> all{"",
                                                  ".",
                                                  "..",
                                                  "../x",
                                                  "/",
                                                  "a/b",
                                                  "a//b",
                                                  ".metadata",
                                                  "x/.",
                                                  "__0_0.distcp",
                                                  "__1_0.distcp",
                                                  "step_1",
                                                  "\xff\xfe",
                                                  std::string(1, '\0'),
                                                  "0123456789abcdef0123456789abcdef",
                                                  "x.0123456789abcdef0123456789abcdef.distcp",
                                                  ".saving.0123456789abcdef0123456789abcdef",
                                                  "torch"};
        return all;
    }

    engine& e_;
    std::string last_{};
};

}  // namespace fuzz

#endif
