// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_ERASED_DATA_PLANE_HPP
#define CAIRN_COMM_DETAIL_ERASED_DATA_PLANE_HPP

#include <cairn/comm/data_plane.hpp>
#include <cairn/comm/deadline.hpp>
#include <cairn/completion.hpp>
#include <cairn/memory/memory_span.hpp>

#include <utility>

namespace cairn::detail {

/// A type-erased data plane. Makes the guarantees of `DataPlane`.
class erased_data_plane {
public:
    erased_data_plane() = default;
    erased_data_plane(erased_data_plane&&) = delete;

    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual int plane_id() const = 0;
    virtual bool serves(device_id) const = 0;
    virtual void broadcast(memory_span, int root, deadline, completion<done_t>) = 0;
    virtual void cancel() noexcept = 0;

protected:
    ~erased_data_plane() = default;
};

/// The type-erased form of a data plane, valid while a verb runs.
template <DataPlane Plane>
class data_plane_ref final : public erased_data_plane {
public:
    explicit data_plane_ref(Plane& to) : to_(to) {}

    int rank() const override { return std::as_const(to_).rank(); }
    int size() const override { return std::as_const(to_).size(); }
    int plane_id() const override { return std::as_const(to_).plane_id(); }
    bool serves(device_id d) const override { return std::as_const(to_).serves(d); }
    void broadcast(memory_span m, int root, deadline d, completion<done_t> done) override {
        to_.broadcast(m, root, d, std::move(done));
    }
    void cancel() noexcept override { to_.cancel(); }

private:
    Plane& to_;
};

}  // namespace cairn::detail

#endif
