// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_MAPPING_STORED_SAMPLES_HPP
#define CAIRN_TESTS_MAPPING_STORED_SAMPLES_HPP

#include <cairn/error.hpp>
#include <cairn/mapping/detail/mapped.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <initializer_list>
#include <string>
#include <utility>

namespace mapping_samples {

/// Metadata with float32 tensors.
inline cairn::metadata stored(
    std::initializer_list<std::pair<const char*, cairn::index_vector>> tensors,
    std::initializer_list<const char*> values = {}) {
    cairn::metadata m;
    for (auto const& [name, shape] : tensors)
        m.entries.emplace(
            name, cairn::tensor_metadata{
                      cairn::dtype::float32, shape, false, {{cairn::box::whole(shape), {}}}});
    for (auto const* name : values) m.entries.emplace(name, cairn::value_metadata());
    return m;
}

/// A state of float32 tensors; a shape of {-1} is a value.
inline cairn::map::detail::state_types state(
    std::initializer_list<std::pair<const char*, cairn::index_vector>> tensors) {
    cairn::map::detail::state_types all;
    for (auto const& [name, shape] : tensors) {
        auto& type = all[name];
        if (shape != cairn::index_vector{-1})
            type = cairn::map::detail::tensor_type{cairn::dtype::float32, shape};
    }
    return all;
}

/// The text of the error that `f` throws, which has this code.
template <class F>
std::string error_of(cairn::errc code, F&& f) {
    try {
        f();
    } catch (const cairn::error& e) {
        if (e.code() == code) return e.what();
        return "another error: " + std::string(e.what());
    }
    return "no error";
}

inline bool has(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

}  // namespace mapping_samples

#endif
