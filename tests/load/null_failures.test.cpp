// SPDX-License-Identifier: Apache-2.0
// Parts that report a failure without an exception: the load fails all the same.
#include "replicas.hpp"

#include <cairn/storage/torch_reader.hpp>

#include <boost/test/unit_test.hpp>

#include <exception>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(null_failures)

using namespace replicas;

namespace {

bool is_abandoned(const cairn::error& e) {
    return e.code() == make_error_code(cairn::errc::abandoned);
}

class null_reader {
public:
    explicit null_reader(cairn::memory_store s) : r_(std::move(s)) {}
    void reset(const cairn::checkpoint_id& id) { r_.reset(id); }
    cairn::metadata read_metadata() { return r_.read_metadata(); }
    void set_up_reader(const cairn::metadata& m, const cairn::storage_setup& s) {
        r_.set_up_reader(m, s);
    }
    cairn::load_plan prepare_local_load_plan(cairn::load_plan p) { return p; }
    std::vector<cairn::load_plan> prepare_global_load_plan(std::vector<cairn::load_plan> p) {
        return p;
    }
    void read_data(const cairn::load_plan&, const cairn::read_target&,
                   cairn::completion<cairn::read_result> done) {
        done.fail(nullptr);
    }

private:
    cairn::torch_reader r_;
};
static_assert(cairn::StorageReader<null_reader>);

template <class Inner>
class null_plane {
public:
    explicit null_plane(Inner& inner) : inner_(&inner) {}
    int rank() const { return inner_->rank(); }
    int size() const { return inner_->size(); }
    int plane_id() const { return inner_->plane_id(); }
    void cancel() noexcept { inner_->cancel(); }
    bool serves(cairn::device_id d) const { return inner_->serves(d); }
    void broadcast(cairn::memory_span, int, cairn::deadline,
                   cairn::completion<cairn::done_t> done) {
        done.fail(nullptr);
    }

private:
    Inner* inner_;
};
static_assert(cairn::DataPlane<null_plane<cairn::communicator_data_plane<member>>>);

}  // namespace

BOOST_AUTO_TEST_CASE(a_null_failure_of_a_reader_is_an_error) {
    cairn::memory_store store;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    (void)cairn::save(sd, "c", store);
    null_reader reader(store);
    BOOST_CHECK_EXCEPTION((void)cairn::load(sd, "c", reader), cairn::error, is_abandoned);
}

BOOST_AUTO_TEST_CASE(a_null_failure_of_a_data_plane_is_an_error) {
    cairn::memory_store store;
    stored from;
    (void)cairn::save(from.dict(), "c", store);
    auto const errors = try_with_planes(2, [&](member& me, auto& inner) {
        null_plane plane(inner);
        wanted to(me.rank(), 2);
        auto sd = to.dict();
        (void)cairn::load(sd, "c", how(always), me, plane, store);
    });
    for (auto const& e : errors) {
        BOOST_REQUIRE(e);
        BOOST_CHECK_EXCEPTION(std::rethrow_exception(e), cairn::error, is_abandoned);
    }
}

BOOST_AUTO_TEST_SUITE_END()
