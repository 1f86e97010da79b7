// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_TENSOR_HPP
#define CAIRN_TESTS_ARCHETYPE_TENSOR_HPP

#include "stingy.hpp"

#include <cairn/tensor/traits.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// The least that `Tensor` and `Sharded` ask for, and types that miss one requirement each.
namespace cairn::archetype {

/// Movable once made, and nothing else. Its extents are `int`s, made up on every call.
class tensor : stingy {
public:
    explicit tensor(std::vector<float> values)
        : values_(std::make_unique<std::vector<float>>(std::move(values))) {}
    tensor(tensor&&) = default;

    std::vector<int> shape() const { return {static_cast<int>(values_->size())}; }
    float* elements() { return values_->data(); }
    const float* elements() const { return values_->data(); }

private:
    std::unique_ptr<std::vector<float>> values_;
};

/// Only its conversion is a view.
class const_window : stingy {
public:
    explicit const_window(const_tensor_view v) : view_(std::move(v)) {}
    operator const_tensor_view() const { return view_; }

private:
    const_tensor_view view_;
};

/// This rank's part of a 1-d tensor: the elements from `offset` on.
class sharded : stingy {
public:
    sharded(int whole, int offset, tensor part)
        : whole_(whole), offset_(offset), part_(std::move(part)) {}
    sharded(sharded&&) = default;

    int whole() const { return whole_; }
    int offset() const { return offset_; }
    tensor& part() { return part_; }

private:
    int whole_;
    int offset_;
    tensor part_;
};

/// A range of one shard that is made when looked at: an input range, no more.
class lone_shard {
public:
    struct sentinel {};
    class iterator {
    public:
        explicit iterator(const lone_shard& of) : of_(std::addressof(of)) {}
        shard operator*() const { return of_->shard_; }
        iterator& operator++() {
            of_ = nullptr;
            return *this;
        }
        friend bool operator==(const iterator& i, sentinel) { return i.of_ == nullptr; }

    private:
        const lone_shard* of_;
    };

    explicit lone_shard(shard s) : shard_(std::move(s)) {}
    iterator begin() const { return iterator(*this); }
    sentinel end() const { return {}; }

private:
    shard shard_;
};

// One near miss for each line of the concepts' tables.
struct no_traits {};
struct no_view {};
struct view_is_void {};
struct view_is_pointer {};
struct view_of_another {};
struct no_global_sizes {};
struct global_sizes_is_void {};
struct no_shards {};
struct shards_is_no_range {};
struct shards_of_boxes {};

}  // namespace cairn::archetype

namespace cairn {

template <>
struct tensor_traits<archetype::tensor> {
    static tensor_view view(archetype::tensor& t) {
        return {dtype::float32, index_vector(t.shape()), t.elements()};
    }
    static archetype::const_window view(const archetype::tensor& t) {
        return archetype::const_window({dtype::float32, index_vector(t.shape()), t.elements()});
    }
};
template <>
struct shard_traits<archetype::sharded> {
    static std::vector<int> global_shape(const archetype::sharded& s) { return {s.whole()}; }
    static archetype::lone_shard shards(archetype::sharded& s) {
        const std::vector<int> at{s.offset()};
        return archetype::lone_shard(
            shard(box(index_vector(at), index_vector(s.part().shape())), s.part()));
    }
};

template <>
struct tensor_traits<archetype::no_view> {};
template <>
struct tensor_traits<archetype::view_is_void> {
    static void view(const archetype::view_is_void&) {}
};
template <>
struct tensor_traits<archetype::view_is_pointer> {
    static const const_tensor_view* view(const archetype::view_is_pointer&) { return nullptr; }
};
template <>
struct tensor_traits<archetype::view_of_another> {
    static const_tensor_view view(const archetype::tensor&) { return {}; }
};
template <>
struct shard_traits<archetype::no_global_sizes> {
    static std::vector<shard> shards(const archetype::no_global_sizes&) { return {}; }
};
template <>
struct shard_traits<archetype::global_sizes_is_void> {
    static void global_shape(const archetype::global_sizes_is_void&) {}
    static std::vector<shard> shards(const archetype::global_sizes_is_void&) { return {}; }
};
template <>
struct shard_traits<archetype::no_shards> {
    static index_vector global_shape(const archetype::no_shards&) { return {}; }
};
template <>
struct shard_traits<archetype::shards_is_no_range> {
    static index_vector global_shape(const archetype::shards_is_no_range&) { return {}; }
    static int shards(const archetype::shards_is_no_range&) { return 0; }
};
template <>
struct shard_traits<archetype::shards_of_boxes> {
    static index_vector global_shape(const archetype::shards_of_boxes&) { return {}; }
    static std::vector<box> shards(const archetype::shards_of_boxes&) { return {}; }
};

namespace archetype {
static_assert(Tensor<tensor> && Tensor<tensor&> && Tensor<const tensor&> && Tensor<tensor&&>);
static_assert(!Tensor<no_traits> && !Tensor<no_view> && !Tensor<view_is_void>);
static_assert(!Tensor<view_is_pointer> && !Tensor<view_of_another> && !Tensor<int>);
static_assert(Sharded<sharded> && Sharded<sharded&> && Sharded<const sharded&>);
static_assert(!Sharded<no_traits> && !Sharded<tensor> && !Sharded<no_global_sizes>);
static_assert(!Sharded<global_sizes_is_void> && !Sharded<no_shards>);
static_assert(!Sharded<shards_is_no_range> && !Sharded<shards_of_boxes> && !Tensor<sharded>);
}  // namespace archetype

}  // namespace cairn

#endif
