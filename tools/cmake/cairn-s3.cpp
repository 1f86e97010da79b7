// SPDX-License-Identifier: Apache-2.0
#include <cairn/object_store/s3_src.hpp>
