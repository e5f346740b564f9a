// Processor: who made the host's processor, and which one it is, as CPUID says. Any thread.
#ifndef KEEL_BACKENDS_COMMON_CUBE_PROCESSOR_H
#define KEEL_BACKENDS_COMMON_CUBE_PROCESSOR_H

#include <cstdint>
#include <string>

#include "keel/core/base/export.h"

namespace keel {

struct Processor {
  std::string vendor;  // "AuthenticAMD"; "unknown" where there is no CPUID
  int64_t family = 0, model = 0, stepping = 0;
  friend bool operator==(const Processor&, const Processor&) = default;
};

KEEL_API Processor this_processor();

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_PROCESSOR_H
