// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_ERASED_PLANNER_HPP
#define CAIRN_PLANNER_ERASED_PLANNER_HPP

#include <cairn/planner/concepts.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

namespace detail {

/// A type-erased planner, for the untyped implementation of verbs. Same contract as its concept.
class erased_save_planner {
public:
    erased_save_planner() = default;
    erased_save_planner(erased_save_planner&&) = delete;

    virtual void set_up_save(const flat_state&, int rank, bool coordinator) = 0;
    virtual save_plan create_local_save_plan() = 0;
    virtual std::pair<std::vector<save_plan>, metadata> create_global_save_plan(
        std::vector<save_plan>) = 0;
    virtual save_plan finish_save_plan(save_plan) = 0;
    virtual item_data resolve_data(const write_item&) = 0;
    /// Nothing if the planner is no `KeyedSavePlanner`. Those of two types differ, in one process.
    virtual std::optional<std::string> plan_key() = 0;
    /// Nothing if the planner is no `JoiningSavePlanner`.
    virtual std::optional<replica_writer> joins() = 0;
    /// False if the planner is no `StateMemoryPlanner`.
    virtual bool needs_memory_spaces() = 0;

protected:
    ~erased_save_planner() = default;
};
class erased_load_planner {
public:
    erased_load_planner() = default;
    erased_load_planner(erased_load_planner&&) = delete;

    virtual void set_up_load(flat_state&, const metadata&, int rank, bool coordinator) = 0;
    virtual load_plan create_local_load_plan() = 0;
    virtual std::vector<load_plan> create_global_load_plan(std::vector<load_plan>) = 0;
    virtual load_plan finish_load_plan(load_plan) = 0;
    virtual tensor_view resolve_tensor(const read_item&) = 0;
    virtual void commit_tensor(const read_item&, tensor_view) = 0;
    /// Does nothing if the planner is not a `CheckingLoadPlanner`.
    virtual void check_value(const read_item&, const value&) = 0;
    virtual void load_value(const read_item&, value) = 0;
    /// None if the planner is no `TyingLoadPlanner`.
    virtual std::vector<stored_tie> ties() = 0;
    /// False if the planner is no `LocalLoadPlanner`.
    virtual bool items_stay_local() = 0;
    virtual load_report finish_load() = 0;
    /// False if the planner is no `StateMemoryPlanner`.
    virtual bool needs_memory_spaces() = 0;

protected:
    ~erased_load_planner() = default;
};

/// Its address stands for the type.
template <class P>
inline char planner_type = 0;

/// The erased form of a planner, while a verb runs.
template <SavePlanner P>
class save_planner_ref final : public erased_save_planner {
public:
    explicit save_planner_ref(P& to) : to_(to) {}

    void set_up_save(const flat_state& state, int rank, bool coordinator) override {
        to_.set_up_save(state, rank, coordinator);
    }
    save_plan create_local_save_plan() override { return to_.create_local_save_plan(); }
    std::pair<std::vector<save_plan>, metadata> create_global_save_plan(
        std::vector<save_plan> all) override {
        return to_.create_global_save_plan(std::move(all));
    }
    save_plan finish_save_plan(save_plan plan) override {
        return to_.finish_save_plan(std::move(plan));
    }
    item_data resolve_data(const write_item& item) override { return to_.resolve_data(item); }
    std::optional<std::string> plan_key() override {
        if constexpr (KeyedSavePlanner<P>) {
            if (auto key = to_.plan_key())
                return std::to_string(reinterpret_cast<std::uintptr_t>(&planner_type<P>)) + *key;
        }
        return {};
    }
    std::optional<replica_writer> joins() override {
        if constexpr (JoiningSavePlanner<P>) return to_.joins();
        return {};
    }
    bool needs_memory_spaces() override {
        if constexpr (StateMemoryPlanner<P>) return to_.needs_memory_spaces();
        return false;
    }

private:
    P& to_;
};
template <LoadPlanner P>
class load_planner_ref final : public erased_load_planner {
public:
    explicit load_planner_ref(P& to) : to_(to) {}

    void set_up_load(flat_state& state, const metadata& m, int rank, bool coordinator) override {
        to_.set_up_load(state, m, rank, coordinator);
    }
    load_plan create_local_load_plan() override { return to_.create_local_load_plan(); }
    std::vector<load_plan> create_global_load_plan(std::vector<load_plan> all) override {
        return to_.create_global_load_plan(std::move(all));
    }
    load_plan finish_load_plan(load_plan plan) override {
        return to_.finish_load_plan(std::move(plan));
    }
    tensor_view resolve_tensor(const read_item& item) override { return to_.resolve_tensor(item); }
    void commit_tensor(const read_item& item, tensor_view v) override {
        to_.commit_tensor(item, v);
    }
    void check_value(const read_item& item, const value& v) override {
        if constexpr (CheckingLoadPlanner<P>) to_.check_value(item, v);
    }
    void load_value(const read_item& item, value v) override { to_.load_value(item, std::move(v)); }
    std::vector<stored_tie> ties() override {
        if constexpr (TyingLoadPlanner<P>) return to_.ties();
        return {};
    }
    bool items_stay_local() override {
        if constexpr (LocalLoadPlanner<P>) return to_.items_stay_local();
        return false;
    }
    load_report finish_load() override { return to_.finish_load(); }
    bool needs_memory_spaces() override {
        if constexpr (StateMemoryPlanner<P>) return to_.needs_memory_spaces();
        return false;
    }

private:
    P& to_;
};

}  // namespace detail
}  // namespace cairn

#endif
