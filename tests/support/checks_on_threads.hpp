// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_CHECKS_ON_THREADS_HPP
#define CAIRN_TEST_SUPPORT_CHECKS_ON_THREADS_HPP

// Included before everything else in every test program.
#include <boost/test/test_tools.hpp>
#include <boost/test/unit_test_log.hpp>

#include <cstddef>
#include <mutex>
#include <thread>

/// Boost.Test's checks, for tests that check on several threads. Each notes where it is, and writes
/// to the log even if it passes, in strings that all threads share without a lock: a race that has
/// ended programs.
namespace support {

inline const std::thread::id main_thread = std::this_thread::get_id();

/// Where the program was last: what the main thread says is enough.
inline void note_checkpoint(boost::unit_test::const_string file, std::size_t line) {
    if (std::this_thread::get_id() == main_thread)
        boost::unit_test::unit_test_log.set_checkpoint(file, line);
}

/// One check at a time is written to the log. It is evaluated before, for that may wait for other
/// threads. Recursive, for a message may check something itself.
inline std::recursive_mutex writing;
template <class Evaluated>
void report(Evaluated&& evaluated, const boost::unit_test::lazy_ostream& text,
            boost::unit_test::const_string file, std::size_t line,
            boost::test_tools::tt_detail::tool_level level,
            boost::test_tools::tt_detail::check_type type) {
    using boost::test_tools::assertion_result;
    auto const result = [&]() -> assertion_result {
        if constexpr (requires { evaluated.operator assertion_result(); })
            return evaluated.operator assertion_result();
        else
            return evaluated;
    }();
    std::lock_guard const lock(writing);
    boost::test_tools::tt_detail::report_assertion(result, text, file, line, level, type, 0);
}

}  // namespace support

#undef BOOST_TEST_PASSPOINT
#define BOOST_TEST_PASSPOINT() \
    ::support::note_checkpoint(BOOST_TEST_L(__FILE__), static_cast<std::size_t>(__LINE__))

#define CAIRN_TEST_REPORT(RESULT, TEXT, LEVEL, TYPE)                    \
    do {                                                                \
        BOOST_TEST_PASSPOINT();                                         \
        ::support::report(RESULT, TEXT, BOOST_TEST_L(__FILE__),         \
                          static_cast<std::size_t>(__LINE__),           \
                          ::boost::test_tools::tt_detail::LEVEL, TYPE); \
    } while (::boost::test_tools::tt_detail::dummy_cond())

#undef BOOST_TEST_TOOL_DIRECT_IMPL
#define BOOST_TEST_TOOL_DIRECT_IMPL(P, LEVEL, M)                                               \
    CAIRN_TEST_REPORT(::boost::test_tools::assertion_result(P), BOOST_TEST_LAZY_MSG(M), LEVEL, \
                      ::boost::test_tools::tt_detail::CHECK_MSG)
// Of the older checks those that have one argument besides the exception: BOOST_REQUIRE,
// BOOST_CHECK_THROW and the like, but not BOOST_CHECK_EQUAL, which BOOST_TEST replaces.
#undef BOOST_TEST_TOOL_IMPL
#define BOOST_TEST_TOOL_IMPL(FORWARDED, P, TEXT, LEVEL, TYPE, ARGUMENTS) \
    CAIRN_TEST_TOOL_##FORWARDED(P, TEXT, LEVEL, TYPE)
#define CAIRN_TEST_TOOL_2(P, TEXT, LEVEL, TYPE)                                                   \
    CAIRN_TEST_REPORT(::boost::test_tools::assertion_result(P), BOOST_TEST_LAZY_MSG(TEXT), LEVEL, \
                      ::boost::test_tools::tt_detail::TYPE)
#undef BOOST_TEST_TOOL_ET_IMPL
#define BOOST_TEST_TOOL_ET_IMPL(P, LEVEL)                                  \
    CAIRN_TEST_REPORT(BOOST_TEST_BUILD_ASSERTION(P).evaluate(),            \
                      BOOST_TEST_LAZY_MSG(BOOST_TEST_STRINGIZE(P)), LEVEL, \
                      ::boost::test_tools::tt_detail::CHECK_BUILT_ASSERTION)
#undef BOOST_TEST_TOOL_ET_IMPL_EX
#define BOOST_TEST_TOOL_ET_IMPL_EX(P, LEVEL, ARGUMENT)                                    \
    CAIRN_TEST_REPORT(                                                                    \
        ::boost::test_tools::tt_detail::assertion_evaluate(BOOST_TEST_BUILD_ASSERTION(P)) \
            << ARGUMENT,                                                                  \
        ::boost::test_tools::tt_detail::assertion_text(                                   \
            BOOST_TEST_LAZY_MSG(BOOST_TEST_STRINGIZE(P)), BOOST_TEST_LAZY_MSG(ARGUMENT)), \
        LEVEL, ::boost::test_tools::tt_detail::assertion_type() << ARGUMENT)

#endif
