#include "keel/backends/common/cube/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace keel {

#if defined(__x86_64__)
Processor this_processor() {
  constexpr uint32_t kExtended = 15;  // the family from which on the extended one is added
  Processor processor{"unknown"};
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return processor;
  processor.vendor.clear();
  for (const uint32_t part : {b, d, c}) {
    for (int shift = 0; shift < 32; shift += 8) {
      const auto letter = static_cast<char>(part >> shift & 0xff);
      const bool plain = (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z');
      processor.vendor += plain ? letter : '_';  // it becomes a part of a file's name
    }
  }
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return processor;
  const uint32_t family = a >> 8 & 15, model = a >> 4 & 15;
  processor.family = family == kExtended ? family + (a >> 20 & 255) : family;
  processor.model = family == 6 || family == kExtended ? (a >> 16 & 15) << 4 | model : model;
  processor.stepping = a & 15;
  return processor;
}
#else
Processor this_processor() { return {"unknown"}; }
#endif

}  // namespace keel
