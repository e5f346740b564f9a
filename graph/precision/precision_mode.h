// PrecisionMode: a table that says in which dtype each node of a step computes. An entry names
// nodes by op, trait or mix class and lists forms; a node takes the first form that the device has.
// Adding a mode is adding a table. Plain values and pure functions; any thread.
//
// Modes come from three lists: the `precision_mode` and `precision_mode_v2` of Ascend's training
// framework, under the names that they have there, and Keel's own short names.
#ifndef KEEL_GRAPH_PRECISION_PRECISION_MODE_H
#define KEEL_GRAPH_PRECISION_PRECISION_MODE_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"
#include "keel/graph/ir/op_def.h"

namespace keel {

// How a node may compute what it has as f32, or as f16 or bf16.
enum class PrecisionForm : uint8_t {
  kGraph,  // in the dtypes that the graph gives it
  kWide,   // a product of operands in the mode's dtype, with f32 sums and results
  kLow,    // operands and results in the mode's dtype
  kF32,    // operands and results in f32
  kHost,   // in the dtypes of the graph, by the host processor (AI CPU)
};
// "keep", "low (f32 sums)", "low", "f32", "AI CPU".
KEEL_API const char* name_of(PrecisionForm form) noexcept;

struct PrecisionEntry {
  std::string what;                  // of which nodes, in words
  std::string op = {};               // a name; empty: of any op
  uint32_t traits = 0;               // at least one of them; 0: any
  std::optional<MixClass> mix = {};  // the op's class in the mix list; none: any
  // The forms are for nodes whose f32 operands are all there in the low dtype already, constants
  // aside; others compute in the dtypes of the graph.
  bool follows = false;
  std::vector<PrecisionForm> forms =
      {};  // the first that the device has; an error where it has none
  bool operator==(const PrecisionEntry&) const = default;
};

// Which list of modes: the option that names one of it.
enum class PrecisionOption : uint8_t { kShort, kMode, kModeV2 };
// "precision", "precision_mode", "precision_mode_v2".
KEEL_API const char* name_of(PrecisionOption option) noexcept;

struct PrecisionMode {
  std::string name;
  std::string summary;                       // one line for users
  std::optional<DType> low = {};             // none: no form of the table needs it
  std::vector<PrecisionEntry> entries = {};  // none: the graph is left as it is
  bool mixes = false;                        // its entries go by mix class, so it takes mix lists
  bool for_inference = false;                // refuses steps that update states
  std::string needs = {};                    // "bf16", "hif8": what the device must compute in
};

// Returns whether two modes, of one list or of two, make the same of every step, as
// must_keep_origin_dtype and origin do.
KEEL_API bool compute_alike(const PrecisionMode& a, const PrecisionMode& b);

inline constexpr const char* kDefaultPrecision = "fp32";

// Returns the modes of a list; that of the short names has the default first.
KEEL_API const std::vector<PrecisionMode>& precision_modes(PrecisionOption option);
KEEL_API std::vector<std::string> precision_names(PrecisionOption option = PrecisionOption::kShort);
// Throws Error (kInvalidArgument) naming the modes of the list.
KEEL_API const PrecisionMode& find_precision_mode(const std::string& name,
                                                  PrecisionOption option = PrecisionOption::kShort);

}  // namespace keel

#endif  // KEEL_GRAPH_PRECISION_PRECISION_MODE_H
