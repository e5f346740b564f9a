#include "keel/backends/common/reduce_kernel.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/tensor/convert.h"
#include "keel/ops/reduce.h"

namespace keel {
namespace {

struct Group {
  int64_t dim = 1;
  int64_t stride = 1;
  bool reduced = false;
};

// The input's axes with neighbours of the same kind merged; axes of size 1 vanish.
std::vector<Group> collapse(const Shape& shape, const std::vector<bool>& reduced) {
  const auto strides = shape.strides();
  std::vector<Group> groups;
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    if (!groups.empty() && groups.back().reduced == reduced[axis]) {
      groups.back().dim *= shape[axis];
      groups.back().stride = strides[axis];
    } else {
      groups.push_back({shape[axis], strides[axis], reduced[axis]});
    }
  }
  return groups;
}

int64_t offset_of(const std::vector<Group>& groups, int64_t index) {
  int64_t offset = 0;
  for (size_t i = groups.size(); i-- > 0;) {
    offset += index % groups[i].dim * groups[i].stride;
    index /= groups[i].dim;
  }
  return offset;
}

int64_t count_of(const std::vector<Group>& groups) {
  int64_t count = 1;
  for (const Group& g : groups) count *= g.dim;
  return count;
}

// An output row is what one index of the outer kept axes gives: `width` neighbouring accumulators,
// each reduced over `units` steps. A step is a run of `run` contiguous elements when the last axis
// is reduced (width 1), else a row of `width` elements; `rows` neighbouring steps lie `row_stride`
// apart and are taken by one instruction.
class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const Node& node, const ReduceInstructions& instructions, int most_blocks)
      : op_(node.op_name()),
        in_(node.input(0).dtype()),
        out_(node.type().dtype),
        accumulator_(accumulator_of(in_)),
        instructions_(instructions) {
    const Shape& shape = node.input(0).shape();
    const auto reduced = reduced_axes(node.as<ReduceAttributes>().axes, shape.rank());
    std::vector<Group> groups = collapse(shape, reduced);
    empty_ = shape.num_elements() == 0;
    last_reduced_ = groups.empty() || groups.back().reduced;
    if (!groups.empty()) {
      if (last_reduced_)
        run_ = groups.back().dim;
      else
        width_ = groups.back().dim;
      groups.pop_back();
    }
    for (const Group& g : groups) (g.reduced ? steps_ : outer_).push_back(g);
    outputs_ = node.type().shape.num_elements();
    plan_chunks(most_blocks);
  }

  size_t workspace_bytes() const {
    return static_cast<size_t>(outer_count_ * chunks_ * width_) * size_of(accumulator_);
  }
  int phases() const override { return 2; }
  int blocks(int phase) const override { return phase == 0 ? blocks_ : 1; }

  void run(void* const* args, int phase, int block) const override {
    if (outputs_ == 0) return;  // not even a workspace
    if (phase == 1) {
      merge(args[1], static_cast<char*>(args[2]));
      return;
    }
    const int64_t tasks = outer_count_ * chunks_;
    const int64_t begin = tasks * block / blocks_;
    const int64_t end = tasks * (block + 1) / blocks_;
    const size_t bytes = static_cast<size_t>(width_) * size_of(accumulator_);
    for (int64_t task = begin; task < end; ++task) {
      reduce_chunk(static_cast<const char*>(args[0]), task / chunks_, task % chunks_,
                   static_cast<char*>(args[2]) + static_cast<size_t>(task) * bytes);
    }
  }

 private:
  void plan_chunks(int most_blocks) {
    outer_count_ = count_of(outer_);
    units_ = empty_ ? 0 : count_of(steps_);
    pieces_ = last_reduced_ ? std::max<int64_t>(1, (run_ + kReduceChunk - 1) / kReduceChunk) : 1;
    const int64_t per_unit = last_reduced_ ? std::min(run_, kReduceChunk) : width_;
    const int64_t per_chunk = std::max<int64_t>(1, kReduceChunk / std::max<int64_t>(1, per_unit));
    all_units_ = units_ * pieces_;
    chunks_ = std::clamp<int64_t>((all_units_ + per_chunk - 1) / per_chunk, 1, 256);
    const int64_t elements = outer_count_ * std::max<int64_t>(1, all_units_) * per_unit;
    const int64_t worth = std::max<int64_t>(1, elements / (kReduceChunk / 2));
    blocks_ = static_cast<int>(
        std::min({outer_count_ * chunks_, worth, static_cast<int64_t>(most_blocks)}));
    blocks_ = std::max(1, blocks_);
  }

  void set_identity(char* accumulators) const {
    const size_t size = size_of(accumulator_);
    instructions_.identity(op_, in_, accumulators);
    for (int64_t i = 1; i < width_; ++i) {
      std::memcpy(accumulators + static_cast<size_t>(i) * size, accumulators, size);
    }
  }

  void reduce_chunk(const char* input, int64_t outer, int64_t chunk, char* accumulators) const {
    set_identity(accumulators);
    const int64_t begin = all_units_ * chunk / chunks_;
    const int64_t end = all_units_ * (chunk + 1) / chunks_;
    const char* base = input + offset_of(outer_, outer) * static_cast<int64_t>(size_of(in_));
    if (last_reduced_)
      reduce_runs(base, begin, end, accumulators);
    else
      reduce_rows(base, begin, end, accumulators);
  }

  void reduce_runs(const char* base, int64_t begin, int64_t end, char* accumulator) const {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t piece = unit % pieces_;
      const int64_t first = run_ * piece / pieces_;
      const int64_t last = run_ * (piece + 1) / pieces_;
      int64_t partial = 0;  // as wide as any accumulator
      ReduceCall call;
      call.src =
          base + (offset_of(steps_, unit / pieces_) + first) * static_cast<int64_t>(size_of(in_));
      call.cols = static_cast<size_t>(last - first);
      call.stride = call.cols;
      call.dst = &partial;
      instructions_.rows(call);
      instructions_.merge({&partial, 1, 1, 1, accumulator});
    }
  }

  void reduce_rows(const char* base, int64_t begin, int64_t end, char* accumulators) const {
    const int64_t inner = steps_.empty() ? 1 : steps_.back().dim;
    for (int64_t unit = begin; unit < end;) {
      const int64_t rows = std::min(end - unit, inner - unit % inner);
      ReduceCall call;
      call.src = base + offset_of(steps_, unit) * static_cast<int64_t>(size_of(in_));
      call.rows = static_cast<size_t>(rows);
      call.cols = static_cast<size_t>(width_);
      call.stride = steps_.empty() ? call.cols : static_cast<size_t>(steps_.back().stride);
      call.dst = accumulators;
      instructions_.columns(call);
      unit += rows;
    }
  }

  // Adds up the chunks in order and rounds to the output's dtype.
  void merge(void* output, char* partials) const {
    const size_t row = static_cast<size_t>(width_) * size_of(accumulator_);
    for (int64_t outer = 0; outer < outer_count_; ++outer) {
      char* first = partials + static_cast<size_t>(outer * chunks_) * row;
      if (chunks_ > 1) {
        instructions_.merge({first + row, static_cast<size_t>(chunks_ - 1),
                             static_cast<size_t>(width_), static_cast<size_t>(width_), first});
      }
      store(first, output, outer * width_);
    }
  }

  void store(const void* accumulators, void* output, int64_t at) const {
    const int64_t count = std::min(width_, outputs_ - at);
    visit_dtype(out_, [&]<class To>() {
      auto* to = static_cast<To*>(output) + at;
      const auto convert = [&]<class From>(const From* from) {
        for (int64_t i = 0; i < count; ++i) to[i] = convert_element<To>(from[i]);
      };
      if (accumulator_ == f64)
        convert(static_cast<const double*>(accumulators));
      else if (accumulator_ == f32)
        convert(static_cast<const float*>(accumulators));
      else
        convert(static_cast<const int64_t*>(accumulators));
    });
  }

  std::string op_;
  DType in_;
  DType out_;
  DType accumulator_;
  ReduceInstructions instructions_;
  bool empty_ = false;
  bool last_reduced_ = true;
  int64_t run_ = 1;
  int64_t width_ = 1;
  std::vector<Group> outer_;
  std::vector<Group> steps_;
  int64_t outer_count_ = 1;
  int64_t units_ = 0;
  int64_t pieces_ = 1;
  int64_t all_units_ = 0;
  int64_t chunks_ = 1;
  int64_t outputs_ = 0;
  int blocks_ = 1;
};

}  // namespace

KernelPlan plan_reduce(const Node& node, const ReduceInstructions& instructions, int most_blocks) {
  auto kernel = std::make_unique<ReduceKernel>(node, instructions, most_blocks);
  KernelPlan plan;
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.block_dim = kernel->blocks(0);
  plan.kind = TaskKind::kAiVectorCore;
  plan.kernel = std::move(kernel);
  return plan;
}

}  // namespace keel
