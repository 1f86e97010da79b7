// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_MAPPED_HPP
#define CAIRN_MAPPING_DETAIL_MAPPED_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/mapping/detail/evaluation.hpp>
#include <cairn/mapping/detail/expression.hpp>
#include <cairn/mapping/detail/name_list.hpp>
#include <cairn/mapping/detail/name_pattern.hpp>
#include <cairn/mapping/detail/piece.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::map::detail {

/// The tensors of a checkpoint.
CAIRN_DECL sources tensors_of(const metadata& m);

/// A tensor that is made of others. Elements of another dtype than its own are converted.
struct mapped_tensor {
    dtype type = dtype::float32;
    index_vector shape{};
    bool requires_grad = false;
    /// Disjoint. Of a load they cover it; of a save, what the state has of it.
    std::vector<piece> pieces{};
    /// Single numbers that must equal the source, by name: those of parameters that become one.
    std::vector<std::string> equals{};
    /// Of a save: a number that other names, which this rank may not have, become too.
    bool is_common = false;

    /// A tensor that it is made of; empty: there is none.
    std::string source_name() const {
        for (auto const& p : pieces)
            if (!p.is_constant()) return p.from->name;
        return {};
    }
};

/// A value that is another one under a new name.
struct mapped_value {
    std::string from{};
    std::vector<std::string> equals{};  ///< Values that must equal it.
};

/// What a mapping makes, in one direction: of a load, names of the state from stored ones; of a
/// save, the reverse.
struct mapped {
    /// What expressions make. Names that just pass through are in neither.
    std::map<std::string, mapped_tensor, std::less<>> tensors{};
    std::map<std::string, mapped_value, std::less<>> values{};
    /// Names on the other side that do not pass through: used by expressions, or left out. All
    /// others pass, under the same name, unless something is made under it.
    std::set<std::string, std::less<>> used{};
    /// Of a load: stored names that something is tied to, and that may pass themselves. Of a save:
    /// names of the state that are tied to stored ones.
    std::set<std::string, std::less<>> tied{};
    /// Of a load: stored names that nothing uses, but that lines make of others, if these are
    /// stored.
    std::set<std::string, std::less<>> hidden{};
    /// Of a load: names that are partly made of what cannot be read, and why that is.
    std::map<std::string, std::string, std::less<>> unreadable{};
    /// Of a load: names that are made of several stored ones, not all of which are there. Where
    /// these would tell how many names there are, a pattern of them.
    std::map<std::string, unmade_name, std::less<>> incomplete{};
    /// Of a load: names that are there only if the state has them; see `metadata::if_asked`.
    std::set<std::string, std::less<>> if_asked{};
    /// Of a load: lines that are not optional and match nothing that is stored.
    std::vector<std::size_t> idle{};

    /// Whether what the other side has under a name is here under the same name, as it is.
    bool passes(std::string_view name) const {
        return !used.contains(name) && !hidden.contains(name) && !tensors.contains(name) &&
               !values.contains(name);
    }
};

/// What is odd about a mapping of a checkpoint.
struct findings {
    std::vector<error> errors{};
    struct pair {
        std::string name{};
        std::size_t made_by = 0, also_by = 0;  ///< Lines.
    };
    std::vector<pair> twice{};  ///< Names that a later line could make too.
};

/// Applies a mapping to what is stored.
/// @throws error naming the name, the expression, shapes or dtypes: errc::shape_mismatch,
/// dtype_mismatch, kind_mismatch; errc::unsupported where shapes fit so badly that a tensor would
/// be in thousands of pieces
/// @param found  Not null: gets errors, instead of their being thrown, and more. What an error is
///               about is then not made.
CAIRN_DECL mapped to_state(const mapping& m, const metadata& stored, findings* found = nullptr);

class lines;

/// Why a mapping does not make some names of a checkpoint.
class unmade_names {
public:
    /// @param stored  Must outlive this.
    CAIRN_DECL unmade_names(const mapping& m, const metadata& stored);
    /// Returns nothing if the mapping has nothing to do with the name, or makes it of itself.
    CAIRN_DECL std::optional<unmade_name> find(const std::string& name);

    /// So often the nearest stored name is searched for: there may be thousands of names, and each
    /// would be compared with all stored ones.
    static constexpr std::size_t most_searches = 16;

private:
    CAIRN_DECL unmade_name described(const expression& e, const captures& bound);

    std::vector<expression> made_of_{};
    std::shared_ptr<const lines> lines_;
    bool leaves_out_others_;
    const metadata& stored_;
    name_list names_{};
    std::size_t searches_ = 0;
};

struct tensor_type {
    dtype type = dtype::float32;
    index_vector shape{};
};
/// By name; none: a value.
using state_types = std::map<std::string, std::optional<tensor_type>, std::less<>>;

/// Applies a mapping backwards, to what is saved.
/// @param state  All names of the state, tensors with their global shapes.
/// @param all_names  Whether these are the names of all ranks. Otherwise stored tensors may have
///                   elements that other ranks have, and the plan shows which are missing.
/// @throws error as above; errc::unsupported for what a save would lose, errc::invalid_argument
/// for a shape that nothing tells, both with the remedy
CAIRN_DECL mapped to_stored(const mapping& m, const state_types& state, bool all_names = true);

}  // namespace cairn::map::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/to_state.ipp>
#include <cairn/mapping/impl/to_stored.ipp>
#include <cairn/mapping/impl/unmade_names.ipp>
#endif

#endif
