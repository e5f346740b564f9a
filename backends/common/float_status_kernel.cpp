#include "keel/backends/common/float_status_kernel.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

namespace keel {
namespace {

class StatusReadKernel final : public Kernel {
 public:
  explicit StatusReadKernel(size_t words) : words_(words) {}
  void run(void* const* args, int, int) const override {
    *static_cast<bool*>(args[words_]) = std::any_of(args, args + words_, [](const void* word) {
      return *static_cast<const uint32_t*>(word) != 0;
    });
  }

 private:
  size_t words_;
};

}  // namespace

KernelPlan plan_status_read(size_t words) {
  KernelPlan plan;
  plan.kernel = std::make_unique<StatusReadKernel>(words);
  plan.kind = TaskKind::kAiVectorCore;
  plan.reason = "the status of " + std::to_string(words) + (words == 1 ? " launch" : " launches");
  return plan;
}

}  // namespace keel
