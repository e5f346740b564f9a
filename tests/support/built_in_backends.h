// Names of the backends that are built in.
#ifndef KEEL_TESTS_SUPPORT_BUILT_IN_BACKENDS_H
#define KEEL_TESTS_SUPPORT_BUILT_IN_BACKENDS_H

#include <string>
#include <vector>

namespace keel_test {

inline const std::vector<std::string> kBuiltInBackends = {"ref", "cpu", "npu"};

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_BUILT_IN_BACKENDS_H
