// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_CLAIM_HPP
#define CAIRN_STORAGE_CLAIM_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/object_store/concepts.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

inline constexpr std::string_view metadata_name = ".metadata";
inline constexpr std::string_view intent_prefix = ".saving.";

/// `__0_0.distcp` → `__0_0.<save id>.distcp`
inline std::string name_with_id(const std::string& name, const std::string& save_id) {
    auto const slash = name.rfind('/');
    auto const dot = name.rfind('.');
    if (dot == std::string::npos || (slash != std::string::npos && dot < slash))
        return name + "." + save_id;
    return name.substr(0, dot) + "." + save_id + name.substr(dot);
}

/// What a save that is under way leaves in the place it writes to, so that a later save can tell
/// its leftovers from files that are nobody's business: the names it may create, and when it began.
struct save_intent {
    std::int64_t began = 0;  ///< Seconds since 1970.
    std::vector<std::string> names{};

    std::vector<std::byte> encode() const {
        wire_writer w;
        w.u8(1);
        w.svarint(began);
        w.varint(names.size());
        for (auto const& n : names) w.string(n);
        return std::move(w.out);
    }
    static save_intent decode(byte_span b) {
        wire_reader r(b);
        if (r.u8() != 1) wire_reader::fail("an intent of an unknown version");
        save_intent i;
        i.began = r.svarint();
        for (auto n = r.count(); n-- > 0;) i.names.push_back(r.string());
        return i;
    }
};

/// The coordinator's hold on the place of one checkpoint, from the first look to the commit.
///
/// Rules (docs/decisions/0004-commit.md): data files are always new; what stood there stays whole
/// until the new metadata has replaced the old one; only then are files removed, and only those
/// that the replaced metadata named or that an expired intent listed.
template <ObjectStore Store>
class claim {
public:
    static constexpr std::chrono::hours intent_expiry{24};

    /// @param names  What the save would like to call its files.
    /// @return The names it gets: as they are where nothing of a checkpoint stands, else with the
    /// save id.
    /// @throws error errc::already_exists if `overwrite` is off and a checkpoint stands there.
    std::vector<std::string> take(Store& store, const std::string& save_id,
                                  std::vector<std::string> names, bool overwrite) {
        save_id_ = save_id;
        start_ = store.tag(metadata_name);
        if (!overwrite && !start_.text.empty()) {
            throw error(errc::already_exists,
                        {.object = store.describe(metadata_name),
                         .expected = "no checkpoint here, because overwrite is off",
                         .remedy = "choose another checkpoint id, or allow overwriting"});
        }
        if (!start_.text.empty()) read_old(store);
        intent_ = std::string(intent_prefix) + save_id;
        bool plain = place_is_free(store, names);
        write_intent(store, plain ? names : with_id(names));
        if (plain && !place_is_free(store, names)) {  // somebody else came at the same moment
            store.remove(intent_);
            plain = false;
            write_intent(store, with_id(names));
        }
        names_ = plain ? std::move(names) : with_id(names);
        return names_;
    }

    /// Replaces the metadata, durably and only if nobody else did since `take`; from then on the
    /// checkpoint exists.
    /// @throws error errc::concurrent_save; errc::outcome_unknown if the store failed half-way and
    /// the new metadata may be in place.
    void publish(Store& store, byte_span bytes) {
        try {
            store.publish(metadata_name, bytes, start_);
        } catch (const error& e) {
            if (e.code() == make_error_code(errc::concurrent_save)) throw;
            bool untouched = false;
            try {
                untouched = store.tag(metadata_name) == start_;
            } catch (const error&) {
                untouched = false;
            }
            if (untouched) throw;
            throw error(errc::outcome_unknown,
                        {.object = store.describe(metadata_name),
                         .found = e.what(),
                         .remedy = "load it to find out; no file was removed"});
        }
    }

    /// After `publish`: removes what nothing refers to any more. Failures here are not failures of
    /// the save; they are returned as warnings.
    std::vector<std::string> sweep(Store& store, const std::set<std::string>& kept) {
        std::vector<std::string> warnings;
        auto const drop = [&](const std::string& name) {
            if (kept.count(name) != 0 || !is_plain_name(name)) return;
            try {
                store.remove(name);
            } catch (const error& e) {
                warnings.push_back(e.what());
            }
        };
        if (!old_problem_.empty()) warnings.push_back(old_problem_);
        for (auto const& name : old_names_) drop(name);
        auto const attempt = [&](auto&& f) {
            try {
                f();
            } catch (const error& e) {
                // Another save may have tidied up meanwhile.
                if (e.code() != make_error_code(errc::not_found)) warnings.push_back(e.what());
            }
        };
        attempt([&] { store.remove(intent_); });
        std::vector<object_info> there;
        attempt([&] { there = store.list(); });
        for (auto const& info : there)
            attempt([&] { collect_expired(store, info.name, drop); });
        attempt([&] { store.sync(); });
        intent_.clear();
        return warnings;
    }

    /// The save failed before `publish`.
    void release(Store& store) noexcept {
        if (intent_.empty()) return;
        try {
            store.remove(intent_);
        } catch (...) {  // what stays behind is a leftover that a later save collects
        }
        intent_.clear();
    }

private:
    std::vector<std::string> with_id(const std::vector<std::string>& names) const {
        std::vector<std::string> out;
        for (auto const& n : names) out.push_back(name_with_id(n, save_id_));
        return out;
    }

    /// Nothing of any checkpoint is here: no metadata, no other save, none of the names.
    bool place_is_free(Store& store, const std::vector<std::string>& names) const {
        std::set<std::string_view> const wanted(names.begin(), names.end());
        for (auto const& info : store.list()) {
            if (info.name == intent_) continue;
            if (info.name == metadata_name || info.name.starts_with(intent_prefix) ||
                info.name.ends_with(".distcp") || wanted.count(info.name) != 0)
                return false;
        }
        return true;
    }

    void write_intent(Store& store, std::vector<std::string> names) {
        save_intent i;
        i.began = now();
        i.names = std::move(names);
        auto const bytes = i.encode();
        auto handle = store.create(intent_, bytes.size());
        handle.write(0, bytes);
        handle.finish(true);
    }

    void read_old(Store& store) {
        try {
            auto r = store.open(metadata_name);
            std::vector<std::byte> bytes(static_cast<std::size_t>(r.size()));
            r.read(0, bytes);
            auto const old = format::native::parse_metadata_file(bytes).meta;
            for_each_location(old,
                              [&](const storage_location& at) { old_names_.insert(at.object); });
            for (auto const& [name, size] : old.object_sizes) old_names_.insert(name);
        } catch (const error& e) {
            old_names_.clear();
            old_problem_ = std::string("the files of the replaced checkpoint stay, because its "
                                       "metadata cannot be read: ") + e.what();
        }
    }

    template <class Drop>
    void collect_expired(Store& store, const std::string& name, const Drop& drop) {
        if (!name.starts_with(intent_prefix) || name == intent_) return;
        auto r = store.open(name);
        std::vector<std::byte> bytes(static_cast<std::size_t>(r.size()));
        r.read(0, bytes);
        save_intent other;
        try {
            other = save_intent::decode(bytes);
        } catch (const error&) {
            return;  // half-written or not ours: leave it
        }
        auto const limit = std::chrono::duration_cast<std::chrono::seconds>(intent_expiry).count();
        if (now() - other.began < limit) return;
        for (auto const& n : other.names) drop(n);
        store.remove(name);
    }

    static std::int64_t now() {
        return std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
            .count();
    }
    /// A name read from a file may lead anywhere; only those within the place are removed.
    static bool is_plain_name(std::string_view n) {
        return !n.empty() && n != metadata_name && n.front() != '/' &&
               n.find("..") == std::string_view::npos;
    }

public:
    template <class F>
    static void for_each_location(const metadata& m, F&& f) {
        for (auto const& [fqn, entry] : m.entries) {
            if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
                for (auto const& c : t->chunks) f(c.at);
            } else {
                f(std::get<object_metadata>(entry).at);
            }
        }
    }

private:
    std::string save_id_;
    std::string intent_;
    std::vector<std::string> names_;
    object_tag start_;
    std::set<std::string> old_names_;
    std::string old_problem_;
};

}  // namespace cairn::detail

#endif
