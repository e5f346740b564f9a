// MeasuredOp: what a row of a table of measurements asks of the device, as one launch, in the terms
// that prices are worked out from. Rows that say which Keel op they are become that op's node;
// others go by their OP type (measured_types.h). Immutable; any thread.
#ifndef KEEL_BACKENDS_NPU_MEASURED_MEASURED_OP_H
#define KEEL_BACKENDS_NPU_MEASURED_MEASURED_OP_H

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/backends/npu/cost/work.h"
#include "keel/backends/npu/measured/measured_table.h"
#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"

namespace keel::npu {

enum class MeasuredClass : uint8_t {
  kProduct,
  kElementWise,
  kCast,
  kReduce,
  kSoftmax,
  kNorm,
  kTranspose,
  kCopy,
  kConvolution
};
inline constexpr size_t kMeasuredClasses = 9;
KEEL_API const char* name_of(MeasuredClass kind) noexcept;

// Work that no single node of Keel's describes: vector instructions, by their names, for each
// element of the widest operand, between operands that come from memory and results that go there.
struct VectorRecipe {
  std::vector<std::string> instructions;
  std::vector<Type> inputs, outputs;
  int64_t elements = 0;
  int64_t row = 0;          // elements of a row that a core needs as a whole; 0: none
  bool every_core = false;  // its kernel starts all cores, whatever it has to do
};

// ProductEpilogue: the work that follows a product in the same launch.
struct ProductEpilogue {
  std::vector<std::string> instructions;  // in f32
  std::vector<std::string> narrow = {};   // in f16, on results that are cast
  int64_t bytes_in = 0;                   // for one element of the result
  int64_t bytes_out = -1;                 // the same; -1: the product's own
};

// How a kernel deals whole parts, as images, to blocks: as evenly as they go, or the same number to
// each.
enum class Deal : uint8_t { kEven, kEqual };

class MeasuredOp {
 public:
  // The last node of the graph is priced.
  MeasuredOp(MeasuredClass kind, std::shared_ptr<const Graph> graph);
  MeasuredOp(MeasuredClass kind, VectorRecipe recipe);
  MeasuredOp(MeasuredClass kind, CubeWork product);

  MeasuredClass kind() const noexcept { return kind_; }
  NodeWork work(const Preset& preset) const;
  // Returns how many blocks its kernel always has; nothing where they are chosen.
  std::optional<int64_t> fixed_blocks(const Preset& preset) const;

  // Operands of a product are stored in fractals, so that no row of theirs is unaligned.
  void set_fractal(bool a, bool b);
  // The rows of a product are those of so many products with the same right operand, one after the
  // other.
  void set_batch(int64_t batch) { batch_ = batch; }
  void set_epilogue(ProductEpilogue epilogue) { epilogue_ = std::move(epilogue); }
  // 16-bit operands are cast on their way and computed with in f32.
  void set_computed_in_f32() { in_f32_ = true; }
  // Its kernel deals so many whole parts to the cores.
  void set_parts(int64_t parts, Deal deal) {
    parts_ = parts;
    deal_ = deal;
  }

 private:
  NodeWork recipe_work(const Preset& preset) const;
  void adapt(CubeWork& work) const;

  MeasuredClass kind_;
  std::shared_ptr<const Graph> graph_;
  VectorRecipe recipe_;
  std::optional<CubeWork> product_;
  bool in_f32_ = false;
  int64_t parts_ = 0;
  Deal deal_ = Deal::kEven;
  bool fractal_a_ = false, fractal_b_ = false;
  int64_t batch_ = 1;
  std::optional<ProductEpilogue> epilogue_;
};

struct MappedRow {
  std::optional<MeasuredOp> op;
  std::string why_not;  // where there is none
};
KEEL_API MappedRow map_row(const MeasuredRow& row);
// The reason for a row whose OP type is none of mapped_types().
inline constexpr const char* kNoRuleForType = "no rule for the OP type";
// OP types that are mapped, one name for each where a type has several.
KEEL_API std::vector<std::string> mapped_types();

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_MEASURED_MEASURED_OP_H
