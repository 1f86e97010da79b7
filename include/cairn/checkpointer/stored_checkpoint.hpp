// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_STORED_CHECKPOINT_HPP
#define CAIRN_CHECKPOINTER_STORED_CHECKPOINT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/memory/any_memory_space.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/state/state_dict.hpp>
#include <cairn/state/value_traits.hpp>
#include <cairn/storage/concepts.hpp>

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

class mapping;

/// A checkpoint that `checkpointer::load_latest` has found, for a function that makes the state to
/// load it into: what it contains, under which names and with which shapes, and some of its values.
/// With a @ref mapping, these are the names and shapes of the state.
///
/// **Threads**: one at a time. **Lifetimes**: for the function's call only.
class stored_checkpoint {
public:
    /// For the implementation. @param content  As it is stored; outlives this.
    /// @param names  Null: they are those that are stored.
    CAIRN_DECL stored_checkpoint(checkpoint_id id, const metadata& content, any_store store,
                                 std::vector<any_memory_space> spaces,
                                 std::shared_ptr<const mapping> names);
    stored_checkpoint(stored_checkpoint&&) = delete;

    const checkpoint_id& id() const noexcept { return id_; }
    /// Names, shapes and dtypes, without data.
    /// @throws error if the mapping does not fit it, or what it needs cannot be read
    const metadata& content() const {
        if (unmapped_) std::rethrow_exception(unmapped_);
        return mapped_ ? *mapped_ : *content_;
    }

    /// Loads some of it, on this rank alone: each rank reads for itself. Every call reads the
    /// metadata again, so it is better to read several values in one call.
    /// @throws error as @ref load. If the checkpoint turns out to be damaged, the next older one is
    /// tried, whatever the function does afterwards.
    CAIRN_DECL void read(state_dict what) const;
    /// Returns one value, e.g. `value<int>("model.layers")`.
    /// @throws as `read`
    template <std::default_initializable T>
        requires ValueLike<T>
    T value(std::string_view fqn) const {
        T t{};
        read({{std::string(fqn), std::ref(t)}});
        return t;
    }

    /// For the implementation: the exception that found damage, if any.
    const std::exception_ptr& damage() const noexcept { return damage_; }

private:
    checkpoint_id id_;
    const metadata* content_;
    std::optional<metadata> mapped_{};
    std::exception_ptr unmapped_{};  ///< Why it could not be mapped.
    any_store store_;
    std::vector<any_memory_space> spaces_;
    std::shared_ptr<const mapping> names_;
    mutable std::exception_ptr damage_{};
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/checkpointer/impl/stored_checkpoint.ipp>
#endif

#endif
