// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"
#include "json.hpp"
#include "mapping.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

using cairn::terminal_text;

namespace {

/// Whether a place without `.metadata` is a model itself, as Hugging Face's libraries name its
/// files, whatever is below: they also write checkpoints there.
bool has_model(cairn::any_store& place) {
    std::vector<cairn::object_info> all;
    try {
        all = place.list();
    } catch (const cairn::error&) {  // there is no such place, or the store cannot list any
    }
    return std::any_of(all.begin(), all.end(), [](const cairn::object_info& info) {
        std::string_view const n = info.name;
        return n.find('/') == n.npos &&
               (n.ends_with("model.safetensors") || n.ends_with(".safetensors.index.json") ||
                n.ends_with(".bin.index.json"));
    });
}
/// Whether a place may be a directory of checkpoints.
bool may_be_many(const std::string& named) {
    if (is_url(named) ? is_file(named) : !std::filesystem::is_directory(named)) return false;
    auto place = store_of(named).at(named);
    return place.tag(".metadata").text.empty() && !has_model(place);
}

}  // namespace

int ls(const std::string& checkpoint, bool as_json, const std::string& map) {
    if (map.empty() && may_be_many(checkpoint))
        if (auto const code = list_directory(checkpoint, as_json); code != could_not_run)
            return code;
    auto const m = map.empty() ? read_metadata(checkpoint) : mapped_of(checkpoint, map);
    bool first = true;
    if (as_json) std::cout << "[";
    for (auto const& [fqn, entry] : m.entries) {
        std::set<std::string> files;
        std::optional<std::uint64_t> bytes = 0;
        std::size_t chunks = 0;
        std::string type = "value", shape;
        if (auto const* t = std::get_if<cairn::tensor_metadata>(&entry)) {
            type = cairn::name_of(t->type);
            shape = to_string(t->shape);
            chunks = t->chunks.size();
            bytes = static_cast<std::uint64_t>(t->shape.product()) * cairn::size_of(t->type);
            for (auto const& c : t->chunks)
                if (!c.at.file.empty()) files.insert(c.at.file);
        } else {
            auto const& v = std::get<cairn::value_metadata>(entry);
            bytes = bytes_of(m, v);
            files.insert(v.at.file);
        }
        if (!as_json) {
            std::cout << terminal_text(fqn) << "  " << type;
            if (!shape.empty())
                std::cout << ' ' << shape << "  " << chunks << (chunks == 1 ? " chunk" : " chunks");
            if (bytes) std::cout << "  " << *bytes << " bytes";
            std::cout << ' ';
            for (auto const& f : files) std::cout << ' ' << terminal_text(f);
            std::cout << '\n';
            continue;
        }
        std::cout << (first ? "\n" : ",\n") << " {\"fqn\": " << json_string(fqn) << ", \"kind\": "
                  << (shape.empty()
                          ? "\"value\""
                          : "\"tensor\", \"dtype\": " + json_string(type) +
                                ", \"shape\": " + shape + ", \"chunks\": " + std::to_string(chunks))
                  << ", \"bytes\": " << (bytes ? std::to_string(*bytes) : "null")
                  << ", \"files\": [";
        bool first_file = true;
        for (auto const& f : files) {
            std::cout << (first_file ? "" : ", ") << json_string(f);
            first_file = false;
        }
        std::cout << "]}";
        first = false;
    }
    for (auto const& [fqn, t] : m.unsupported) {
        if (as_json)
            std::cout << (first ? "\n" : ",\n") << " {\"fqn\": " << json_string(fqn)
                      << ", \"kind\": \"unsupported\", \"dtype\": " << json_string(t.type)
                      << ", \"shape\": " << to_string(t.shape) << "}";
        else
            std::cout << terminal_text(fqn) << "  " << terminal_text(t.type) << ' '
                      << to_string(t.shape) << "  unsupported\n";
        first = false;
    }
    if (as_json)
        std::cout << "\n]\n";
    else if (map.empty() && !m.save_id.empty() && !read_save_facts(checkpoint).torch_metadata)
        std::cout << only_cairn;
    return fine;
}

}  // namespace tool
