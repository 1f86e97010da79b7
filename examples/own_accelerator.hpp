// SPDX-License-Identifier: Apache-2.0
// A memory space for an accelerator that cairn does not know, as one class.
#ifndef CAIRN_EXAMPLES_OWN_ACCELERATOR_HPP
#define CAIRN_EXAMPLES_OWN_ACCELERATOR_HPP

#include "toy_accelerator.hpp"

#include <cairn/memory/concepts.hpp>

#include <cstddef>
#include <memory>
#include <span>

class my_accelerator {
public:
    /// The device in the views of its tensors.
    static constexpr cairn::device_id device{cairn::own_memory_kind(0), 0};

    class queue {
    public:
        using stream = toy::stream*;
        using event = toy::event;

        explicit queue(stream producer)
            : producer_(producer), own_(std::make_unique<toy::stream>()) {}

        void fence(std::span<const cairn::const_tensor_view>) {
            own_->wait_for(producer_->record());
        }
        void to_host(std::span<const cairn::pitched_copy> copies) { copy(copies); }
        void to_device(std::span<const cairn::pitched_copy> copies) { copy(copies); }
        event record() { return own_->record(); }
        bool reached(event& e) { return e.reached(); }
        void make_wait(const stream& s) { s->wait_for(own_->record()); }

    private:
        void copy(std::span<const cairn::pitched_copy> copies) {
            for (auto const& c : copies)
                for (std::size_t r = 0; r < c.rows; ++r)
                    own_->copy(c.to + r * c.to_pitch, c.from + r * c.from_pitch, c.width);
        }
        stream producer_;
        std::unique_ptr<toy::stream> own_;
    };

    /// @param producer  The stream that computes the tensors; outlives this.
    explicit my_accelerator(toy::stream& producer) : producer_(&producer) {}

    bool serves(cairn::device_id d) const { return d == device; }
    void pin(std::span<std::byte>, cairn::device_id) {}  // it can copy from any host memory
    void unpin(std::span<std::byte>, cairn::device_id) noexcept {}
    queue open(cairn::device_id) { return queue(producer_); }

private:
    toy::stream* producer_;
};
static_assert(cairn::MemorySpace<my_accelerator>);

#endif
