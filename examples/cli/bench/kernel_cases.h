// KernelCase: one kernel that `keel bench kernels` measures: how a user would build it, and the
// work it does. Plain values.
#ifndef KEEL_EXAMPLES_CLI_BENCH_KERNEL_CASES_H
#define KEEL_EXAMPLES_CLI_BENCH_KERNEL_CASES_H

#include <functional>
#include <string>
#include <vector>

#include <keel/keel.h>

#include "cli/bench/machine_peaks.h"

namespace keel_cli {

struct KernelCase {
  std::string kind;  // "products", "elementwise", "sums", "softmax"
  std::string name;  // "512x512x512"
  keel::DType dtype = keel::f32;
  double flop = 0;   // of one run; a function such as exp counts as one for each element
  double bytes = 0;  // of operands and result, each once
  Traffic traffic = Traffic::kRead;  // which bandwidth limits it
  std::function<keel::Value(keel::Graph&)> build;
};

struct KernelChoice {
  std::vector<std::string> kinds;
  std::vector<int64_t> sizes;  // of square products
  std::vector<keel::DType> dtypes;
  std::vector<int64_t> kib;  // of element-wise operands
};
const std::vector<std::string>& kernel_kinds();
std::vector<KernelCase> kernel_cases(const KernelChoice& choice);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_KERNEL_CASES_H
