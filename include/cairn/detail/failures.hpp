// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_FAILURES_HPP
#define CAIRN_DETAIL_FAILURES_HPP

#include <cairn/detail/wire.hpp>

#include <boost/system/errc.hpp>

#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// One rank's exception as a failure that can travel.
inline rank_failure failure_from(const std::exception_ptr& e, int rank) {
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

inline void encode(wire_writer& w, const rank_failure& f) {
    bool const ours = f.code.category() == category();
    bool const portable = ours || f.code.category() == boost::system::generic_category() ||
                          f.code.category() == boost::system::system_category();
    w.u8(ours ? 0 : portable ? 1 : 2);
    w.svarint(f.code.value());
    w.svarint(f.where.rank);
    for (auto const* s : {&f.where.tensor, &f.where.object, &f.where.expected, &f.where.found,
                          &f.where.remedy, &f.text})
        w.string(*s);
}

inline rank_failure decode_failure(wire_reader& r) {
    rank_failure f;
    auto const kind = r.u8();
    auto const value = static_cast<int>(r.svarint());
    if (kind == 0)
        f.code = make_error_code(static_cast<errc>(value));
    else if (kind == 1)
        f.code = error_code(value, boost::system::generic_category());
    else
        f.code = make_error_code(errc::rank_failed);
    f.where.rank = static_cast<int>(r.svarint());
    for (auto* s : {&f.where.tensor, &f.where.object, &f.where.expected, &f.where.found,
                    &f.where.remedy, &f.text})
        *s = r.string();
    return f;
}

/// A message that carries either failures or a payload: what ranks exchange at each step.
inline std::vector<std::byte> encode_outcome(const std::vector<rank_failure>& failures,
                                             std::span<const std::byte> payload) {
    wire_writer w;
    w.u8(1);  // version of the exchange
    w.varint(failures.size());
    for (auto const& f : failures) encode(w, f);
    if (failures.empty()) w.bytes(payload);
    return std::move(w.out);
}

struct outcome {
    std::vector<rank_failure> failures{};
    std::vector<std::byte> payload{};
};

inline outcome decode_outcome(std::span<const std::byte> m) {
    wire_reader r(m);
    if (r.u8() != 1) wire_reader::fail("a message of another version of cairn");
    outcome o;
    for (auto n = r.count(); n-- > 0;) o.failures.push_back(decode_failure(r));
    if (o.failures.empty()) {
        auto const b = r.bytes();
        o.payload.assign(b.begin(), b.end());
    }
    return o;
}

/// All failures of all ranks' messages, in rank order; empty when everybody is well.
inline std::vector<rank_failure> collect_failures(const std::vector<outcome>& all) {
    std::vector<rank_failure> out;
    for (auto const& o : all) out.insert(out.end(), o.failures.begin(), o.failures.end());
    return out;
}
/// @throws error with each failed rank's own, if any failed; the state is as it was
inline void throw_failures(const std::vector<outcome>& all) {
    if (auto failures = collect_failures(all); !failures.empty())
        throw error(std::move(failures), false);
}

}  // namespace cairn::detail

#endif
