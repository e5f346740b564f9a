// kSanitized says whether the tests run under a sanitizer that keeps memory of its own, so that
// what a test measures of the process would be the sanitizer's.
#ifndef KEEL_TESTS_SUPPORT_SANITIZER_H
#define KEEL_TESTS_SUPPORT_SANITIZER_H

namespace keel_test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_SANITIZER_H
