// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SAVE_PIECEWISE_STORE_HPP
#define CAIRN_TEST_SAVE_PIECEWISE_STORE_HPP

#include "background_ranks.hpp"
#include "support/forwarding_store.hpp"

#include <cairn/object_store/memory.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace background_ranks {

/// A store that counts the pieces written to and read from data files, and stands at gates.
class piecewise_store : public support::forwarding_store<cairn::memory_store> {
public:
    struct seen {
        gate first{};  ///< In the first piece …
        gate large{};  ///< … and in the large piece of that number.
        int at_large = -1;
        std::atomic<int> pieces{0};
        std::atomic<int> large_pieces{0};
        static constexpr std::size_t large_bytes = std::size_t{1} << 17;

        void piece(std::size_t bytes) {
            if (pieces++ == 0) first.pass();
            if (bytes >= large_bytes && large_pieces++ == at_large) large.pass();
        }
    };
    template <class Handle>
    struct counting {
        Handle handle;
        std::shared_ptr<seen> counts;  ///< Null: not a data file.

        void write(std::uint64_t at, cairn::byte_span b) {
            if (counts) counts->piece(b.size());
            handle.write(at, b);
        }
        void finish(bool durable) { handle.finish(durable); }
        void read(std::uint64_t at, std::span<std::byte> into) {
            if (counts) counts->piece(into.size());
            handle.read(at, into);
        }
        std::uint64_t size() { return handle.size(); }
    };

    piecewise_store(cairn::memory_store s, std::shared_ptr<seen> counts)
        : forwarding_store(std::move(s)), counts_(std::move(counts)) {}
    piecewise_store at(const std::string& id) const { return {store_.at(id), counts_}; }
    auto create(std::string_view n, std::uint64_t size) {
        auto h = store_.create(n, size);
        return counting<decltype(h)>{std::move(h), of(n)};
    }
    auto open(std::string_view n) {
        auto h = store_.open(n);
        return counting<decltype(h)>{std::move(h), of(n)};
    }

private:
    std::shared_ptr<seen> of(std::string_view n) {
        return n.ends_with(".distcp") ? counts_ : nullptr;
    }

    std::shared_ptr<seen> counts_;
};

}  // namespace background_ranks

#endif
