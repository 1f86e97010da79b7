// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_SANITIZED_HPP
#define CAIRN_TEST_SUPPORT_SANITIZED_HPP

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAIRN_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer)
#define CAIRN_TEST_SANITIZED 1
#endif
#endif
#ifndef CAIRN_TEST_SANITIZED
#define CAIRN_TEST_SANITIZED 0
#endif

namespace support {

/// Whether this is compiled with ASan, TSan, or clang's UBSan.
inline constexpr bool is_sanitized = CAIRN_TEST_SANITIZED != 0;

/// Whether forked children may make threads: ThreadSanitizer ends them ("dup thread").
#if defined(__SANITIZE_THREAD__)
inline constexpr bool children_make_threads = false;
#else
inline constexpr bool children_make_threads = true;
#endif

/// `n` under a sanitizer, otherwise 1. What goes over very many cases takes every n-th of them
/// there: other builds see what comes of each case, and the sanitizer sees the same code.
constexpr int stride_if_sanitized(int n) {
    return is_sanitized ? n : 1;
}

/// The points of which one fails in each turn of a loop: all of them; sampled under sanitizers,
/// where each loop of a test begins one further on than the last, so that together they meet all.
///
///     for (int at = points.first();; at += points.stride()) …
class failure_points {
public:
    explicit failure_points(int stride_under_sanitizers)
        : stride_(stride_if_sanitized(stride_under_sanitizers)) {}

    int first() { return loops_++ % stride_; }
    int stride() const { return stride_; }

private:
    int stride_;
    int loops_ = 0;
};

}  // namespace support

#endif
