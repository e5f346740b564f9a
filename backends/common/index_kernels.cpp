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
#include "keel/backends/common/row_accumulator.h"
#include "keel/backends/common/shared_kernels.h"
#include "keel/core/base/gather_rows.h"
#include "keel/core/tensor/convert.h"
#include "keel/graph/ir/table_attributes.h"
#include "keel/ops/gather.h"
#include "keel/ops/reduce.h"

namespace keel {
namespace {

int64_t product(const Shape& shape, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t i = begin; i < end; ++i) n *= shape[i];
  return n;
}

// A range of elements may begin and end inside a slice.
class GatherKernel final : public RangeKernel {
 public:
  GatherKernel(const Node& node, int most_blocks)
      : RangeKernel(node, units_of_elements(node, kMovedElementsWorthABlock, most_blocks)),
        axis_(node.as<GatherAttributes>().axis),
        element_size_(size_of(node.type().dtype)),
        count_(node.input(1).shape().num_elements()),
        index_dtype_(node.input(1).dtype()) {
    const Shape& x = node.input(0).shape();
    const auto axis = static_cast<size_t>(axis_);
    size_ = x[axis];
    inner_ = product(x, axis + 1, x.rank());
  }
  bool checks() const override { return true; }
  void check(void* const* args) const override {
    with_indices(index_dtype_, args[1], [&](const auto* indices) {
      check_indices(indices, count_, size_, "gather", axis_);
    });
  }
  void make(void* const* args, int64_t begin, int64_t end, void*) const override {
    if (begin == end) return;
    with_indices(index_dtype_, args[1], [&](const auto* indices) {
      if (begin % inner_ != 0) {
        const int64_t to = std::min(end, (begin / inner_ + 1) * inner_);
        copy_part(args, indices, begin, to);
        begin = to;
      }
      const int64_t whole = end / inner_ * inner_;
      if (begin < whole) copy_slices(args, indices, begin / inner_, whole / inner_);
      if (begin < end && whole < end) copy_part(args, indices, std::max(begin, whole), end);
    });
  }

 private:
  template <class Index>
  void copy_slices(void* const* args, const Index* indices, int64_t begin, int64_t end) const {
    const auto* x = static_cast<const std::byte*>(args[0]);
    auto* out = static_cast<std::byte*>(args[2]);
    const size_t bytes = static_cast<size_t>(inner_) * element_size_;
    for (int64_t i = begin; i < end;) {
      const int64_t first = i % count_;
      const int64_t run = std::min(count_ - first, end - i);
      gather_rows(x + static_cast<size_t>(i / count_ * size_) * bytes, bytes,
                  std::span(indices + first, static_cast<size_t>(run)),
                  out + static_cast<size_t>(i) * bytes);
      i += run;
    }
  }

  // Elements of one slice.
  template <class Index>
  void copy_part(void* const* args, const Index* indices, int64_t begin, int64_t end) const {
    const int64_t slice = begin / inner_;
    const int64_t row = slice / count_ * size_ + static_cast<int64_t>(indices[slice % count_]);
    std::memcpy(static_cast<char*>(args[2]) + static_cast<size_t>(begin) * element_size_,
                static_cast<const char*>(args[0]) +
                    static_cast<size_t>(row * inner_ + begin % inner_) * element_size_,
                static_cast<size_t>(end - begin) * element_size_);
  }

  int64_t axis_;
  size_t element_size_;
  int64_t count_;
  DType index_dtype_;
  int64_t size_ = 0, inner_ = 1;
};

// Rows that meet are added in ascending order of their position and rounded once, so all updates of
// a row are taken together; chains through the workspace, made in a phase before, tell which they
// are. Blocks share the columns. The output holds x already; an index out of range leaves it so.
class ScatterAddKernel final : public Kernel {
 public:
  ScatterAddKernel(const Node& node, int most_blocks)
      : x_(node.type()),
        index_dtype_(node.input(1).dtype()),
        row_(product(x_.shape, 1, x_.shape.rank())),
        count_(node.input(1).shape().num_elements()),
        slots_(slots_for(x_.shape[0], count_)),
        blocks_(static_cast<int>(
            std::clamp<int64_t>(blocks_worth(node.input(2).shape().num_elements(),
                                             kMovedElementsWorthABlock, most_blocks),
                                1, std::max<int64_t>(1, row_ / kPiece)))) {}
  size_t workspace_bytes() const {
    return static_cast<size_t>(slots_) * sizeof(Slot) +
           static_cast<size_t>(count_) * sizeof(int64_t);
  }
  int phases() const override { return 2; }
  int blocks(int phase) const override { return phase == 0 ? 1 : blocks_; }
  void run(void* const* args, int phase, int block) const override {
    if (count_ == 0) return;
    auto* slots = static_cast<Slot*>(args[4]);
    auto* next = reinterpret_cast<int64_t*>(slots + slots_);
    if (phase == 0) {
      with_indices(index_dtype_, args[1], [&](const auto* indices) {
        check_indices(indices, count_, x_.shape[0], "scatter_add");
        chain(indices, slots, next);
      });
      return;
    }
    const int64_t begin = row_ * block / blocks_, end = row_ * (block + 1) / blocks_;
    visit_dtype(x_.dtype, [&]<class T>() {
      for (int64_t s = 0; s < slots_; ++s) {
        if (slots[s].first == kNone) continue;
        add_chain(slots[s], next, static_cast<const T*>(args[2]), static_cast<T*>(args[3]), begin,
                  end);
      }
    });
  }

 private:
  // The updates of one row: the first, from which `next` leads on; kNone where there are none.
  struct Slot {
    int64_t row;
    int64_t first;
  };
  static constexpr int64_t kNone = -1;
  static constexpr int64_t kPiece = 512;  // elements that are summed at once

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

  // Columns [begin, end) of the updates of one row.
  template <class T>
  void add_chain(const Slot& slot, const int64_t* next, const T* updates, T* out, int64_t begin,
                 int64_t end) const {
    T* row = out + slot.row * row_;
    if (next[slot.first] == kNone) {
      const T* only = updates + slot.first * row_;
      return RowAccumulator<T>::add_one(only + begin, row + begin, end - begin);
    }
    typename RowAccumulator<T>::Sum totals[kPiece];
    for (int64_t at = begin; at < end; at += kPiece) {
      RowAccumulator<T> sums(totals, std::min(kPiece, end - at));
      sums.begin(row + at);
      for (int64_t i = slot.first; i != kNone; i = next[i]) sums.add(updates + i * row_ + at);
      sums.round(row + at);
    }
  }

  Type x_;
  DType index_dtype_;
  int64_t row_, count_, slots_;
  int blocks_;
};

class OneHotKernel final : public RangeKernel {
 public:
  OneHotKernel(const Node& node, int most_blocks)
      : RangeKernel(node, units_of_elements(node, kMovedElementsWorthABlock, most_blocks)),
        out_(node.type()),
        index_dtype_(node.input(0).dtype()),
        count_(node.input(0).shape().num_elements()) {}
  bool checks() const override { return true; }
  void check(void* const* args) const override {
    with_indices(index_dtype_, args[0], [&](const auto* ids) {
      check_indices(ids, count_, out_.shape.back(), "one_hot", {}, "ids");
    });
  }
  void make(void* const* args, int64_t begin, int64_t end, void*) const override {
    if (begin == end) return;
    const int64_t depth = out_.shape.back();
    with_indices(index_dtype_, args[0], [&](const auto* ids) {
      visit_dtype(out_.dtype, [&]<class T>() {
        auto* out = static_cast<T*>(args[1]);
        std::fill(out + begin, out + end, convert_element<T>(0.0));
        for (int64_t i = begin / depth; i * depth < end; ++i) {
          const int64_t one = i * depth + static_cast<int64_t>(ids[i]);
          if (one >= begin && one < end) out[one] = convert_element<T>(1.0);
        }
      });
    });
  }

 private:
  Type out_;
  DType index_dtype_;
  int64_t count_;
};

class IotaKernel final : public RangeKernel {
 public:
  IotaKernel(const Node& node, int most_blocks)
      : RangeKernel(node, units_of_elements(node, kMovedElementsWorthABlock, most_blocks)),
        dtype_(node.type().dtype) {
    const Shape& shape = node.type().shape;
    const auto axis = static_cast<size_t>(node.as<IotaAttributes>().axis);
    size_ = shape[axis];
    inner_ = product(shape, axis + 1, shape.rank());
  }
  void make(void* const* args, int64_t begin, int64_t end, void*) const override {
    visit_dtype(dtype_, [&]<class T>() {
      auto* out = static_cast<T*>(args[0]);
      for (int64_t i = begin; i < end; ++i) out[i] = convert_element<T>(i / inner_ % size_);
    });
  }

 private:
  DType dtype_;
  int64_t size_ = 0, inner_ = 1;
};

class ArgmaxKernel final : public RangeKernel {
 public:
  ArgmaxKernel(const Node& node, int most_blocks)
      : RangeKernel(node, {node.type().shape.num_elements(),
                           blocks_worth(node.input(0).shape().num_elements(),
                                        kMovedElementsWorthABlock, most_blocks)}),
        dtype_(node.input(0).dtype()) {
    const Shape& x = node.input(0).shape();
    const auto axis = static_cast<size_t>(node.as<ArgmaxAttributes>().axis);
    count_ = x[axis];
    inner_ = product(x, axis + 1, x.rank());
  }
  int64_t line() const override { return count_; }
  int64_t line_step() const override { return inner_; }
  std::unique_ptr<RangeKernel> of_lines_together() const override {
    auto kernel = std::make_unique<ArgmaxKernel>(*this);
    kernel->inner_ = 1;
    return kernel;
  }
  void make(void* const* args, int64_t begin, int64_t end, void*) const override {
    visit_dtype(dtype_, [&]<class T>() {
      const auto* x = static_cast<const T*>(args[0]);
      auto* out = static_cast<int64_t*>(args[1]);
      for (int64_t r = begin; r < end; ++r) {
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
  int64_t count_ = 0, inner_ = 1;
};

class TableKernel final : public RangeKernel {
 public:
  TableKernel(const Node& node, int most_blocks)
      : RangeKernel(node, units_of_elements(node, kMovedElementsWorthABlock, most_blocks)),
        table_(node.as<TableAttributes>()),
        key_dtype_(node.input(0).dtype()) {}
  void make(void* const* args, int64_t begin, int64_t end, void*) const override {
    const auto keys = table_.keys.data<int64_t>(), values = table_.values.data<int64_t>();
    auto* out = static_cast<int64_t*>(args[1]);
    with_indices(key_dtype_, args[0], [&](const auto* asked) {
      for (int64_t i = begin; i < end; ++i) {
        out[i] = lookup_sorted(keys, values, static_cast<int64_t>(asked[i]), table_.default_value);
      }
    });
  }

 private:
  TableAttributes table_;
  DType key_dtype_;
};

template <class IndexKernel>
std::unique_ptr<RangeKernel> make_index(const Node& node, int most_blocks) {
  return std::make_unique<IndexKernel>(node, most_blocks);
}

KernelPlan plan_scatter_add(const Node& node, int most_blocks) {
  auto kernel = std::make_unique<ScatterAddKernel>(node, most_blocks);
  KernelPlan plan;
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.kind = TaskKind::kAiVectorCore;
  plan.reason = "rows that meet are added in order, blocks share the columns";
  plan.block_dim = kernel->blocks(1);
  plan.in_place = {{.output = 0, .input = 0, .required = true}};
  plan.kernel = std::move(kernel);
  return plan;
}

constexpr SharedKernel kIndexKernels[] = {made_in_ranges<make_index<GatherKernel>>("gather"),
                                          {"scatter_add", plan_scatter_add},
                                          made_in_ranges<make_index<OneHotKernel>>("one_hot"),
                                          made_in_ranges<make_index<IotaKernel>>("iota"),
                                          made_in_ranges<make_index<ArgmaxKernel>>("argmax"),
                                          made_in_ranges<make_index<TableKernel>>("table_lookup")};

}  // namespace

std::span<const SharedKernel> index_kernels() { return kIndexKernels; }

}  // namespace keel
