#include <algorithm>
#include <cstring>

#include "keel/backends/common/movement_kernels.h"
#include "keel/core/base/random.h"
#include "keel/ops/random.h"

namespace keel {
namespace {

constexpr int64_t kElementsPerBlock = 4096;

uint64_t read_key(const void* address) {
  uint64_t key = 0;
  std::memcpy(&key, address, sizeof key);
  return key;
}

class FoldKeyKernel final : public Kernel {
 public:
  void run(void* const* args, int, int) const override {
    const uint64_t folded = fold_key(read_key(args[0]), read_key(args[1]));
    std::memcpy(args[2], &folded, sizeof folded);
  }
};

// Elements are functions of the key and their index, so blocks need nothing of one another.
class RandomKernel final : public Kernel {
 public:
  RandomKernel(const Node& node, int most_blocks)
      : op_(node.op_name()),
        attributes_(node.as<RandomAttributes>()),
        count_(node.type().shape.num_elements()),
        blocks_(static_cast<int>(std::clamp<int64_t>(count_ / kElementsPerBlock, 1, most_blocks))) {
  }
  int blocks(int) const override { return blocks_; }
  void run(void* const* args, int, int block) const override {
    const int64_t begin = count_ * block / blocks_;
    const auto count = static_cast<size_t>(count_ * (block + 1) / blocks_ - begin);
    const auto first = static_cast<uint64_t>(begin);
    const uint64_t key = read_key(args[0]);
    char* out = static_cast<char*>(args[1]) + first * size_of(attributes_.dtype);
    const auto& a = attributes_;
    if (op_ == "bernoulli")
      fill_bernoulli(reinterpret_cast<bool*>(out), count, a.a, key, first);
    else if (op_ == "normal")
      fill_normal_elements(a.dtype, out, count, key, first, a.a, a.b);
    else
      fill_uniform_elements(a.dtype, out, count, key, first, a.a, a.b);
  }

 private:
  std::string op_;
  RandomAttributes attributes_;
  int64_t count_;
  int blocks_;
};

}  // namespace

bool has_random_kernel(const Node& node) {
  const std::string& op = node.op_name();
  return op == "fold_key" || op == "uniform" || op == "normal" || op == "bernoulli";
}

KernelPlan plan_random(const Node& node, int most_blocks) {
  KernelPlan plan;
  if (node.op_name() == "fold_key")
    plan.kernel = std::make_unique<FoldKeyKernel>();
  else
    plan.kernel = std::make_unique<RandomKernel>(node, most_blocks);
  plan.block_dim = plan.kernel->blocks(0);
  plan.kind = node.op_name() == "fold_key" ? TaskKind::kAiCpu : TaskKind::kAiVectorCore;
  return plan;
}

}  // namespace keel
