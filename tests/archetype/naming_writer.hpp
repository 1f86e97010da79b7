// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_NAMING_WRITER_HPP
#define CAIRN_TESTS_ARCHETYPE_NAMING_WRITER_HPP

#include "storage_writer.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// The least that `NamingWriter` asks for beyond `StorageWriter`, and near misses.
namespace cairn::archetype {

/// Names no files: it has a shelf.
class naming_writer : public storage_writer {
public:
    explicit naming_writer(std::shared_ptr<shelf> to) : storage_writer(std::move(to)) {}

    std::vector<std::string> name_files(std::span<const stored_amount> stored) {
        return std::vector<std::string>(stored.size());
    }
};
static_assert(NamingWriter<naming_writer>);

struct writer_names_nothing : storage_writer {};
struct writer_names_by_plans : storage_writer {
    std::vector<std::string> name_files(std::span<const save_plan>);
};
struct writer_names_for_one : storage_writer {
    std::string name_files(std::span<const stored_amount>);
};
struct writer_names_without_result : storage_writer {
    void name_files(std::span<const stored_amount>);
};
static_assert(!NamingWriter<writer_names_nothing> && !NamingWriter<writer_names_by_plans>);
static_assert(!NamingWriter<writer_names_for_one> && !NamingWriter<writer_names_without_result>);

}  // namespace cairn::archetype

#endif
