// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_CHECKS_ON_THREADS_HPP
#define CAIRN_TEST_SUPPORT_CHECKS_ON_THREADS_HPP

// Included before everything else in every test program.
#include <boost/test/unit_test_log.hpp>

#include <cstddef>
#include <thread>

namespace support {

inline const std::thread::id main_thread = std::this_thread::get_id();

/// Each check of Boost.Test notes where it is in a string that all threads share, without a lock: a
/// race that has ended programs. Here only the main thread does.
inline void note_checkpoint(boost::unit_test::const_string file, std::size_t line) {
    if (std::this_thread::get_id() == main_thread)
        boost::unit_test::unit_test_log.set_checkpoint(file, line);
}

}  // namespace support

#undef BOOST_TEST_PASSPOINT
#define BOOST_TEST_PASSPOINT() \
    ::support::note_checkpoint(BOOST_TEST_L(__FILE__), static_cast<std::size_t>(__LINE__))

#endif
