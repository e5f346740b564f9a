#include "keel/backends/npu/measured/measured_op.h"

#include <algorithm>
#include <utility>

#include "keel/backends/common/cube/lane_bytes.h"
#include "keel/backends/npu/kernels/device_passes.h"
#include "keel/backends/npu/kernels/element_work.h"
#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/backends/npu/measured/measured_types.h"
#include "keel/core/base/checked.h"

namespace keel::npu {
namespace {

// Returns the greatest divisor of a number that is not above `most`. REQUIRES that both are at
// least 1.
int64_t greatest_divisor(int64_t number, int64_t most) {
  int64_t divisor = std::min(number, most);
  while (number % divisor != 0) --divisor;
  return divisor;
}

int64_t passes_of_instructions(const std::vector<std::string>& names) {
  int64_t passes = 0;
  for (const std::string& name : names) {
    passes += name == "sum" ? kPassesOfAReduction : std::max<int64_t>(1, device_passes(name));
  }
  return passes;
}

int64_t widest_lane(const VectorRecipe& recipe) {
  int64_t lane = 1;
  for (const auto* types : {&recipe.inputs, &recipe.outputs}) {
    for (const Type& type : *types) {
      if (type.shape.num_elements() > 1) lane = std::max(lane, lane_bytes(type.dtype));
    }
  }
  return lane;
}

}  // namespace

const char* name_of(MeasuredClass kind) noexcept {
  static constexpr const char* kNames[] = {"products",  "element-wise", "cast",
                                           "reduce",    "softmax",      "norm",
                                           "transpose", "copies",       "convolutions"};
  return kNames[static_cast<size_t>(kind)];
}

MeasuredOp::MeasuredOp(MeasuredClass kind, std::shared_ptr<const Graph> graph)
    : kind_(kind), graph_(std::move(graph)) {}

MeasuredOp::MeasuredOp(MeasuredClass kind, VectorRecipe recipe)
    : kind_(kind), recipe_(std::move(recipe)) {}

MeasuredOp::MeasuredOp(MeasuredClass kind, CubeWork product) : kind_(kind), product_(product) {}

void MeasuredOp::set_fractal(bool a, bool b) {
  fractal_a_ = a;
  fractal_b_ = b;
}

std::optional<int64_t> MeasuredOp::fixed_blocks(const Preset& preset) const {
  if (graph_ == nullptr && recipe_.every_core) return preset.vector_cores;
  if (parts_ == 0) return std::nullopt;
  const int64_t cores = product_ ? preset.cube_cores : preset.vector_cores;
  if (deal_ == Deal::kEqual) return greatest_divisor(parts_, cores);
  return divide_up(parts_, divide_up(parts_, cores));
}

NodeWork MeasuredOp::work(const Preset& preset) const {
  if (product_) {
    NodeWork work{product_, {}};
    adapt(*work.cube);
    return work;
  }
  if (graph_ == nullptr) return recipe_work(preset);
  const Node& node = graph_->nodes().back();
  NodeWork work = work_of(preset, node);
  if (work.cube) adapt(*work.cube);
  return work;
}

void MeasuredOp::adapt(CubeWork& work) const {
  if (fractal_a_) work.aligned_a = true;
  if (fractal_b_) work.aligned_b = true;
  if (batch_ > 1 && work.batch == 1 && work.m % batch_ == 0) {
    work.batch = batch_;
    work.m /= batch_;
  }
  if (!epilogue_) return;
  work.epilogue_pass_bytes = passes_of_instructions(epilogue_->instructions) * lane_bytes(f32) +
                             passes_of_instructions(epilogue_->narrow) * lane_bytes(f16);
  work.epilogue_instructions =
      static_cast<int64_t>(epilogue_->instructions.size() + epilogue_->narrow.size());
  work.epilogue_bytes_in = epilogue_->bytes_in;
  work.epilogue_bytes_out = epilogue_->bytes_out;
}

NodeWork MeasuredOp::recipe_work(const Preset& preset) const {
  Split split =
      as_tiles(element_work(preset, {}, recipe_.inputs, recipe_.outputs, recipe_.elements));
  VectorWork& work = split.work;
  const int64_t lane = in_f32_ ? lane_bytes(f32) : widest_lane(recipe_);
  work.pass_bytes = checked_mul(passes_of_instructions(recipe_.instructions), lane);
  work.instructions = static_cast<int64_t>(recipe_.instructions.size());
  if (recipe_.row > 0) {
    int64_t size = 1;
    for (const Type& type : recipe_.inputs) size = std::max(size, size_in_bytes(type.dtype));
    cut_rows(preset, recipe_.row, recipe_.elements, size, /*scratch=*/0, split);
  }
  if (parts_ > 0) {
    work.units = parts_;
    work.elements_per_unit = divide_up(recipe_.elements, parts_);
  }
  if (recipe_.every_core) {
    work.units = std::max(work.units, preset.vector_cores);
    work.elements_per_unit = divide_up(recipe_.elements, work.units);
  }
  return {{}, {split}};
}

}  // namespace keel::npu
