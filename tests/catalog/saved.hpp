// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_CATALOG_SAVED_HPP
#define CAIRN_TEST_CATALOG_SAVED_HPP

#include "support/data_files.hpp"
#include "support/dying_store.hpp"
#include "support/scratch.hpp"
#include "support/whole.hpp"

#include <cairn/checkpointer.hpp>
#include <cairn/object_store/read_whole.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace catalog {

namespace fs = std::filesystem;

/// Saves these steps in this order, each with its number; all are kept.
template <class Store>
void save_steps(Store store, const std::vector<std::int64_t>& steps,
                cairn::checkpointer_options o = {}) {
    cairn::checkpointer ckpt(cairn::solo(), std::move(store), std::move(o));
    for (auto const step : steps) {
        std::vector<float> w(8, static_cast<float>(step));
        cairn::state_dict state{{"w", w}, {"step", step}};
        (void)ckpt.save_now(step, state);
        (void)ckpt.wait();
    }
}

/// A directory of checkpoints.
struct place {
    support::scratch scratch{};
    fs::path dir = scratch.dir / "ckpt";

    cairn::any_store store() const { return cairn::any_store(cairn::file_store(dir)); }
    fs::path at(std::int64_t step) const { return dir / ("step_" + std::to_string(step)); }
    /// The name of its data file; a name of none, if it has none.
    std::string data(std::int64_t step) const {
        if (!fs::exists(at(step))) return "none";
        for (auto const& e : fs::directory_iterator(at(step)))
            if (support::is_data_file(e.path().filename().string(), "__0_0"))
                return e.path().filename().string();
        return "none";
    }
    /// Whether the checkpoint exists, and is what was saved.
    bool stands(std::int64_t step) const {
        if (!fs::exists(at(step) / ".metadata")) return false;
        auto const w = support::load_whole(cairn::file_store(), at(step).string());
        return support::only_number(w.tensors.at("w")) == static_cast<float>(step);
    }
    /// All names below the directory.
    std::set<std::string> names() const {
        std::set<std::string> all;
        if (!fs::exists(dir)) return all;
        for (auto const& e : fs::recursive_directory_iterator(dir))
            all.insert(fs::relative(e.path(), dir).string());
        return all;
    }
    std::set<std::string> names_of(std::initializer_list<std::int64_t> steps) const {
        std::set<std::string> all;
        for (auto const s : steps)
            for (auto const& file : {std::string(), std::string("/.metadata"), "/" + data(s)})
                all.insert("step_" + std::to_string(s) + file);
        return all;
    }
    /// Changes a byte of a file: of a tensor, if it is a data file.
    void damage(std::int64_t step, const std::string& name) const {
        cairn::file_store here(at(step));
        auto bytes = cairn::read_whole(here, name);
        auto where = bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2);
        if (name != ".metadata") {
            auto const number = static_cast<float>(step);
            auto const raw = std::as_bytes(std::span(std::addressof(number), 1));
            where = std::search(bytes.begin(), bytes.end(), raw.begin(), raw.end());
        }
        if (where == bytes.end()) throw std::runtime_error("nothing to damage");
        *where ^= std::byte{1};
        here.publish(name, bytes, std::nullopt);
    }
};

}  // namespace catalog

#endif
