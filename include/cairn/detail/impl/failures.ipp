// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_IMPL_FAILURES_IPP
#define CAIRN_DETAIL_IMPL_FAILURES_IPP

#include <cairn/detail/failures.hpp>

#include <cairn/detail/fold_failures.hpp>
#include <cairn/detail/utf8.hpp>
#include <cairn/detail/wire.hpp>

#include <boost/system/errc.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL rank_failure failure_from(const std::exception_ptr& e, int rank) {
    auto const plain = [&](error_code code, const std::string& what) {
        return error(code, {.rank = rank, .found = what}).as_failure(rank);
    };
    try {
        std::rethrow_exception(e);
    } catch (const error& x) {
        return x.failures().empty() ? x.as_failure(rank) : x.failures().front();
    } catch (const boost::system::system_error& x) {
        return plain(x.code(), x.what());
    } catch (const std::bad_alloc&) {
        return plain(make_error_code(boost::system::errc::not_enough_memory), "out of memory");
    } catch (const std::exception& x) {
        return plain(make_error_code(errc::rank_failed), x.what());
    } catch (...) {
        return plain(make_error_code(errc::rank_failed), "an exception of an unknown type");
    }
}

CAIRN_DECL std::exception_ptr error_of(const std::exception_ptr& e, int rank) noexcept {
    try {
        try {
            std::rethrow_exception(e);
        } catch (const error& x) {
            if (rank < 0 || x.context().rank >= 0 || !x.failures().empty()) return e;
            return std::make_exception_ptr(error({x.as_failure(rank)}, x.state_modified()));
        } catch (...) {
            return std::make_exception_ptr(error({failure_from(e, rank)}, false));
        }
    } catch (...) {
        return std::current_exception();
    }
}

CAIRN_DECL error settled_error(error_context where) {
    if (where.remedy.empty()) where.remedy = "try again";
    return {errc::io, std::move(where)};
}
CAIRN_DECL void settle(outcome& o) {
    for (auto& f : o.failures)
        if (f.code == make_error_code(errc::outcome_unknown))
            f = settled_error(f.where).as_failure(f.where.rank);
}

CAIRN_DECL bool is_in_doubt(const std::exception_ptr& e) noexcept {
    try {
        auto const all = failures_of(e, 0);
        return std::any_of(all.begin(), all.end(), [](auto const& f) {
            return f.code == make_error_code(errc::outcome_unknown);
        });
    } catch (...) {  // no memory
        return true;
    }
}
CAIRN_DECL std::vector<rank_failure> failures_of(const std::exception_ptr& e, int rank) {
    try {
        std::rethrow_exception(e);
    } catch (const error& x) {
        if (!x.failures().empty()) return x.failures();
    } catch (...) {
    }
    return {failure_from(e, rank)};
}

CAIRN_DECL std::string text_of(const std::exception_ptr& e) {
    try {
        std::rethrow_exception(e);
    } catch (const std::bad_alloc&) {
        return "out of memory";
    } catch (const std::exception& x) {
        return x.what();
    } catch (...) {
        return "an exception of an unknown type";
    }
}

CAIRN_DECL void encode(wire_writer& w, const rank_failure& f) {
    bool const ours = f.code.category() == category();
    bool const portable = ours || f.code.category() == boost::system::generic_category() ||
                          f.code.category() == boost::system::system_category();
    w.u8(ours ? 0 : portable ? 1 : 2);
    w.svarint(f.code.value());
    w.svarint(f.where.rank);
    for (auto const* s :
         {&f.where.fqn, &f.where.file, &f.where.expected, &f.where.found, &f.where.remedy})
        w.string(shortened(*s, 1024));
    w.string(shortened(f.text, 4096));
    w.varint(f.ranks.size());
    for (auto const& r : f.ranks) {
        w.svarint(r.first);
        w.svarint(r.last);
    }
}

CAIRN_DECL rank_failure decode_failure(wire_reader& r) {
    rank_failure f;
    auto const kind = r.u8();
    auto const value = static_cast<int>(r.svarint());
    if (value == 0)  // no failure has it
        f.code = make_error_code(errc::rank_failed);
    else if (kind == 0)
        f.code = make_error_code(static_cast<errc>(value));
    else if (kind == 1)
        f.code = error_code(value, boost::system::generic_category());
    else
        f.code = make_error_code(errc::rank_failed);
    auto const rank = r.svarint();
    if (rank < -1 || rank >= INT32_MAX) wire_reader::fail("an invalid rank");
    f.where.rank = static_cast<int>(rank);
    for (auto* s :
         {&f.where.fqn, &f.where.file, &f.where.expected, &f.where.found, &f.where.remedy, &f.text})
        *s = r.string();
    for (auto n = r.count(2); n-- > 0;) {
        auto const first = r.svarint(), last = r.svarint();
        if (first < 0 || last < first || last >= INT32_MAX)
            wire_reader::fail("an invalid range of ranks");
        f.ranks.push_back({static_cast<int>(first), static_cast<int>(last)});
    }
    return f;
}

CAIRN_DECL std::vector<std::byte> encode_outcome(const std::vector<rank_failure>& failures,
                                                 std::span<const std::byte> payload) {
    wire_writer w;
    w.u8(exchange_version);
    w.u8(static_cast<std::uint8_t>(failures.empty() ? outcome_kind::payload
                                                    : outcome_kind::failures));
    if (failures.empty()) {
        w.bytes(payload);
        return w.take();
    }
    w.varint(failures.size());
    for (auto const& f : failures) encode(w, f);
    return w.take();
}

CAIRN_DECL std::vector<std::byte> encode_failures_follow() {
    return {std::byte{exchange_version}, std::byte{std::uint8_t(outcome_kind::failures_follow)}};
}

CAIRN_DECL outcome decode_outcome(std::span<const std::byte> m) {
    wire_reader r(m);
    if (r.u8() != exchange_version) wire_reader::fail("a message of another version of cairn");
    outcome o;
    switch (static_cast<outcome_kind>(r.u8())) {
        case outcome_kind::payload: {
            auto const b = r.bytes();
            o.payload.assign(b.begin(), b.end());
            break;
        }
        case outcome_kind::failures:
            for (auto n = r.count(); n-- > 0;) o.failures.push_back(decode_failure(r));
            if (o.failures.empty()) wire_reader::fail("no failure where some were announced");
            break;
        case outcome_kind::failures_follow: o.failures_follow = true; break;
        default: wire_reader::fail("a message of an unknown kind");
    }
    return o;
}

CAIRN_DECL std::vector<outcome> decode_outcomes(std::vector<std::vector<std::byte>> all) {
    std::vector<outcome> out;
    out.reserve(all.size());
    for (auto& m : all) {
        out.push_back(decode_outcome(m));
        m = {};
    }
    return out;
}

CAIRN_DECL std::vector<rank_failure> collect_failures(const std::vector<outcome>& all) {
    failure_folder folder;
    for (auto const& o : all)
        for (auto const& f : o.failures) folder.add(f);
    return folder.take();
}

CAIRN_DECL void throw_failures(const std::vector<outcome>& all) {
    if (auto failures = collect_failures(all); !failures.empty())
        throw error(std::move(failures), false);
}

}  // namespace cairn::detail

#endif
