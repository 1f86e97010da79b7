// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_TRAINING_EXECUTOR_HPP
#define CAIRN_TEST_TRAINING_EXECUTOR_HPP

#include <cairn/tensor/view.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

/// What the body of a kernel is marked with: nvcc compiles it for both sides.
#ifdef __CUDACC__
#define CAIRN_TEST_KERNEL __host__ __device__
#else
#define CAIRN_TEST_KERNEL
#endif

struct CUstream_st;  // a cudaStream_t points to it

namespace training {

/// Runs the bodies of kernels on the host: `body(i)` for each index in turn. `gpu_executor`, in
/// gpu_trainer.cu, launches them instead; a body writes only what belongs to its index, so that
/// both are deterministic.
class host_executor {
public:
    template <class Body>
    void for_each(std::int64_t n, const Body& body) {
        for (std::int64_t i = 0; i < n; ++i) body(i);
    }
    /// Returns memory that is zero.
    void* allocate(std::size_t bytes) {
        auto* const p = std::calloc(bytes, 1);
        if (p == nullptr) throw std::bad_alloc();
        return p;
    }
    void release(void* p) noexcept { std::free(p); }
    /// Copies between the host and the executor's memory, after all that was launched.
    void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
    cairn::device_id device() const { return {}; }
    CUstream_st* stream() const noexcept { return nullptr; }
};

/// Numbers in the memory of an executor.
template <class Executor, class Real>
class buffer {
public:
    buffer(Executor& on, std::int64_t n)
        : on_(&on), size_(n), data_(static_cast<Real*>(on.allocate(bytes()))) {}
    buffer(buffer&& other) noexcept : on_(other.on_), size_(other.size_), data_(other.data_) {
        other.data_ = nullptr;
    }
    buffer& operator=(buffer&&) = delete;
    ~buffer() {
        if (data_ != nullptr) on_->release(data_);
    }

    Real* data() const noexcept { return data_; }
    std::int64_t size() const noexcept { return size_; }
    std::size_t bytes() const noexcept { return static_cast<std::size_t>(size_) * sizeof(Real); }

private:
    Executor* on_;
    std::int64_t size_;
    Real* data_;
};

}  // namespace training

#endif
