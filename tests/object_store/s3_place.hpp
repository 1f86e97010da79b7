// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_OBJECT_STORE_S3_PLACE_HPP
#define CAIRN_TESTS_OBJECT_STORE_S3_PLACE_HPP

#include "support/s3/server.hpp"

#include <cairn/detail/identity.hpp>
#include <cairn/object_store/detail/s3/client.hpp>
#include <cairn/object_store/s3.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>

/// Stores at a server: the one that the environment names by `AWS_ENDPOINT_URL`, with the keys of
/// a user who may create buckets there, or one of this process.
namespace s3_tests {

inline const std::string bucket = "cairn-tests";

inline s3_server::options signed_requests() {
    s3_server::options o;
    o.signed_by.emplace();
    return o;
}
inline cairn::s3_credentials keys_of(const s3_server::credentials& c) {
    return {c.access_key, c.secret_key, c.token, {}};
}

/// Options of a store at a server of this process, with the smallest parts and little patience.
inline cairn::s3_options options_at(const s3_server::server& s) {
    cairn::s3_options o;
    o.bucket = bucket;
    o.part_size = std::uint64_t{8} << 20;
    o.endpoint = s.endpoint();
    o.credentials = keys_of({});
    o.retry_for = std::chrono::seconds(20);
    return o;
}

/// A server of this process, with the bucket.
struct bucket_server : s3_server::server {
    explicit bucket_server(s3_server::options o = signed_requests()) : server(std::move(o)) {
        add_bucket(bucket);
    }
    cairn::s3_store store(cairn::s3_options o) const { return cairn::s3_store(std::move(o)); }
    cairn::s3_store store() const { return store(options_at(*this)); }
};

/// A request about the bucket that the store has no need of.
inline cairn::detail::s3::answer ask(const cairn::detail::s3::call& c, cairn::s3_options o) {
    auto const s = cairn::detail::s3::store_settings::of(std::move(o));
    cairn::detail::s3::client requests(s);
    return requests.send(c);
}

/// A place in the bucket that nothing else uses, without its objects afterwards.
struct place {
    place() {
        if (std::getenv("AWS_ENDPOINT_URL") == nullptr) {
            mine.emplace(signed_requests());
            mine->add_bucket(bucket);
            return;
        }
        cairn::detail::s3::call make;
        make.method = "PUT";
        auto const a = ask(make, options());
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
    /// With the smallest parts.
    cairn::s3_options options() const {
        if (mine) return options_at(*mine);
        cairn::s3_options o;
        o.bucket = bucket;
        o.part_size = std::uint64_t{8} << 20;
        return o;
    }
    cairn::s3_store store(cairn::s3_options o) const {
        o.prefix = prefix;
        return cairn::s3_store(std::move(o));
    }
    cairn::s3_store store() const { return store(options()); }
    /// A place of its own at each call.
    cairn::s3_store next() { return store().at("p" + std::to_string(n++)); }

    static void clear(cairn::s3_store s) {
        for (auto const& id : s.places()) clear(s.at(id));
        for (auto const& o : s.list()) s.remove(o.name);
    }

    std::optional<s3_server::server> mine{};
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

/// What a save leaves that is killed while it writes two files: an intent, a finished file, and an
/// upload.
/// @param there    The place.
/// @param key      Of the place in the bucket, with a slash at the end.
/// @param options  Of a store at the server.
inline void leave_killed_save(cairn::s3_store there, const std::string& key,
                              cairn::s3_options options) {
    cairn::detail::save_intent intent;
    intent.save_id = std::string(32, 'a');
    intent.began = cairn::detail::save_intent::now();
    intent.owner = cairn::detail::record_owner::this_one();
    intent.names = {cairn::detail::data_name("__0_0", intent.save_id),
                    cairn::detail::data_name("__1_0", intent.save_id)};
    there.publish(cairn::detail::intent_name(intent.save_id), intent.encode(), std::nullopt);
    put(there, intent.names[0], pattern(0));
    cairn::detail::s3::call begin;
    begin.method = "POST";
    begin.key = key + intent.names[1];
    begin.query = {{"uploads", ""}};
    BOOST_REQUIRE(ask(begin, std::move(options)).ok());
}

}  // namespace s3_tests

#endif
