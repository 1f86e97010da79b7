// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_EXPRESSION_HPP
#define CAIRN_MAPPING_DETAIL_EXPRESSION_HPP

#include <cairn/detail/config.hpp>

#include <memory>
#include <string>
#include <utility>

namespace cairn::map {

namespace detail {
struct node;
}

/// How a tensor is made of stored ones. An immutable value; copies share their content, and may be
/// used by different threads.
class expression {
public:
    explicit expression(std::shared_ptr<const detail::node> n) noexcept : node_(std::move(n)) {}
    const detail::node& node() const noexcept { return *node_; }
    CAIRN_DECL friend bool operator==(const expression& a, const expression& b);

private:
    std::shared_ptr<const detail::node> node_;
};

/// Returns the text form, e.g. `transpose("h.{i}.w")`. See `cairn/mapping/text.hpp`.
CAIRN_DECL std::string to_string(const expression& e);

}  // namespace cairn::map

#endif
