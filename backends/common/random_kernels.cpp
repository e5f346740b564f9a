#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "keel/backends/common/shared_kernels.h"
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

// Elements [first, first + count) of what a key gives.
using FillFunction = void (*)(const RandomAttributes& attributes, void* out, size_t count,
                              uint64_t key, uint64_t first);

void fill_bools(const RandomAttributes& a, void* out, size_t count, uint64_t key, uint64_t first) {
  fill_bernoulli(static_cast<bool*>(out), count, a.a, key, first);
}
void fill_normals(const RandomAttributes& a, void* out, size_t count, uint64_t key,
                  uint64_t first) {
  fill_normal_elements(a.dtype, out, count, key, first, a.a, a.b);
}
void fill_uniforms(const RandomAttributes& a, void* out, size_t count, uint64_t key,
                   uint64_t first) {
  fill_uniform_elements(a.dtype, out, count, key, first, a.a, a.b);
}

// Elements are functions of the key and their index, so blocks need nothing of one another.
class RandomKernel final : public Kernel {
 public:
  RandomKernel(const Node& node, FillFunction fill, int most_blocks)
      : fill_(fill),
        attributes_(node.as<RandomAttributes>()),
        count_(node.type().shape.num_elements()),
        blocks_(static_cast<int>(std::clamp<int64_t>(count_ / kElementsPerBlock, 1, most_blocks))) {
  }
  int blocks(int) const override { return blocks_; }
  void run(void* const* args, int, int block) const override {
    const int64_t begin = count_ * block / blocks_;
    const auto count = static_cast<size_t>(count_ * (block + 1) / blocks_ - begin);
    const auto first = static_cast<uint64_t>(begin);
    char* out = static_cast<char*>(args[1]) + first * size_of(attributes_.dtype);
    fill_(attributes_, out, count, read_key(args[0]), first);
  }

 private:
  FillFunction fill_;
  RandomAttributes attributes_;
  int64_t count_;
  int blocks_;
};

KernelPlan plan_of(std::unique_ptr<Kernel> kernel, TaskKind kind) {
  KernelPlan plan;
  plan.block_dim = kernel->blocks(0);
  plan.kind = kind;
  plan.kernel = std::move(kernel);
  return plan;
}

template <FillFunction kFill>
KernelPlan plan_random(const Node& node, int most_blocks) {
  return plan_of(std::make_unique<RandomKernel>(node, kFill, most_blocks), TaskKind::kAiVectorCore);
}

KernelPlan plan_fold_key(const Node&, int) {
  return plan_of(std::make_unique<FoldKeyKernel>(), TaskKind::kAiCpu);
}

constexpr SharedKernel kRows[] = {{"fold_key", plan_fold_key},
                                  {"uniform", plan_random<fill_uniforms>},
                                  {"normal", plan_random<fill_normals>},
                                  {"bernoulli", plan_random<fill_bools>}};

}  // namespace

std::span<const SharedKernel> random_kernels() { return kRows; }

}  // namespace keel
