#include "keel/graph/precision/precision.h"

#include <algorithm>
#include <array>
#include <vector>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"

namespace keel {
namespace {

constexpr std::array kOptions = {PrecisionOption::kShort, PrecisionOption::kMode,
                                 PrecisionOption::kModeV2};

const std::string& name_in(const Precision& precision, PrecisionOption option) {
  if (option == PrecisionOption::kShort) return precision.name;
  return option == PrecisionOption::kMode ? precision.mode : precision.mode_v2;
}

void require_one_name(const Precision& precision) {
  std::string given;
  int count = 0;
  for (const PrecisionOption option : kOptions) {
    const std::string& name = name_in(precision, option);
    if (name.empty()) continue;
    given += (count == 0 ? "" : " and ") + std::string(name_of(option)) + " " + name;
    ++count;
  }
  if (count <= 1) return;
  throw Error({.op = "precision",
               .expected = "one of precision, precision_mode and precision_mode_v2",
               .got = given,
               .kind = ErrorKind::kInvalidArgument});
}

const PrecisionMode& named_mode(const Precision& precision, const Backend& backend,
                                const DeviceOptions* options, bool& is_default) {
  require_one_name(precision);
  is_default = false;
  for (const PrecisionOption option : kOptions) {
    const std::string& name = name_in(precision, option);
    if (!name.empty()) return find_precision_mode(name, option);
  }
  is_default = true;
  const std::string own = backend.default_precision_mode(options);
  return own.empty() ? find_precision_mode(kDefaultPrecision)
                     : find_precision_mode(own, PrecisionOption::kMode);
}

}  // namespace

Precision Precision::named(const std::string& name) {
  std::vector<std::string> all;
  for (const PrecisionOption option : kOptions) {
    for (const std::string& each : precision_names(option)) {
      if (each == name) {
        Precision found;
        (option == PrecisionOption::kShort  ? found.name
         : option == PrecisionOption::kMode ? found.mode
                                            : found.mode_v2) = name;
        return found;
      }
      if (std::find(all.begin(), all.end(), each) == all.end()) all.push_back(each);
    }
  }
  parse_choice(name, "precision", all);
  return {};
}

ResolvedPrecision resolve(const Precision& precision, const Backend& backend,
                          const DeviceOptions* options) {
  ResolvedPrecision resolved;
  const PrecisionMode& mode = named_mode(precision, backend, options, resolved.is_default);
  resolved.mode = &mode;
  if (!mode.needs.empty()) {
    const Support support = backend.computes_in(mode.needs, options);
    if (!support.supported) {
      throw Error({.op = "precision " + mode.name,
                   .message = "needs " + mode.needs + ": " + support.reason,
                   .kind = ErrorKind::kInvalidArgument});
    }
  }
  if (!precision.mix_list.changed.empty() && !mode.mixes) {
    throw Error(
        {.op = "mix list",
         .expected = "a precision mode that goes by lists of ops, such as allow_mix_precision_fp16",
         .got = mode.name + (resolved.is_default ? ", the device's default" : ""),
         .kind = ErrorKind::kInvalidArgument});
  }
  resolved.mix_list = precision.mix_list;
  resolved.dtypes = precision.dtypes;
  return resolved;
}

}  // namespace keel
