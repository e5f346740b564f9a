#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "keel/backends/cpu/kernels.h"
#include "keel/core/base/error.h"
#include "keel/ops/loss.h"

namespace keel::cpu {
namespace {

// One row: its largest element and log(sum(exp(x - largest))).
template <class T>
struct RowSum {
  T largest;
  T log_sum;
};

template <class T>
RowSum<T> sum_row(const T* x, int64_t classes) {
  T largest = x[0];
  for (int64_t i = 1; i < classes; ++i) largest = x[i] > largest || x[i] != x[i] ? x[i] : largest;
  T sum = 0;
  for (int64_t i = 0; i < classes; ++i) sum += std::exp(x[i] - largest);
  return {largest, std::log(sum)};
}

enum class Kind { kSoftmax, kLogSoftmax, kLoss, kGradient };

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(const Node& node, Kind kind) : kind_(kind), dtype_(node.type().dtype) {
    const Shape& logits = node.input(0).shape();
    classes_ = logits.back();
    rows_ = classes_ == 0 ? 0 : logits.num_elements() / classes_;
    if (kind == Kind::kLoss || kind == Kind::kGradient) {
      target_dtype_ = node.input(1).dtype();
      smoothing_ = node.as<CrossEntropyOptions>().label_smoothing;
    }
    blocks_ = static_cast<int>(std::clamp<int64_t>(rows_ * classes_ / 8192, 1, 64));
  }
  // Class ids are checked before anything is written.
  int phases() const override {
    return kind_ == Kind::kSoftmax || kind_ == Kind::kLogSoftmax ? 1 : 2;
  }
  int blocks(int phase) const override { return phase + 1 == phases() ? blocks_ : 1; }
  void run(void* const* args, int phase, int block) const override {
    if (phase + 1 < phases()) {
      check_ids(args[1]);
      return;
    }
    if (dtype_ == f64)
      run_rows<double>(args, block);
    else
      run_rows<float>(args, block);
  }

 private:
  int64_t id(const void* ids, int64_t row) const {
    if (target_dtype_ == i64) return static_cast<const int64_t*>(ids)[row];
    if (target_dtype_ == i32) return static_cast<const int32_t*>(ids)[row];
    return static_cast<const uint8_t*>(ids)[row];
  }

  void check_ids(const void* ids) const {
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t target = id(ids, row);
      if (target >= 0 && target < classes_) continue;
      throw Error({.op = "softmax_cross_entropy",
                   .argument = "targets",
                   .expected = "class ids from 0 to " + std::to_string(classes_ - 1),
                   .got = std::to_string(target) + " in row " + std::to_string(row)});
    }
  }

  template <class T>
  void run_rows(void* const* args, int block) const {
    for (int64_t row = rows_ * block / blocks_; row < rows_ * (block + 1) / blocks_; ++row) {
      run_row<T>(args, row);
    }
  }

  template <class T>
  void run_row(void* const* args, int64_t row) const {
    const T* x = static_cast<const T*>(args[0]) + row * classes_;
    const RowSum<T> sum = sum_row(x, classes_);
    if (kind_ == Kind::kLoss) {
      static_cast<T*>(args[2])[row] = loss(x, sum, id(args[1], row));
      return;
    }
    const bool gradient = kind_ == Kind::kGradient;
    T* out = static_cast<T*>(args[gradient ? 3 : 1]) + row * classes_;
    const T upstream = gradient ? static_cast<const T*>(args[2])[row] : T{1};
    const T spread = static_cast<T>(smoothing_ / static_cast<double>(classes_));
    for (int64_t i = 0; i < classes_; ++i) {
      const T logarithm = (x[i] - sum.largest) - sum.log_sum;
      if (kind_ == Kind::kLogSoftmax)
        out[i] = logarithm;
      else
        out[i] = std::exp(logarithm);
    }
    if (!gradient) return;
    const int64_t target = id(args[1], row);
    for (int64_t i = 0; i < classes_; ++i) {
      const T wanted = i == target ? static_cast<T>(1 - smoothing_) + spread : spread;
      out[i] = (out[i] - wanted) * upstream;
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
  int64_t rows_ = 0;
  int blocks_ = 1;
};

Kind kind_of(const std::string& op) {
  if (op == "softmax") return Kind::kSoftmax;
  if (op == "log_softmax") return Kind::kLogSoftmax;
  return op == "softmax_cross_entropy" ? Kind::kLoss : Kind::kGradient;
}

}  // namespace

Support supports_softmax(const Node& node) {
  const std::string& op = node.op_name();
  if (op != "softmax" && op != "log_softmax" && op != "softmax_cross_entropy" &&
      op != "softmax_cross_entropy_grad") {
    return {false, "no kernel for it"};
  }
  const DType dtype = node.type().dtype;
  if (dtype != f32 && dtype != f64) return {false, std::string("no kernel for ") + name_of(dtype)};
  if (node.inputs().size() > 1 && !is_integer(node.input(1).dtype())) {
    return {false, "no kernel for weights as targets"};
  }
  return {true, ""};
}

KernelPlan plan_softmax(const Node& node) {
  KernelPlan plan;
  plan.kernel = std::make_unique<SoftmaxKernel>(node, kind_of(node.op_name()));
  plan.block_dim = plan.kernel->blocks(plan.kernel->phases() - 1);
  return plan;
}

}  // namespace keel::cpu
