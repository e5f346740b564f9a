#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "keel/backends/common/indices.h"
#include "keel/backends/common/shared_kernels.h"
#include "keel/core/base/gather_rows.h"
#include "keel/core/tensor/convert.h"
#include "keel/ops/gather.h"
#include "keel/ops/reduce.h"

namespace keel {
namespace {

constexpr int64_t kElementsWorthABlock = 32768;

int64_t product(const Shape& shape, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t i = begin; i < end; ++i) n *= shape[i];
  return n;
}

// Phase 0 checks the indices, phase 1 moves the slices, each block its share of the indices.
class GatherKernel final : public Kernel {
 public:
  GatherKernel(const Node& node, int most_blocks) {
    const Shape& x = node.input(0).shape();
    axis_ = node.as<GatherAttributes>().axis;
    const auto axis = static_cast<size_t>(axis_);
    size_ = x[axis];
    outer_ = product(x, 0, axis);
    inner_bytes_ = static_cast<size_t>(product(x, axis + 1, x.rank())) * size_of(node.type().dtype);
    count_ = node.input(1).shape().num_elements();
    index_dtype_ = node.input(1).dtype();
    const int64_t worth = node.type().shape.num_elements() / kElementsWorthABlock;
    blocks_ = static_cast<int>(std::clamp<int64_t>(worth, 1, most_blocks));
  }
  int phases() const override { return 2; }
  int blocks(int phase) const override { return phase == 0 ? 1 : blocks_; }
  void run(void* const* args, int phase, int block) const override {
    with_indices(index_dtype_, args[1], [&](const auto* indices) {
      if (phase == 0) {
        check_indices(indices, count_, size_, "gather", axis_);
        return;
      }
      const auto* x = static_cast<const std::byte*>(args[0]);
      auto* out = static_cast<std::byte*>(args[2]);
      const int64_t all = outer_ * count_;
      const int64_t end = all * (block + 1) / blocks_;
      for (int64_t i = all * block / blocks_; i < end;) {
        const int64_t first = i % count_;
        const int64_t run = std::min(count_ - first, end - i);
        gather_rows(x + static_cast<size_t>(i / count_ * size_) * inner_bytes_, inner_bytes_,
                    std::span(indices + first, static_cast<size_t>(run)),
                    out + static_cast<size_t>(i) * inner_bytes_);
        i += run;
      }
    });
  }

 private:
  int64_t axis_, size_, outer_, count_;
  size_t inner_bytes_;
  DType index_dtype_;
  int blocks_;
};

// One block. Rows that meet are added in ascending order of their position: floats in double,
// rounded once, so all updates of a row are taken together; chains through the workspace tell which
// they are. The output holds x already; an index out of range leaves it so.
class ScatterAddKernel final : public Kernel {
 public:
  explicit ScatterAddKernel(const Node& node)
      : x_(node.type()),
        index_dtype_(node.input(1).dtype()),
        row_(product(x_.shape, 1, x_.shape.rank())),
        count_(node.input(1).shape().num_elements()),
        slots_(slots_for(x_.shape[0], count_)) {}
  size_t workspace_bytes() const {
    if (!is_float(x_.dtype)) return 0;
    return static_cast<size_t>(slots_) * sizeof(Slot) +
           static_cast<size_t>(count_) * sizeof(int64_t);
  }
  void run(void* const* args, int, int) const override {
    if (count_ == 0) return;
    with_indices(index_dtype_, args[1], [&](const auto* indices) {
      check_indices(indices, count_, x_.shape[0], "scatter_add");
      visit_dtype(x_.dtype, [&]<class T>() {
        const auto* updates = static_cast<const T*>(args[2]);
        auto* out = static_cast<T*>(args[3]);
        if constexpr (is_float(dtype_of<T>)) {
          auto* slots = static_cast<Slot*>(args[4]);
          auto* next = reinterpret_cast<int64_t*>(slots + slots_);
          chain(indices, slots, next);
          for (int64_t s = 0; s < slots_; ++s) add_chain(slots[s], next, updates, out);
        } else {
          add_each(indices, updates, out);
        }
      });
    });
  }

 private:
  // The updates of one row: the first, from which `next` leads on; kNone where there are none.
  struct Slot {
    int64_t row;
    int64_t first;
  };
  static constexpr int64_t kNone = -1;

  // One for each row, or fewer where the rows are many more than the indices: a step that writes
  // one row of a long table must not pass over all of it.
  static int64_t slots_for(int64_t rows, int64_t count) {
    const uint64_t enough = std::bit_ceil(2 * static_cast<uint64_t>(count));
    return std::min(rows, static_cast<int64_t>(enough));
  }

  template <class Index>
  void chain(const Index* indices, Slot* slots, int64_t* next) const {
    std::fill_n(slots, slots_, Slot{0, kNone});
    for (int64_t i = count_ - 1; i >= 0; --i) {
      const auto row = static_cast<int64_t>(indices[i]);
      int64_t at = row % slots_;
      while (slots[at].first != kNone && slots[at].row != row) at = (at + 1) % slots_;
      next[i] = slots[at].first;
      slots[at] = {row, i};
    }
  }

  template <class T>
  void add_chain(const Slot& slot, const int64_t* next, const T* updates, T* out) const {
    constexpr int64_t kPiece = 512;
    double totals[kPiece];
    if (slot.first == kNone) return;
    for (int64_t begin = 0; begin < row_; begin += kPiece) {
      const int64_t n = std::min(kPiece, row_ - begin);
      T* to = out + slot.row * row_ + begin;
      for (int64_t k = 0; k < n; ++k) totals[k] = convert_element<double>(to[k]);
      for (int64_t i = slot.first; i != kNone; i = next[i]) {
        const T* from = updates + i * row_ + begin;
        for (int64_t k = 0; k < n; ++k) totals[k] += convert_element<double>(from[k]);
      }
      for (int64_t k = 0; k < n; ++k) to[k] = convert_element<T>(totals[k]);
    }
  }

  // Integers, whose sums do not depend on the order.
  template <class Index, class T>
  void add_each(const Index* indices, const T* updates, T* out) const {
    for (int64_t i = 0; i < count_; ++i) {
      T* to = out + static_cast<int64_t>(indices[i]) * row_;
      for (int64_t k = 0; k < row_; ++k) {
        to[k] = static_cast<T>(static_cast<uint64_t>(to[k]) +
                               static_cast<uint64_t>(updates[i * row_ + k]));
      }
    }
  }

  Type x_;
  DType index_dtype_;
  int64_t row_, count_, slots_;
};

class OneHotKernel final : public Kernel {
 public:
  OneHotKernel(const Node& node, int)
      : out_(node.type()),
        index_dtype_(node.input(0).dtype()),
        count_(node.input(0).shape().num_elements()) {}
  void run(void* const* args, int, int) const override {
    const int64_t depth = out_.shape.back();
    with_indices(index_dtype_, args[0], [&](const auto* ids) {
      check_indices(ids, count_, depth, "one_hot");
      visit_dtype(out_.dtype, [&]<class T>() {
        auto* out = static_cast<T*>(args[1]);
        std::fill_n(out, count_ * depth, convert_element<T>(0.0));
        for (int64_t i = 0; i < count_; ++i) {
          out[i * depth + static_cast<int64_t>(ids[i])] = convert_element<T>(1.0);
        }
      });
    });
  }

 private:
  Type out_;
  DType index_dtype_;
  int64_t count_;
};

class IotaKernel final : public Kernel {
 public:
  IotaKernel(const Node& node, int) : out_(node.type()) {
    const auto axis = static_cast<size_t>(node.as<IotaAttributes>().axis);
    size_ = out_.shape[axis];
    inner_ = product(out_.shape, axis + 1, out_.shape.rank());
  }
  void run(void* const* args, int, int) const override {
    visit_dtype(out_.dtype, [&]<class T>() {
      auto* out = static_cast<T*>(args[0]);
      const int64_t count = out_.shape.num_elements();
      for (int64_t i = 0; i < count; ++i) out[i] = convert_element<T>(i / inner_ % size_);
    });
  }

 private:
  Type out_;
  int64_t size_, inner_;
};

class ArgmaxKernel final : public Kernel {
 public:
  ArgmaxKernel(const Node& node, int most_blocks) : dtype_(node.input(0).dtype()) {
    const Shape& x = node.input(0).shape();
    const auto axis = static_cast<size_t>(node.as<ArgmaxAttributes>().axis);
    count_ = x[axis];
    inner_ = product(x, axis + 1, x.rank());
    results_ = node.type().shape.num_elements();
    blocks_ = static_cast<int>(
        std::clamp<int64_t>(x.num_elements() / kElementsWorthABlock, 1, most_blocks));
  }
  int blocks(int) const override { return blocks_; }
  void run(void* const* args, int, int block) const override {
    visit_dtype(dtype_, [&]<class T>() {
      const auto* x = static_cast<const T*>(args[0]);
      auto* out = static_cast<int64_t*>(args[1]);
      for (int64_t r = results_ * block / blocks_; r < results_ * (block + 1) / blocks_; ++r) {
        out[r] = first_largest(x + r / inner_ * inner_ * count_ + r % inner_);
      }
    });
  }

 private:
  template <class T>
  int64_t first_largest(const T* x) const {
    int64_t best = 0;
    auto held = number(x[0]);
    for (int64_t i = 1; i < count_ && !is_nan(held); ++i) {
      const auto candidate = number(x[i * inner_]);
      if (!(candidate > held) && !is_nan(candidate)) continue;
      held = candidate;
      best = i;
    }
    return best;
  }
  template <class T>
  static auto number(T x) {
    if constexpr (is_half_type<T>)
      return static_cast<float>(x);
    else
      return x;
  }
  template <class T>
  static bool is_nan(T x) {
    if constexpr (std::is_floating_point_v<T>)
      return std::isnan(x);
    else
      return false;
  }
  DType dtype_;
  int64_t count_, inner_, results_;
  int blocks_;
};

template <class IndexKernel>
KernelPlan plan_index(const Node& node, int most_blocks) {
  KernelPlan plan;
  plan.kernel = std::make_unique<IndexKernel>(node, most_blocks);
  plan.block_dim = plan.kernel->blocks(plan.kernel->phases() - 1);
  plan.kind = TaskKind::kAiVectorCore;
  return plan;
}

KernelPlan plan_scatter_add(const Node& node, int) {
  auto kernel = std::make_unique<ScatterAddKernel>(node);
  KernelPlan plan;
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.kind = TaskKind::kAiVectorCore;
  plan.reason = "rows that meet are added in order, by one block";
  plan.in_place = {{.output = 0, .input = 0, .required = true}};
  plan.kernel = std::move(kernel);
  return plan;
}

constexpr SharedKernel kRows[] = {{"gather", plan_index<GatherKernel>},
                                  {"scatter_add", plan_scatter_add},
                                  {"one_hot", plan_index<OneHotKernel>},
                                  {"iota", plan_index<IotaKernel>},
                                  {"argmax", plan_index<ArgmaxKernel>}};

}  // namespace

std::span<const SharedKernel> index_kernels() { return kRows; }

}  // namespace keel
