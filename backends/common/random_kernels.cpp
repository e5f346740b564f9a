#include <algorithm>
#include <cstring>
#include <memory>

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

class FoldKeyKernel final : public RangeKernel {
 public:
  explicit FoldKeyKernel(const Node& node) : RangeKernel(node, {}) {}
  void make(void* const* args, int64_t begin, int64_t end, void*) const override {
    if (begin == end) return;
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

// Elements are functions of the key and their index.
class RandomKernel final : public RangeKernel {
 public:
  RandomKernel(const Node& node, FillFunction fill, int most_blocks)
      : RangeKernel(node, units_of_elements(node, kElementsPerBlock, most_blocks)),
        fill_(fill),
        attributes_(node.as<RandomAttributes>()) {}
  void make(void* const* args, int64_t begin, int64_t end, void*) const override {
    char* out =
        static_cast<char*>(args[1]) + static_cast<size_t>(begin) * size_of(attributes_.dtype);
    fill_(attributes_, out, static_cast<size_t>(end - begin), read_key(args[0]),
          static_cast<uint64_t>(attributes_.first + begin));
  }

 private:
  FillFunction fill_;
  RandomAttributes attributes_;
};

template <FillFunction kFill>
std::unique_ptr<RangeKernel> make_random(const Node& node, int most_blocks) {
  return std::make_unique<RandomKernel>(node, kFill, most_blocks);
}

std::unique_ptr<RangeKernel> make_fold_key(const Node& node, int) {
  return std::make_unique<FoldKeyKernel>(node);
}

constexpr SharedKernel kRandomKernels[] = {made_in_ranges<make_fold_key>("fold_key"),
                                           made_in_ranges<make_random<fill_uniforms>>("uniform"),
                                           made_in_ranges<make_random<fill_normals>>("normal"),
                                           made_in_ranges<make_random<fill_bools>>("bernoulli")};

}  // namespace

std::span<const SharedKernel> random_kernels() { return kRandomKernels; }

}  // namespace keel
