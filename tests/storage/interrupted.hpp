// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_STORAGE_INTERRUPTED_HPP
#define CAIRN_TEST_STORAGE_INTERRUPTED_HPP

#include "support/scratch.hpp"

#include <cairn/save.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace interrupted {

namespace fs = std::filesystem;
using cairn::detail::save_intent;

inline const std::string id_a(32, 'a'), id_b(32, 'b');

/// A place with one checkpoint, and what another save left there.
struct place {
    support::scratch dir{};
    fs::path at = dir.dir / "c";
    std::string standing_id = save(1).save_id;

    cairn::save_report save(float v) {
        std::vector<float> w(4, v);
        cairn::state_dict sd{{"w", w}};
        return cairn::save(sd, at.string());
    }
    void write(const std::string& name, std::span<const std::byte> bytes) const {
        std::ofstream(at / name, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
    }
    void write(const std::string& name, const std::string& text) const {
        write(name, std::as_bytes(std::span(text)));
    }
    bool has(const std::string& name) const { return fs::exists(at / name); }
    /// By the file system's clock.
    void age(const std::string& name, std::chrono::hours by) const {
        fs::last_write_time(at / name, fs::last_write_time(at / name) - by);
    }
    /// Saves, and has nothing to complain of.
    void save_well(float v) {
        std::string all;
        for (auto const& w : save(v).warnings) all += w + "\n";
        BOOST_TEST(all == "");
    }
    std::size_t count() const {
        return static_cast<std::size_t>(
            std::distance(fs::directory_iterator(at), fs::directory_iterator()));
    }
};

/// The intent of a save that began just now, in this process.
inline save_intent intent_of(const std::string& id) {
    save_intent i;
    i.save_id = id;
    i.began = save_intent::now();
    i.owner = cairn::detail::record_owner::this_one();
    i.names = {"__0_0." + id + ".distcp"};
    return i;
}
/// Of another host, of which nothing can be known.
inline save_intent of_another_host(const std::string& id) {
    auto i = intent_of(id);
    i.owner.process.boot = "another host";
    i.owner.process.run = id;
    return i;
}
using std::chrono::hours;

/// Whether the next save collects the files of an intent, and the intent.
/// @param since  How long ago the intent was written, and its files.
inline bool is_collected(const save_intent& i, hours since = hours(0),
                         std::optional<hours> files_since = {}) {
    place p;
    p.write(".saving." + i.save_id, i.encode());
    p.age(".saving." + i.save_id, since);
    for (auto const& n : i.names) {
        p.write(n, "left");
        p.age(n, files_since.value_or(since));
    }
    p.save_well(2);
    bool const gone = !p.has(i.names.at(0));
    BOOST_TEST(p.has(".saving." + i.save_id) != gone);
    BOOST_TEST(p.count() == (gone ? 2u : 3u + i.names.size()));
    return gone;
}

}  // namespace interrupted

#endif
