#include "keel/backends/common/shared_kernels.h"

namespace keel {

const SharedKernel* find_shared_kernel(const Node& node) {
  for (const auto family : {movement_kernels(), index_kernels(), random_kernels(), sort_kernels(),
                            scan_kernels(), pool_kernels(), attention_kernels()}) {
    for (const SharedKernel& kernel : family) {
      if (kernel.op == node.op_name()) return &kernel;
    }
  }
  return nullptr;
}

Support supports_shared_kernel(const Node& node) {
  const SharedKernel* kernel = find_shared_kernel(node);
  if (kernel == nullptr) return {false, "no kernel for it"};
  return kernel->supports == nullptr ? Support{true, ""} : kernel->supports(node);
}

}  // namespace keel
