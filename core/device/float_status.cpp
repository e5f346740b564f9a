#include "keel/core/device/float_status.h"

namespace keel {

std::string describe_float_status(uint32_t status) {
  std::string text;
  const auto say = [&](uint32_t bit, const char* what) {
    if ((status & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(what);
  };
  say(kFloatStatusF16Overflow, "f16 results were stopped at +-65504");
  say(kFloatStatusNotFinite, "fetched numbers were infinite or NaN");
  return text;
}

}  // namespace keel
