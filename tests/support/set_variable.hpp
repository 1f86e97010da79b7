// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_SET_VARIABLE_HPP
#define CAIRN_TEST_SUPPORT_SET_VARIABLE_HPP

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace support {

/// Sets an environment variable of this process while it lives.
class set_variable {
public:
    set_variable(std::string name, const std::string& value) : name_(std::move(name)) {
        if (auto const* const old = std::getenv(name_.c_str())) old_ = old;
        ::setenv(name_.c_str(), value.c_str(), 1);
    }
    set_variable(set_variable&&) = delete;
    ~set_variable() {
        if (old_)
            ::setenv(name_.c_str(), old_->c_str(), 1);
        else
            ::unsetenv(name_.c_str());
    }

private:
    std::string name_;
    std::optional<std::string> old_{};
};

}  // namespace support

#endif
