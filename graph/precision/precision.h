// Precision: what a session asks for in matters of dtypes, and what that comes to on its device.
// Plain values and pure functions; any thread.
#ifndef KEEL_GRAPH_PRECISION_PRECISION_H
#define KEEL_GRAPH_PRECISION_PRECISION_H

#include <string>
#include <utility>

#include "keel/core/base/export.h"
#include "keel/core/device/backend.h"
#include "keel/graph/precision/dtype_overrides.h"
#include "keel/graph/precision/mix_list.h"
#include "keel/graph/precision/precision_mode.h"

namespace keel {

// At most one of the three names is given. Without any the device's default holds
// (Backend::default_precision_mode): what a preset of the npu says, and fp32 elsewhere.
struct KEEL_API Precision {
  Precision() = default;
  // A short name: "fp32", "mixed_bf16", "mixed_fp16".
  Precision(std::string short_name) : name(std::move(short_name)) {}  // NOLINT: as text is written
  Precision(const char* short_name) : name(short_name) {}             // NOLINT: likewise

  // Returns the precision of a name that stands in one of the lists of modes. Throws Error
  // (kInvalidArgument) for others, naming all.
  static Precision named(const std::string& name);

  std::string name = {};
  std::string mode = {};       // precision_mode
  std::string mode_v2 = {};    // precision_mode_v2
  MixList mix_list = {};       // for mixed modes only
  DtypeOverrides dtypes = {};  // not looked at by modes that keep the graph's dtypes
  bool operator==(const Precision&) const = default;
};

struct ResolvedPrecision {
  const PrecisionMode* mode = nullptr;  // of the table, which lives as long as the process
  bool is_default = false;              // nobody named it
  MixList mix_list = {};
  DtypeOverrides dtypes = {};
};

// Throws Error (kInvalidArgument) for a name that nobody has, for two names, for a mode whose dtype
// the device lacks, and for mix lists with a mode that is not mixed.
KEEL_API ResolvedPrecision resolve(const Precision& precision, const Backend& backend,
                                   const DeviceOptions* options = nullptr);

}  // namespace keel

#endif  // KEEL_GRAPH_PRECISION_PRECISION_H
