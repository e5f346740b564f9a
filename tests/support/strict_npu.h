// An npu whose launches run block by block in checked buffers (KEEL_NPU_STRICT).
#ifndef KEEL_TESTS_SUPPORT_STRICT_NPU_H
#define KEEL_TESTS_SUPPORT_STRICT_NPU_H

#include <cstdlib>
#include <memory>
#include <string>

#include "keel/backends/registry.h"

namespace keel_test {

inline std::unique_ptr<keel::Backend> strict_npu() {
  std::unique_ptr<keel::Backend> npu;
  setenv("KEEL_NPU_STRICT", "1", 1);
  for (const keel::BackendFactory& factory : keel::builtin_backends()) {
    if (std::string(factory.name) == "npu") npu = factory.make();
  }
  unsetenv("KEEL_NPU_STRICT");
  return npu;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_STRICT_NPU_H
