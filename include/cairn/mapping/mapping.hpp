// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_MAPPING_HPP
#define CAIRN_MAPPING_MAPPING_HPP

#include <cairn/detail/config.hpp>
#include <cairn/mapping/expressions.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn {

/// What becomes of names that no expression makes or uses.
enum class other_names : std::uint8_t {
    pass,       ///< They are the same in the state and in the checkpoint.
    leave_out,  ///< They are neither loaded nor stored.
    refuse,     ///< They are an error that names them.
};

/// Names and shapes of a state in terms of those of a checkpoint.
///
///     cairn::mapping gpt2;
///     using namespace cairn::map;
///     gpt2.set("blocks.{i}.qkv", transpose(stored("h.{i}.attn.c_attn.weight")));
///     cairn::load(state, "hf_dir", ranks, gpt2);
///
/// Each name of the state is made by the first expression whose pattern matches it. A capture
/// `{i}` stands for one or more characters without a dot, `{name...}` for any; a capture has the
/// same text wherever it stands. `{{` and `}}` are braces.
///
/// Loads apply expressions to what is stored; saves invert them. What cannot be inverted without
/// loss is refused, with an error that names the expression. Names that no expression makes or
/// uses pass through, unless @ref others says otherwise.
///
/// A value: copies are independent. Const members may be called from several threads.
class mapping {
public:
    /// @throws error errc::invalid_argument naming the pattern or expression: a capture of an
    /// expression that the pattern lacks, captures with nothing between them
    CAIRN_DECL mapping& set(std::string name, map::expression made_of);
    /// Likewise, for names that a checkpoint may lack, e.g. biases: a conversion, or a load without
    /// a state, then makes nothing of the line. A state that has such a name is refused as ever.
    CAIRN_DECL mapping& set_optional(std::string name, map::expression made_of);
    /// The same as `set(name, map::stored(stored))`.
    CAIRN_DECL mapping& rename(std::string name, std::string stored);

    /// Makes optimizer state, and what else belongs to a parameter, follow the parameter's
    /// expression: what has the parameter's shape is mapped like it; single numbers of stored
    /// parameters that become one must be equal, and are copied where a parameter is divided.
    /// Elements keep their dtype, padding is 0.
    ///
    ///     m.follow("optim.state.{param...}.{slot}", "optimizer.state.{param...}.{slot}");
    ///
    /// Where parameters are kept below a name that their optimizer state lacks, e.g. `model.w` and
    /// `optim.state.w.exp_avg`:
    ///
    ///     m.follow("optim.state.{param...}.{slot}", "optim.state.{param...}.{slot}", "model.");
    ///
    /// @param name, stored   Patterns with `{param...}`, which is the parameter's name in the state
    ///                       and in the checkpoint, and with the same other captures.
    /// @param prefix         What the parameters' names in the state begin with, and `{param...}`
    ///                       lacks. Others have nothing that follows them.
    /// @param stored_prefix  The same of their names in the checkpoint.
    CAIRN_DECL mapping& follow(std::string name, std::string stored, std::string prefix,
                               std::string stored_prefix);
    mapping& follow(std::string name, std::string stored, const std::string& prefix = {}) {
        return follow(std::move(name), std::move(stored), prefix, prefix);
    }

    /// Where others are left out, loads and saves refuse a line that is not optional and that no
    /// rank has a name for: a slip in its pattern would leave out what it is for.
    mapping& others(other_names what) noexcept {
        others_ = what;
        return *this;
    }
    /// Whether a save may store fewer bits of an element than the state has.
    mapping& allow_narrowing(bool yes = true) noexcept {
        narrowing_ = yes;
        return *this;
    }

    struct line {
        std::string name;
        map::expression made_of;
        bool optional = false;
    };
    struct follower {
        std::string name, stored, prefix, stored_prefix;
        friend bool operator==(const follower&, const follower&) = default;
    };
    std::span<const line> lines() const noexcept { return lines_; }
    std::span<const follower> followers() const noexcept { return followers_; }
    other_names others() const noexcept { return others_; }
    bool allows_narrowing() const noexcept { return narrowing_; }
    /// Whether it leaves every name and shape as it is.
    bool empty() const noexcept {
        return lines_.empty() && followers_.empty() && others_ == other_names::pass;
    }
    /// Whether quantised weights are needed as what they stand for.
    CAIRN_DECL bool dequantises() const noexcept;
    CAIRN_DECL friend bool operator==(const mapping& a, const mapping& b);

private:
    std::vector<line> lines_{};
    std::vector<follower> followers_{};
    other_names others_ = other_names::pass;
    bool narrowing_ = false;
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/mapping.ipp>
#endif

#endif
