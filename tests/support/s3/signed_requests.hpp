// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_SIGNED_REQUESTS_HPP
#define CAIRN_TEST_SUPPORT_S3_SIGNED_REQUESTS_HPP

#include <cairn/object_store/detail/s3/checksum.hpp>
#include <cairn/object_store/detail/s3/request.hpp>
#include <cairn/object_store/detail/s3/settings.hpp>
#include <cairn/object_store/detail/s3/sigv4.hpp>
#include <cairn/object_store/detail/s3/uri.hpp>

/// Requests as cairn signs them, for what sends them in its own way: what a benchmark compares with
/// must pay for the same signatures.
namespace signed_requests = cairn::detail::s3;

#endif
