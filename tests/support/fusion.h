// SessionOptions::disabled_passes with fusion and without.
#ifndef KEEL_TESTS_SUPPORT_FUSION_H
#define KEEL_TESTS_SUPPORT_FUSION_H

#include <string>
#include <vector>

namespace keel_test {

inline std::vector<std::string> fusion(bool on) {
  return on ? std::vector<std::string>{} : std::vector<std::string>{"fuse"};
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_FUSION_H
