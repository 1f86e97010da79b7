// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_BUCKET_HPP
#define CAIRN_TEST_SIMULATION_BUCKET_HPP

#include "storage_client.hpp"

#include <cairn/object_store/s3.hpp>

#include <memory>

namespace simulation {

/// cairn's store of a bucket, as one process has it. Its requests take simulated time, and reach
/// what `storage_server` has; they and their answers may be lost.
std::shared_ptr<cairn::s3_store> make_bucket(storage_client& c);

}  // namespace simulation

#endif
