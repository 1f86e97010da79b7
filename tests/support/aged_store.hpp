// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_AGED_STORE_HPP
#define CAIRN_TEST_SUPPORT_AGED_STORE_HPP

#include <cairn/object_store/file.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// Data files seem so much older than they are: by when they were modified, and changed.
struct aged_store : cairn::file_store {
    aged_store(cairn::file_store s, std::chrono::hours m, std::chrono::hours c)
        : file_store(std::move(s)), modified(m), changed(c) {}
    aged_store at(const std::string& id) const { return {file_store::at(id), modified, changed}; }
    std::vector<cairn::object_info> list() {
        auto all = file_store::list();
        for (auto& o : all) {
            if (o.name.front() == '.') continue;
            o.modified -= std::chrono::nanoseconds(modified).count();
            o.changed -= std::chrono::nanoseconds(changed).count();
        }
        return all;
    }
    std::chrono::hours modified, changed;
};

}  // namespace support

#endif
