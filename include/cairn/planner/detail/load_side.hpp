// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_LOAD_SIDE_HPP
#define CAIRN_PLANNER_DETAIL_LOAD_SIDE_HPP

#include <cairn/detail/failures.hpp>
#include <cairn/metadata/detail/entry_cursor.hpp>
#include <cairn/metadata/detail/scales.hpp>
#include <cairn/planner/detail/load_problems.hpp>
#include <cairn/planner/detail/save_side.hpp>
#include <cairn/planner/detail/tied_leaves.hpp>
#include <cairn/planner/detail/unexpected_keys.hpp>
#include <cairn/planner/detail/whole_values.hpp>
#include <cairn/planner/options.hpp>
#include <cairn/planner/report.hpp>
#include <cairn/planner/reshard.hpp>
#include <cairn/state/detail/copy_leaf.hpp>
#include <cairn/state/detail/numbers.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The loading half of the default planner.
class load_side {
public:
    explicit load_side(const planner_options& o) : options_(std::addressof(o)) {}

    void set_up(flat_state& state, const metadata& m, int rank) {
        state_ = &state;
        for (auto& leaf : state) {  // of an attempt with another checkpoint
            if (leaf.own) leaf.what = *std::exchange(leaf.own, nullptr);
            if (auto* t = leaf.tensor(); t != nullptr && t->number)
                t->number->memory = t->number->known;
        }
        stored_ = &m;
        entry_of_.clear();
        rank_ = rank;
        report_ = {};
        tied_.reset();
        older_.clear();
        in_parts_.reset();
        problems_.clear();
        take_whole_values(state, m);
    }

    /// @throws error for the first of the problems that `report()` lists, stating their number.
    load_plan create_local() {
        load_plan plan;
        plan.items.reserve(state_->size());
        entry_of_.assign(state_->size(), nullptr);
        std::set<std::string> asked;
        entry_cursor entries(*stored_);
        for (std::uint32_t i = 0; i < state_->size(); ++i) {
            auto const& leaf = (*state_)[i];
            auto const name = find_entry(i, entries);
            auto const* const entry = entry_of_[i];
            asked.insert(asked.end(), name);
            if (leaf.per_rank()) asked.merge(saved(leaf.fqn).keys);
            if (entry == nullptr) {
                if (!add_older(plan, leaf, i, asked)) add_missing(leaf, name);
                continue;
            }
            take_other_kind((*state_)[i], entry->second);
            if (auto const* t = leaf.tensor()) {
                auto const before = plan.items.size();
                auto const* stored = std::get_if<tensor_metadata>(&entry->second);
                auto const* first = stored == nullptr ? nullptr : tied_.first_of(name, *t, *stored);
                if (first == nullptr || !first->is_stored_as(*stored)) {
                    std::vector<read_item> items;
                    if (fits(leaf, *t, name, stored)) {
                        try {
                            items = create_read_items(name, i, stored->chunks, regions_of(*t));
                        } catch (const error& e) {
                            problems_.add(errc::missing_key, e.context());
                        }
                    }
                    if (first != nullptr)
                        tied_.add(*first, name, *stored, items);
                    else
                        std::move(items.begin(), items.end(), std::back_inserter(plan.items));
                }
                if (plan.items.size() == before) plan.no_items.push_back(name);
            } else {
                add_value(plan, *leaf.value(), name, entry->second, i);
            }
        }
        auto next = asked.begin();
        for (auto const& [fqn, entry] : stored_->entries) {
            while (next != asked.end() && *next < fqn) ++next;
            if ((next == asked.end() || *next != fqn) && !stored_->if_asked.contains(fqn))
                report_.unexpected.push_back(fqn);
        }
        for (auto const& [a, b] : tied_.overlaps())
            report_.warnings.push_back("'" + a + "' and '" + b +
                                       "' share memory of the state in different forms: where the "
                                       "checkpoint has different content for them, either remains");
        for (auto const& fqn : stored_->hidden)
            report_.warnings.push_back("'" + fqn +
                                       "' of the checkpoint is not loaded: the mapping makes "
                                       "something else under this name");
        if (!problems_.empty()) problems_.refuse();
        plan.planner_data = unexpected_keys(report_.unexpected, *stored_).of_rank();
        return plan;
    }

    /// Adds the keys that no rank asked for to each rank's plan. With `strict`, such a key is an
    /// error.
    std::vector<load_plan> create_global(std::vector<load_plan> all) const {
        unexpected_keys unexpected(report_.unexpected, *stored_);
        unexpected.keep_those_of_all(all);
        auto const& unsupported = stored_->unsupported;  // a state that asks for one is refused
        auto const& hidden = stored_->hidden;
        auto const count = unexpected.size() + unsupported.size() + hidden.size();
        if (options_->strict && count != 0)
            throw error(
                errc::unexpected_key,
                {.fqn = !unexpected.empty()    ? unexpected.first()
                        : !unsupported.empty() ? unsupported.begin()->first
                                               : *hidden.begin(),
                 .expected = "no key that the state does not hold",
                 .found = std::to_string(count) + " of them",
                 .remedy = "do not set load_options::planner.strict, or add the key to the state"});
        auto const data = unexpected.of_all();
        for (auto& p : all) p.planner_data = data;
        return all;
    }
    load_plan finish_plan(load_plan plan) {
        // Not if another planner has made the global plan.
        unexpected_keys::receive(plan.planner_data, *stored_, report_.unexpected);
        return plan;
    }

    /// Returns the user's own memory, of any dtype.
    tensor_view resolve(const read_item& item) const {
        auto const* t = item.leaf < state_->size() ? (*state_)[item.leaf].tensor() : nullptr;
        if (t == nullptr || item.kind == item_kind::value || stored_tensor(item) == nullptr ||
            item.shard_index >= t->shards.size() || !t->shards[item.shard_index].writable)
            refuse(item, "tensor");
        return subview(t->shards[item.shard_index].target_view(),
                       box(item.target_offsets, item.shape));
    }
    const std::vector<stored_tie>& ties() const noexcept { return tied_.ties(); }

    void check_value(const read_item& item, const value& v) const {
        naming(item.fqn, shown_if_opaque(v), [&] {
            std::vector<std::string> missing;
            if (auto const it = older_.find(item.leaf); it == older_.end()) {
                if (auto const& check = value_of(item).check) check(v);
            } else if (it->second->check) {
                it->second->check(v, options_->partial ? &missing : nullptr);
            }
        });
    }
    void load_value(const read_item& item, value v) {
        naming(item.fqn, shown_if_opaque(v), [&] {
            auto const it = older_.find(item.leaf);
            if (it == older_.end()) return value_of(item).set(std::move(v));
            std::vector<std::string> missing;
            it->second->set(v, options_->partial ? &missing : nullptr);
            for (auto const& name : missing) report_.missing.push_back(item.fqn + "." + name);
        });
    }

    const load_report& report() const noexcept { return report_; }

private:
    [[noreturn]] static void refuse(const read_item& item, const char* wanted) {
        throw error(
            errc::invalid_plan,
            {.fqn = item.fqn,
             .expected = std::string("an item for a ") + wanted + " of the state and checkpoint",
             .found = (item.kind == item_kind::value ? "a value for leaf " : "a tensor for leaf ") +
                      std::to_string(item.leaf) + ", shard " + std::to_string(item.shard_index)});
    }
    /// Null if the checkpoint has no such tensor: plans may come from another planner.
    const tensor_metadata* stored_tensor(const read_item& item) const {
        auto const* const e = item.leaf < entry_of_.size() ? entry_of_[item.leaf] : nullptr;
        if (e == nullptr || e->first != item.fqn) return stored_->tensor(item.fqn);
        return std::get_if<tensor_metadata>(&e->second);
    }
    const value_leaf& value_of(const read_item& item) const {
        auto const* o = item.leaf < state_->size() ? (*state_)[item.leaf].value() : nullptr;
        if (o == nullptr || !o->set) refuse(item, "value");
        return *o;
    }

    static std::string shown_if_opaque(const value& v) {
        return v.is<value::opaque_t>() ? shown(v) : std::string();
    }
    /// Adds the value, and a type that would hold it, to the error of a value that does not fit.
    /// @param opaque  What the value is, if cairn does not know it; otherwise empty.
    template <class F>
    static void naming(const std::string& fqn, const std::string& opaque, F&& f) {
        try {
            f();
        } catch (const error& e) {
            auto where = e.context();
            if (where.fqn.empty()) where.fqn = fqn;
            if (where.remedy.empty() && e.code() == make_error_code(errc::value_mismatch))
                where.remedy = "load it into a variable of a type that holds it";
            if (opaque.empty()) throw error(e.code(), std::move(where));
            // The type's own remedy does not apply to a value that it cannot know.
            where.found = opaque;
            where.remedy = "a cairn::value keeps it as it is stored";
            throw error(errc::unsupported, std::move(where));
        } catch (const std::bad_alloc&) {
            throw;
        } catch (...) {  // from the user's value_traits
            throw error(errc::rank_failed,
                        {.fqn = fqn, .found = text_of(std::current_exception())});
        }
    }

    /// Returns under which name a leaf is looked for, or found, and notes what is stored there.
    std::string find_entry(std::uint32_t i, entry_cursor& entries) {
        auto const& leaf = (*state_)[i];
        auto name = leaf.per_rank() ? per_rank_name(leaf.fqn, source_of(leaf.fqn)) : leaf.fqn;
        auto it = entries.find(name);
        for (auto const& other : leaf.other_names)
            if (it == entries.end()) it = entries.find(other);
        if (it == entries.end()) return name;
        entry_of_[i] = std::addressof(*it);
        return it->first;
    }
    static std::vector<box> regions_of(const tensor_leaf& t) {
        std::vector<box> all;
        for (auto const& s : t.shards) all.push_back(s.region);
        return all;
    }

    void add_missing(const flat_leaf& leaf, const std::string& name) {
        if (auto const u = stored_->unsupported.find(name); u != stored_->unsupported.end())
            return problems_.add(errc::unsupported,
                                 {.fqn = name,
                                  .expected = "a tensor that this version of cairn reads",
                                  .found = u->second.type});
        auto const unmade = stored_->unmade.find(name);
        if (unmade != stored_->unmade.end() && unmade->second.of.empty()) return;  // left out
        report_.missing.push_back(name);
        if (unmade != stored_->unmade.end() && options_->partial)
            report_.warnings.push_back("'" + name + "' is missing: the mapping makes it of " +
                                       unmade->second.of + ", found " + unmade->second.found);
        if (!options_->partial && (leaf.value() == nullptr || !leaf.value()->optional))
            problems_.add_missing(name, leaf.per_rank() ? saved(leaf.fqn).ranks : 0, *stored_);
    }
    /// Whether a tensor can be loaded from what is stored; notes what keeps it from that.
    /// @param stored  Null: a value.
    bool fits(const flat_leaf& leaf, const tensor_leaf& t, const std::string& name,
              const tensor_metadata* stored) {
        check_shards(leaf.fqn, t);
        if (stored == nullptr) return wrong_kind(name, "a tensor", "a value"), false;
        if (!t.writable) return read_only(name, "memory to load into", "a const tensor"), false;
        try {
            check_target(name, t);
        } catch (const error& e) {
            problems_.add(errc::invalid_state, e.context());
            return false;
        }
        if (stored->shape != t.global_shape) {
            report_.shapes.push_back({name, stored->shape, t.global_shape});
            problems_.add(errc::shape_mismatch,
                          {.fqn = name,
                           .expected = to_string(t.global_shape) + " as in the state",
                           .found = to_string(stored->shape) + " in the checkpoint"});
            return false;
        }
        if (t.shards.empty()) return true;
        if (holds_weights(t.type))
            if (auto const codes = codes_of(*stored_, name, stored->type)) {
                report_.dtypes.push_back({name, codes->type, t.type});
                problems_.add(
                    errc::dtype_mismatch,
                    {.fqn = name,
                     .expected = "weights that can become " + std::string(name_of(t.type)) +
                                 " as in the state",
                     .found = std::string(name_of(codes->type)) + " codes with scales, '" +
                              codes->scales + "'",
                     .remedy = codes->type != stored->type
                                   ? "use dequantise in the mapping, or leave the cast out"
                                   : "for FP8, MXFP4 and NVFP4 pass a dequantising_reader; "
                                     "otherwise have the state hold the stored dtype"});
                return false;
            }
        if (stored->type != t.type) {
            dtype_difference const d{name, stored->type, t.type};
            if (options_->dtypes == dtype_policy::refuse || !can_convert(stored->type, t.type)) {
                report_.dtypes.push_back(d);
                problems_.add(errc::dtype_mismatch,
                              {.fqn = name,
                               .expected = std::string(name_of(t.type)) + " as in the state",
                               .found = std::string(name_of(stored->type)) + " in the checkpoint",
                               .remedy = "ask for dtype_policy::convert"});
                return false;
            }
            report_.converted.push_back(d);
        }
        return true;
    }

    void add_value(load_plan& plan, const value_leaf& o, const std::string& name,
                   const std::variant<tensor_metadata, value_metadata>& entry,
                   std::uint32_t index) {
        if (std::holds_alternative<tensor_metadata>(entry))
            return wrong_kind(name, "a value", "a tensor");
        if (!o.set) return read_only(name, "a value to load into", "a const value");
        read_item i;
        i.fqn = name;
        i.kind = item_kind::value;
        i.leaf = index;
        plan.items.push_back(std::move(i));
    }

    /// A checkpoint of PyTorch 2.3 or older has one value for this leaf and others; DCP's
    /// DefaultLoadPlanner looks for its keys too if today's are missing.
    ///
    /// The outermost one that is stored is used, unless one of its leaves is stored under its own
    /// name: so no two items fill one leaf, whatever the checkpoint contains.
    /// @return Whether there is such a value: the first of its leaves then requests it.
    bool add_older(load_plan& plan, const flat_leaf& leaf, std::uint32_t index,
                   std::set<std::string>& asked) {
        if (!leaf.older) return false;
        const older_leaf* found = nullptr;
        for (auto const* o = leaf.older.get(); o != nullptr; o = o->outer.get())
            if (stored_->entries.count(o->fqn) != 0 && !in_parts(*o)) found = o;
        if (found == nullptr) return false;
        auto const name = found->fqn;
        if (!asked.insert(name).second && leaf.value()->set) return true;
        auto const before = plan.items.size();
        add_value(plan, *leaf.value(), name, stored_->entries.find(name)->second, index);
        if (plan.items.size() != before) older_.emplace(index, found);
        return true;
    }
    /// Whether one of the leaves of an older value is stored under its own name.
    bool in_parts(const older_leaf& whole) {
        if (!in_parts_) {
            in_parts_.emplace();
            for (auto const& leaf : *state_) {
                if (!leaf.older || stored_->entries.count(leaf.fqn) == 0) continue;
                for (auto const* o = leaf.older.get(); o != nullptr; o = o->outer.get())
                    in_parts_->insert(o);
            }
        }
        return in_parts_->count(&whole) != 0;
    }
    /// Returns the rank whose per-rank leaf this rank loads.
    int source_of(const std::string& name) const {
        if (!options_->per_rank_source) return rank_;
        auto const ranks = saved(name).ranks;
        return ranks == 0 ? rank_ : options_->per_rank_source(rank_, ranks);
    }
    /// The entries that ranks saved as their own under a name.
    struct own_entries {
        std::set<std::string> keys{};
        int ranks = 0;  ///< How many saved one, if these are the ranks from 0 on.
    };
    /// A state that has one rank's entry also accounts for those of ranks that no longer exist, and
    /// need not load them.
    own_entries saved(const std::string& name) const {
        own_entries all;
        auto const prefix = name + ".";
        for (auto it = stored_->entries.lower_bound(prefix);
             it != stored_->entries.end() && it->first.starts_with(prefix); ++it) {
            int rank = 0;
            auto const* const last = it->first.data() + it->first.size();
            auto const [end, problem] =
                std::from_chars(it->first.data() + prefix.size(), last, rank);
            if (problem != std::errc() || end != last || rank < 0 || rank == INT_MAX) continue;
            all.keys.insert(all.keys.end(), it->first);
            all.ranks = std::max(all.ranks, rank + 1);
        }
        return all;
    }

    /// Lets a number of the state that is stored as a tensor of one element be loaded as one, and
    /// the reverse.
    static void take_other_kind(flat_leaf& leaf,
                                const std::variant<tensor_metadata, value_metadata>& entry) {
        auto const* stored = std::get_if<tensor_metadata>(&entry);
        if (auto const* v = leaf.value(); v != nullptr && stored != nullptr && v->set) {
            if (auto as_tensor = number_as_tensor(*v, stored->type, stored->shape))
                become(leaf, std::move(*as_tensor));
        } else if (auto const* t = leaf.tensor(); t != nullptr && stored == nullptr) {
            if (auto as_value = tensor_as_number(*t)) become(leaf, std::move(*as_value));
        }
    }
    static void become(flat_leaf& leaf, decltype(flat_leaf::what) other) {
        std::swap(leaf.what, other);
        leaf.own = std::make_shared<const decltype(flat_leaf::what)>(std::move(other));
    }

    void wrong_kind(const std::string& name, const std::string& wanted, const std::string& stored) {
        report_.kinds.push_back(name);
        problems_.add(errc::kind_mismatch, {.fqn = name,
                                            .expected = wanted + " as in the state",
                                            .found = stored + " in the checkpoint"});
    }

    void read_only(const std::string& name, const char* wanted, const char* found) {
        report_.read_only.push_back(name);
        problems_.add(errc::invalid_state, {.fqn = name, .expected = wanted, .found = found});
    }

    const planner_options* options_;
    flat_state* state_ = nullptr;
    const metadata* stored_ = nullptr;
    /// For each leaf, the entry that `create_local` has found; null: none.
    std::vector<decltype(metadata::entries)::const_pointer> entry_of_;
    int rank_ = 0;
    load_report report_;
    std::map<std::uint32_t, const older_leaf*> older_;  ///< Keyed by leaf: what its item fills.
    std::optional<std::set<const older_leaf*>> in_parts_;
    load_problems problems_;
    tied_leaves tied_;
};

}  // namespace cairn::detail

#endif
