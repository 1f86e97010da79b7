// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_PARSE_ITEM_HPP
#define CAIRN_FORMAT_TORCH_PARSE_ITEM_HPP

#include <cairn/format/torch/storage_class.hpp>
#include <cairn/format/torch/value_item.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace cairn::format::torch {

/// The result of parsing a tensor's item.
struct parsed_tensor {
    dtype type = dtype::float32;
    index_vector shape{};
    index_vector strides{};
    std::uint64_t storage_offset = 0;  ///< In elements.
    std::uint64_t payload_offset = 0;  ///< In bytes, from the item's start.
    std::uint64_t payload_length = 0;
    std::uint32_t payload_crc = 0;  ///< To be checked by the caller: the payload is not read here.
    bool checked = true;            ///< False: neither the item nor its payload has checksums.
    bool requires_grad = false;
    bool big_endian = false;
};

namespace impl {

/// Reads the call tree of data.pkl; every accessor checks the kind.
class tensor_call {
public:
    tensor_call(const pickle::tree& t, pickle::node_id i) : t_(t) {
        using pickle::node_kind;
        if (t.kind(i) != node_kind::object)
            refuse("an item whose data.pkl does not build a tensor");
        name_ = t.class_name(t.children(i)[0]);
        if (name_ == "torch._utils._rebuild_parameter") {
            auto const inner = args(i)[0];
            if (t.kind(inner) != node_kind::object) refuse("a parameter without a tensor");
            name_ = t.class_name(t.children(inner)[0]);
            args_ = args(inner);
        } else {
            args_ = args(i);
        }
        if (name_ != "torch._utils._rebuild_tensor_v2" &&
            name_ != "torch._utils._rebuild_tensor_v3")
            refuse(name_.empty() ? "a call of something that is not a class" : name_);
        v3_ = name_.ends_with("v3");
        if (args_.size() < (v3_ ? 7u : 6u)) refuse(name_ + " with too few arguments");
    }

    parsed_tensor result(std::string& record, std::uint64_t& storage_bytes) const {
        using pickle::node_kind;
        parsed_tensor p;
        if (t_.kind(args_[0]) != node_kind::persistent) refuse("a tensor without a storage");
        auto const id = t_.children(args_[0])[0];
        if (t_.kind(id) != node_kind::tuple || t_.children(id).size() < 5)
            refuse("a malformed storage");
        auto const s = t_.children(id);
        if (t_.kind(s[2]) != node_kind::string) refuse("a storage without a key");
        record = "data/" + std::string(t_.text(s[2]));
        auto const cls = t_.class_name(s[1]);
        auto const count = static_cast<std::uint64_t>(number(s[4]));
        if (v3_) {
            auto const d = t_.class_name(args_[6]);
            auto const type = dtype_from_name(d.starts_with("torch.") ? d.substr(6) : d);
            if (!type) refuse("dtype " + d);
            p.type = *type;
            storage_bytes = count;
        } else {
            auto const d = dtype_of_storage(cls.starts_with("torch.") ? cls.substr(6) : cls);
            if (!d) refuse("storage " + cls);
            p.type = *d;
            if (count > (std::uint64_t{1} << 60)) pickle::malformed("a storage that is too large");
            storage_bytes = count * size_of(p.type);
        }
        p.storage_offset = static_cast<std::uint64_t>(number(args_[1]));
        p.shape = numbers(args_[2]);
        p.strides = numbers(args_[3]);
        p.requires_grad = t_.is_true(args_[4]);
        if (args_.size() > (v3_ ? 7u : 6u)) {
            auto const extra = args_.back();
            if (t_.kind(extra) == node_kind::dict && !t_.children(extra).empty())
                refuse("a tensor with metadata (conjugate or negative view)");
        }
        check_bounds(p, storage_bytes);
        return p;
    }

private:
    [[noreturn]] static void refuse(const std::string& what) {
        throw error(errc::unsupported, {.expected = "a plain dense tensor", .found = what});
    }
    std::span<const pickle::node_id> args(pickle::node_id call) const {
        auto const a = t_.children(t_.children(call)[1]);
        if (a.empty()) refuse("a call without arguments");
        return a;
    }
    std::int64_t number(pickle::node_id i) const {
        if (t_.kind(i) != pickle::node_kind::integer || t_.number(i) > INT64_MAX)
            pickle::malformed("a negative or missing number");
        return static_cast<std::int64_t>(t_.number(i));
    }
    index_vector numbers(pickle::node_id i) const {
        if (t_.kind(i) != pickle::node_kind::tuple || t_.children(i).size() > 64)
            pickle::malformed("a malformed shape");
        index_vector s;
        for (auto c : t_.children(i)) s.push_back(number(c));
        return s;
    }
    /// Checks, without overflow, that the last element of shape and strides is in the storage.
    static void check_bounds(const parsed_tensor& p, std::uint64_t storage_bytes) {
        if (p.shape.size() != p.strides.size()) pickle::malformed("strides of another rank");
        std::uint64_t const elements = storage_bytes / size_of(p.type);
        if (p.storage_offset > elements) pickle::malformed("an offset beyond the storage");
        for (auto e : p.shape)
            if (e == 0) return;
        std::uint64_t last = p.storage_offset;
        for (std::size_t d = 0; d < p.shape.size(); ++d) {
            auto const steps = static_cast<std::uint64_t>(p.shape[d] - 1);
            auto const stride = static_cast<std::uint64_t>(p.strides[d]);
            if (steps != 0 && stride > elements / steps)
                pickle::malformed("strides beyond the storage");
            last += steps * stride;
            if (last >= elements) break;
        }
        if (last >= elements) pickle::malformed("a shape beyond the storage");
    }

    const pickle::tree& t_;
    std::string name_;
    std::span<const pickle::node_id> args_;
    bool v3_ = false;
};

}  // namespace impl

/// Finds the payload in a tensor's item, and checks the CRC of every other record.
/// @throws error errc::corrupt, errc::checksum_mismatch; errc::unsupported for anything that is
/// not a plain dense tensor of a known dtype.
inline parsed_tensor parse_tensor_item(const read_at& source, std::uint64_t length) {
    auto const r = item_records::read(source, length, std::uint64_t{64} << 10);
    auto const t = pickle::reader::read(r.pickle);
    std::string record;
    std::uint64_t storage_bytes = 0;
    auto p = impl::tensor_call(t, t.root).result(record, storage_bytes);
    p.big_endian = r.big_endian;
    p.checked = r.checked;
    for (auto const& e : r.entries) {
        if (e.name != record) continue;
        if (e.size != storage_bytes) {
            throw error(errc::corrupt,
                        {.expected = "a storage of " + std::to_string(storage_bytes) + " bytes",
                         .found = std::to_string(e.size) + " bytes"});
        }
        p.payload_offset = e.data;
        p.payload_length = e.size;
        p.payload_crc = e.crc;
        return p;
    }
    throw error(errc::corrupt, {.expected = "a record '" + record + "'", .found = "none"});
}

}  // namespace cairn::format::torch

#endif
