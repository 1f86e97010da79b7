// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_VERIFY_IPP
#define CAIRN_CATALOG_IMPL_VERIFY_IPP

#include <cairn/catalog/verify.hpp>

#include <cairn/catalog/detail/verification.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace cairn::detail {

CAIRN_DECL verify_report verify(erased_store place,
                                const std::function<void(std::uint64_t bytes)>& progress,
                                std::string metadata_file) {
    verification v(std::move(place),
                   {.metadata_file = std::move(metadata_file), .progress = progress});
    v.run();
    return {v.findings(), v.damaged(), v.not_checked(), v.torch_metadata(),
            v.files(),    v.items(),   v.bytes()};
}

}  // namespace cairn::detail

#endif
