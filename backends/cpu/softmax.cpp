#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "keel/backends/cpu/kernels.h"
#include "keel/backends/cpu/packet_math.h"
#include "keel/core/base/error.h"
#include "keel/ops/loss.h"

namespace keel::cpu {
namespace {

// Computes for a row its largest element and log(sum(exp(x - largest))).
template <class T>
struct RowSum {
  T largest;
  T log_sum;
};

template <class T>
T largest_of(const T* x, int64_t count) {
  T largest = x[0];
  for (int64_t i = 1; i < count; ++i) largest = x[i] > largest || x[i] != x[i] ? x[i] : largest;
  return largest;
}

constexpr int64_t kTogether = 1024;  // elements whose exp is taken at once

// Sum of exp(x - largest), a piece of the row at a time.
template <class T>
T sum_of_powers(const T* x, int64_t classes, T largest, T* powers) {
  T total = 0;
  for (int64_t begin = 0; begin < classes; begin += kTogether) {
    const int64_t count = std::min(kTogether, classes - begin);
    for (int64_t i = 0; i < count; ++i) powers[i] = x[begin + i] - largest;
    exp_all(powers, powers, static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) total += powers[i];
  }
  return total;
}

// Computes them for `count` rows that lie behind each other; as many as fit into kTogether, or one.
template <class T>
void sum_rows(const T* x, int64_t count, int64_t classes, RowSum<T>* sums) {
  T powers[kTogether] = {};
  T totals[kTogether] = {};
  for (int64_t row = 0; row < count; ++row) {
    sums[row].largest = largest_of(x + row * classes, classes);
  }
  if (classes > kTogether) {
    totals[0] = sum_of_powers(x, classes, sums[0].largest, powers);
  } else {
    for (int64_t row = 0; row < count; ++row) {
      const int64_t at = row * classes;
      for (int64_t i = 0; i < classes; ++i) powers[at + i] = x[at + i] - sums[row].largest;
    }
    exp_all(powers, powers, static_cast<size_t>(count * classes));
    for (int64_t row = 0; row < count; ++row) {
      totals[row] = 0;
      for (int64_t i = 0; i < classes; ++i) totals[row] += powers[row * classes + i];
    }
  }
  log_all(totals, totals, static_cast<size_t>(count));
  for (int64_t row = 0; row < count; ++row) sums[row].log_sum = totals[row];
}

enum class Kind { kSoftmax, kLogSoftmax, kLoss, kGradient };

class SoftmaxRows final : public RowOp {
 public:
  SoftmaxRows(const Node& node, Kind kind)
      : kind_(kind), dtype_(node.type().dtype), classes_(node.input(0).shape().back()) {
    if (kind == Kind::kLoss || kind == Kind::kGradient) {
      target_dtype_ = node.input(1).dtype();
      smoothing_ = node.as<CrossEntropyOptions>().label_smoothing;
    }
  }

  void run(void* const* args, int64_t begin, int64_t end) const override {
    if (kind_ == Kind::kLoss || kind_ == Kind::kGradient) check_ids(args[1], begin, end);
    if (dtype_ == f64)
      run_rows<double>(args, begin, end);
    else
      run_rows<float>(args, begin, end);
  }

 private:
  int64_t id(const void* ids, int64_t row) const {
    if (target_dtype_ == i64) return static_cast<const int64_t*>(ids)[row];
    if (target_dtype_ == i32) return static_cast<const int32_t*>(ids)[row];
    return static_cast<const uint8_t*>(ids)[row];
  }

  void check_ids(const void* ids, int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t target = id(ids, row);
      if (target >= 0 && target < classes_) continue;
      throw Error({.op = "softmax_cross_entropy",
                   .argument = "targets",
                   .expected = "class ids from 0 to " + std::to_string(classes_ - 1),
                   .got = std::to_string(target) + " in row " + std::to_string(row)});
    }
  }

  template <class T>
  void run_rows(void* const* args, int64_t begin, int64_t end) const {
    const int64_t step = std::max<int64_t>(1, kTogether / std::max<int64_t>(1, classes_));
    for (int64_t row = begin; row < end; row += step) {
      run_group<T>(args, row, std::min(step, end - row));
    }
  }

  template <class T>
  void run_group(void* const* args, int64_t first, int64_t count) const {
    RowSum<T> sums[kTogether] = {};
    const T* x = static_cast<const T*>(args[0]) + first * classes_;
    sum_rows(x, count, classes_, sums);
    if (kind_ == Kind::kLoss) {
      for (int64_t row = 0; row < count; ++row) {
        static_cast<T*>(args[2])[first + row] =
            loss(x + row * classes_, sums[row], id(args[1], first + row));
      }
      return;
    }
    T* out = static_cast<T*>(args[kind_ == Kind::kGradient ? 3 : 1]) + first * classes_;
    for (int64_t row = 0; row < count; ++row) {
      const RowSum<T> sum = sums[row];
      for (int64_t i = row * classes_; i < (row + 1) * classes_; ++i) {
        out[i] = (x[i] - sum.largest) - sum.log_sum;
      }
    }
    if (kind_ == Kind::kLogSoftmax) return;
    exp_all(out, out, static_cast<size_t>(count * classes_));
    if (kind_ == Kind::kSoftmax) return;
    for (int64_t row = 0; row < count; ++row) {
      to_gradient(out + row * classes_, id(args[1], first + row),
                  static_cast<const T*>(args[2])[first + row]);
    }
  }

  template <class T>
  void to_gradient(T* row, int64_t target, T upstream) const {
    const T spread = static_cast<T>(smoothing_ / static_cast<double>(classes_));
    for (int64_t i = 0; i < classes_; ++i) {
      const T wanted = i == target ? static_cast<T>(1 - smoothing_) + spread : spread;
      row[i] = (row[i] - wanted) * upstream;
    }
  }

  template <class T>
  T loss(const T* x, const RowSum<T>& sum, int64_t target) const {
    const T kept = static_cast<T>(1 - smoothing_);
    T result = (sum.log_sum - (x[target] - sum.largest)) * kept;
    if (smoothing_ == 0) return result;
    T all = 0;
    for (int64_t i = 0; i < classes_; ++i) all += sum.log_sum - (x[i] - sum.largest);
    return result + all * static_cast<T>(smoothing_ / static_cast<double>(classes_));
  }

  Kind kind_;
  DType dtype_;
  DType target_dtype_ = i64;
  double smoothing_ = 0;
  int64_t classes_ = 0;
};

// The names stand in the order of the kinds.
constexpr std::string_view kOps[] = {"softmax", "log_softmax", "softmax_cross_entropy",
                                     "softmax_cross_entropy_grad"};

std::optional<Kind> find_kind(const Node& node) {
  const auto op = std::find(std::begin(kOps), std::end(kOps), node.op_name());
  if (op == std::end(kOps)) return std::nullopt;
  return static_cast<Kind>(op - std::begin(kOps));
}

Support supports_rows(const Node& node) {
  if (!find_kind(node)) return {false, "no kernel for it"};
  const DType dtype = node.type().dtype;
  if (dtype != f32 && dtype != f64) return {false, std::string("no kernel for ") + name_of(dtype)};
  if (node.inputs().size() > 1 && !is_integer(node.input(1).dtype())) {
    return {false, "no kernel for weights as targets"};
  }
  return {true, ""};
}

Support supports_softmax(const AnchoredNode& anchored) { return supports_rows(anchored.node()); }

KernelPlan plan_softmax(const AnchoredNode& anchored) {
  const Node& node = anchored.node();
  const Node* const nodes[] = {&node};
  const Shape& shape = node.input(0).shape();
  const int64_t rows = shape.num_elements() / std::max<int64_t>(1, shape.back());
  const int64_t blocks = std::clamp<int64_t>(shape.num_elements() / 8192, 1, 64);
  const int64_t rows_of_block = std::max<int64_t>(1, (rows + blocks - 1) / blocks);
  KernelPlan plan;
  plan.kernel = make_row_kernel(node, make_row_op(nodes), rows_of_block);
  plan.block_dim = plan.kernel->blocks(0);
  return plan;
}

}  // namespace

std::unique_ptr<RowOp> make_row_op(std::span<const Node* const> nodes) {
  if (nodes.size() != 1 || !supports_rows(*nodes[0]).supported) return nullptr;
  return std::make_unique<SoftmaxRows>(*nodes[0], find_kind(*nodes[0]).value());
}

std::span<const KernelRow> softmax_rows() {
  static const KernelRow rows[] = {{.ops = {std::begin(kOps), std::end(kOps)},
                                    .supports = supports_softmax,
                                    .plan = plan_softmax}};
  return rows;
}

}  // namespace keel::cpu
