#include "keel/backends/common/vector/widened_rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include "keel/backends/common/origin.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/graph/ir/graph.h"

namespace keel::vector {
namespace {

constexpr size_t kFloatsAtHand = 8192, kMostRowsAtHand = 16;
constexpr size_t kMostArguments = 4;

class WidenedRows final : public RowOp {
 public:
  // `op` is the node's in f32, without scratch.
  WidenedRows(const Node& node, std::unique_ptr<RowOp> op)
      : op_(std::move(op)),
        widen_(find_instruction("cast", node.type().dtype, f32)),
        narrow_(find_instruction("cast", f32, node.type().dtype)) {
    const Shape& rows = node.input(0).shape();
    for (const Value& v : node.inputs()) add(v.type(), rows, /*result=*/false);
    for (const Type& type : node.types()) add(type, rows, /*result=*/true);
  }

  size_t scratch_bytes(int64_t rows) const override {
    return std::min(rows_together(), static_cast<size_t>(rows)) * floats_ * sizeof(float);
  }

  void run(void* const* args, int64_t begin, int64_t end, void* scratch) const override {
    for (int64_t row = begin; row < end;) {
      const auto rows = std::min(static_cast<int64_t>(rows_together()), end - row);
      run_widened(args, row, rows, static_cast<float*>(scratch));
      row += rows;
    }
  }

 private:
  struct Argument {
    bool half = false, result = false;
    size_t elements = 0;  // of a row
    size_t at = 0;        // floats of a row in the scratch that lie before its own
  };

  // A result of operand 0's shape takes its place, as the instructions allow.
  void add(const Type& type, const Shape& rows, bool result) {
    Argument& argument = arguments_[count_++];
    argument.half = is_half(type.dtype);
    argument.result = result;
    if (!argument.half) return;
    argument.elements = type.shape == rows ? static_cast<size_t>(rows.back()) : 1;
    if (result && type.shape == rows) return;
    argument.at = floats_;
    floats_ += argument.elements;
  }

  void run_widened(void* const* args, int64_t row, int64_t rows, float* scratch) const {
    const auto place_of = [&](const Argument& a) {
      return scratch + static_cast<size_t>(rows) * a.at;
    };
    std::array<void*, kMostArguments> at{};
    for (size_t i = 0; i < count_; ++i) {
      const Argument& a = arguments_[i];
      at[i] = a.half ? origin_of(place_of(a), row, a.elements * sizeof(float)) : args[i];
      if (a.half && !a.result) cast(widen_, half_of(a, args[i], row), place_of(a), a, rows);
    }
    op_->run(at.data(), row, row + rows, nullptr);
    for (size_t i = 0; i < count_; ++i) {
      const Argument& a = arguments_[i];
      if (a.half && a.result) cast(narrow_, place_of(a), half_of(a, args[i], row), a, rows);
    }
  }

  static uint16_t* half_of(const Argument& a, void* argument, int64_t row) {
    return static_cast<uint16_t*>(argument) + static_cast<size_t>(row) * a.elements;
  }
  static void cast(VectorInstruction instruction, const void* from, void* to, const Argument& a,
                   int64_t rows) {
    VectorCall call;
    call.n = static_cast<size_t>(rows) * a.elements;
    call.src[0] = from;
    call.dst = to;
    instruction(call);
  }

  size_t rows_together() const {
    return std::clamp<size_t>(kFloatsAtHand / std::max<size_t>(1, floats_), 1, kMostRowsAtHand);
  }

  std::unique_ptr<RowOp> op_;
  VectorInstruction widen_, narrow_;
  std::array<Argument, kMostArguments> arguments_;
  size_t count_ = 0;
  size_t floats_ = 0;  // of a row in the scratch
};

}  // namespace

std::unique_ptr<RowOp> widen_rows(const Node& node, std::unique_ptr<RowOp> op) {
  return std::make_unique<WidenedRows>(node, std::move(op));
}

}  // namespace keel::vector
