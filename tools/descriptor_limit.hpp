// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_DESCRIPTOR_LIMIT_HPP
#define CAIRN_TOOLS_DESCRIPTOR_LIMIT_HPP

#include <sys/resource.h>

namespace tool {

/// Raises the limit of open descriptors to the maximum, for this process only.
class descriptor_limit {
public:
    descriptor_limit() {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        auto more = before_;
        more.rlim_cur = more.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &more);
    }
    void restore() const { ::setrlimit(RLIMIT_NOFILE, &before_); }

private:
    rlimit before_{};
};

}  // namespace tool

#endif
