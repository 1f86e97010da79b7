// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_OBJECT_STORE_S3_SERVER_HPP
#define CAIRN_TESTS_OBJECT_STORE_S3_SERVER_HPP

#include <cairn/detail/identity.hpp>
#include <cairn/object_store/detail/s3/client.hpp>
#include <cairn/object_store/s3.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <string>

/// The S3 server of the tests, which the environment names: `AWS_ENDPOINT_URL`, and the keys of a
/// user who may create buckets there.
namespace s3_tests {

inline const std::string bucket = "cairn-tests";

/// A precondition of tests that need a server.
struct server_is_there {
    boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
        boost::test_tools::assertion_result there(std::getenv("AWS_ENDPOINT_URL") != nullptr);
        if (!there) there.message() << "no server: AWS_ENDPOINT_URL is not set";
        return there;
    }
};
inline boost::unit_test::decorator::precondition needs_server() {
    return boost::unit_test::decorator::precondition(server_is_there());
}

/// Options with the smallest parts.
inline cairn::s3_options small_parts() {
    cairn::s3_options o;
    o.bucket = bucket;
    o.part_size = std::uint64_t{8} << 20;
    return o;
}

/// A request about the bucket that the store has no need of.
inline cairn::detail::s3::answer ask(cairn::detail::s3::call c,
                                     cairn::s3_options o = small_parts()) {
    auto const s = cairn::detail::s3::store_settings::of(std::move(o));
    cairn::detail::s3::client requests(s);
    return requests.send(c);
}

/// A place in the bucket that nothing else uses, without its objects afterwards.
struct place {
    place() {
        cairn::detail::s3::call make;
        make.method = "PUT";
        auto const a = ask(make);
        BOOST_REQUIRE_MESSAGE(a.ok() || a.is(409), "no bucket: " << a.code << " " << a.failure);
    }
    place(place&&) = delete;
    ~place() {
        try {
            clear(store());
        } catch (const std::exception& e) {
            BOOST_TEST_MESSAGE("objects of a test stay: " << e.what());
        }
    }
    cairn::s3_store store(cairn::s3_options o = small_parts()) const {
        o.prefix = prefix;
        return cairn::s3_store(std::move(o));
    }
    /// A place of its own at each call.
    cairn::s3_store next() { return store().at("p" + std::to_string(n++)); }

    static void clear(cairn::s3_store s) {
        for (auto const& id : s.places()) clear(s.at(id));
        for (auto const& o : s.list()) s.remove(o.name);
    }

    std::string prefix = "tests/" + cairn::detail::new_save_id();
    int n = 0;
};

inline cairn::byte_vector pattern(std::size_t n, unsigned seed = 0) {
    cairn::byte_vector b(n);
    for (std::size_t i = 0; i < n; ++i)
        b[i] = static_cast<std::byte>((i * 2654435761u >> 11) + seed * 31);
    return b;
}
template <class Store>
void put(Store&& s, const std::string& name, const cairn::byte_vector& b) {
    auto h = s.create(name, b.size());
    h.write(0, b);
    h.finish(true);
}
template <class Store>
cairn::byte_vector get(Store&& s, const std::string& name) {
    auto r = s.open(name);
    cairn::byte_vector b(static_cast<std::size_t>(r.size()));
    r.read(0, b);
    return b;
}

}  // namespace s3_tests

#endif
