// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_S3_SRC_HPP
#define CAIRN_OBJECT_STORE_S3_SRC_HPP

// The definitions that `CAIRN_SEPARATE_COMPILATION` leaves out of the headers for S3. They are not
// in `cairn/src.hpp`: one file of a program that uses S3 includes this header, too, and the program
// is linked with libcurl and OpenSSL.
#include <cairn/detail/config.hpp>

#ifndef CAIRN_SEPARATE_COMPILATION
#error cairn/object_store/s3_src.hpp is for programs compiled with -DCAIRN_SEPARATE_COMPILATION
#endif

#include <cairn/object_store/impl/s3/aws_environment.ipp>
#include <cairn/object_store/impl/s3/client.ipp>
#include <cairn/object_store/impl/s3/conditional.ipp>
#include <cairn/object_store/impl/s3/container_credentials.ipp>
#include <cairn/object_store/impl/s3/credential_source.ipp>
#include <cairn/object_store/impl/s3/failure.ipp>
#include <cairn/object_store/impl/s3/find_credentials.ipp>
#include <cairn/object_store/impl/s3/handles.ipp>
#include <cairn/object_store/impl/s3/http.ipp>
#include <cairn/object_store/impl/s3/https.ipp>
#include <cairn/object_store/impl/s3/instance_credentials.ipp>
#include <cairn/object_store/impl/s3/listing.ipp>
#include <cairn/object_store/impl/s3/profile.ipp>
#include <cairn/object_store/impl/s3/removal.ipp>
#include <cairn/object_store/impl/s3/service_answer.ipp>
#include <cairn/object_store/impl/s3/settings.ipp>
#include <cairn/object_store/impl/s3/sigv4.ipp>
#include <cairn/object_store/impl/s3/store.ipp>
#include <cairn/object_store/impl/s3/upload.ipp>
#include <cairn/object_store/impl/s3/upload_pool.ipp>
#include <cairn/object_store/impl/s3/uri.ipp>
#include <cairn/object_store/impl/s3/utc_time.ipp>
#include <cairn/object_store/impl/s3/web_identity.ipp>
#include <cairn/object_store/impl/s3/xml.ipp>

#endif
