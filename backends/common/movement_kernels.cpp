#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "keel/backends/common/host_backend.h"
#include "keel/backends/common/shared_kernels.h"
#include "keel/core/tensor/convert.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel {
namespace {

using Dims = std::array<int64_t, Shape::kMaxRank>;

// A box of elements: element (i0, i1, ...) goes from src_offset + sum(i * src) to dst_offset +
// sum(i * dst), strides in elements. Source strides may be 0 or negative; an index of an axis goes
// behind all elements of the one before.
struct Box {
  size_t rank = 0;
  Dims dims{};
  Dims src{};
  Dims dst{};
  int64_t src_offset = 0;
  int64_t dst_offset = 0;
  size_t source = 0;  // which input

  void add(int64_t dim, int64_t src_stride, int64_t dst_stride) {
    if (dim == 1 && rank > 0) return;
    if (rank > 0 && src[rank - 1] == src_stride * dim && dst[rank - 1] == dst_stride * dim) {
      dims[rank - 1] *= dim;
      src[rank - 1] = src_stride;
      dst[rank - 1] = dst_stride;
      return;
    }
    if (rank > 0 && dims[rank - 1] == 1) --rank;
    dims[rank] = dim;
    src[rank] = src_stride;
    dst[rank++] = dst_stride;
  }
  int64_t count() const {
    int64_t n = 1;
    for (size_t i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
};

// Copies rows of `bytes`. A call for each takes longer than a short row: those are copied here.
void copy_rows(const char* src, int64_t src_step, char* dst, int64_t dst_step, int64_t rows,
               size_t bytes) {
  constexpr size_t kPiece = 64, kShort = 512;
  if (bytes % kPiece != 0 || bytes > kShort) {
    for (int64_t r = 0; r < rows; ++r, src += src_step, dst += dst_step)
      std::memcpy(dst, src, bytes);
    return;
  }
  for (int64_t r = 0; r < rows; ++r, src += src_step, dst += dst_step) {
    for (size_t at = 0; at < bytes; at += kPiece) std::memcpy(dst + at, src + at, kPiece);
  }
}

template <class T>
void copy_plane(const T* src, T* dst, const Box& box) {
  // The two innermost axes in squares, so that one of the two sides stays in cache whatever the
  // strides.
  constexpr int64_t kSquare = 16;
  const size_t last = box.rank - 1;
  const int64_t rows = box.rank > 1 ? box.dims[last - 1] : 1;
  const int64_t row_src = box.rank > 1 ? box.src[last - 1] : 0;
  const int64_t row_dst = box.rank > 1 ? box.dst[last - 1] : 0;
  const int64_t cols = box.dims[last];
  const int64_t col_src = box.src[last];
  const int64_t col_dst = box.dst[last];
  if (col_src == 1 && col_dst == 1) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    return copy_rows(reinterpret_cast<const char*>(src), row_src * kSize,
                     reinterpret_cast<char*>(dst), row_dst * kSize, rows,
                     static_cast<size_t>(cols) * sizeof(T));
  }
  if (col_src == 0 && col_dst == 1) {
    for (int64_t r = 0; r < rows; ++r) std::fill_n(dst + r * row_dst, cols, src[r * row_src]);
    return;
  }
  for (int64_t r0 = 0; r0 < rows; r0 += kSquare) {
    const int64_t r1 = std::min(rows, r0 + kSquare);
    for (int64_t c0 = 0; c0 < cols; c0 += kSquare) {
      const int64_t c1 = std::min(cols, c0 + kSquare);
      for (int64_t r = r0; r < r1; ++r) {
        const T* from = src + r * row_src;
        T* to = dst + r * row_dst;
        for (int64_t c = c0; c < c1; ++c) to[c * col_dst] = from[c * col_src];
      }
    }
  }
}

template <class T>
void copy_box(const void* source, void* destination, const Box& box) {
  if (box.count() == 0) return;
  const T* src = static_cast<const T*>(source) + box.src_offset;
  T* dst = static_cast<T*>(destination) + box.dst_offset;
  const size_t outer = box.rank > 2 ? box.rank - 2 : 0;
  Dims index{};
  for (;;) {
    copy_plane(src, dst, box);
    size_t axis = outer;
    for (; axis-- > 0;) {
      src += box.src[axis];
      dst += box.dst[axis];
      if (++index[axis] < box.dims[axis]) break;
      src -= box.src[axis] * box.dims[axis];
      dst -= box.dst[axis] * box.dims[axis];
      index[axis] = 0;
    }
    if (axis == static_cast<size_t>(-1)) return;
  }
}

void copy_box(const void* source, void* destination, const Box& box, size_t element_size) {
  switch (element_size) {
    case 1:
      copy_box<uint8_t>(source, destination, box);
      break;
    case 2:
      copy_box<uint16_t>(source, destination, box);
      break;
    case 4:
      copy_box<uint32_t>(source, destination, box);
      break;
    default:
      copy_box<uint64_t>(source, destination, box);
      break;
  }
}

// Returns indices [first, last) of the outermost axis.
Box sliced(Box box, int64_t first, int64_t last) {
  box.src_offset += first * box.src[0];
  box.dst_offset += first * box.dst[0];
  box.dims[0] = last - first;
  return box;
}

// Returns index `i` of the outermost axis, without this axis.
Box inner(const Box& box, int64_t i) {
  Box rest = sliced(box, i, i + 1);
  --rest.rank;
  for (size_t axis = 0; axis < rest.rank; ++axis) {
    rest.dims[axis] = box.dims[axis + 1];
    rest.src[axis] = box.src[axis + 1];
    rest.dst[axis] = box.dst[axis + 1];
  }
  return rest;
}

int64_t divide_down(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// Copies the part of a box that goes to elements [begin, end) of the destination. Destinations
// ascend along a box, so that of each axis some indices are inside as a whole and at most two in
// part.
void copy_range(const void* source, void* destination, const Box& box, size_t element_size,
                int64_t begin, int64_t end) {
  if (box.count() == 0) return;
  const int64_t pitch = box.dst[0], dim = box.dims[0];
  int64_t behind = 0;  // from the first element of an index to its last
  for (size_t i = 1; i < box.rank; ++i) behind += (box.dims[i] - 1) * box.dst[i];
  const auto indices_up_to = [&](int64_t element) {  // that begin at `element` or before
    return std::clamp<int64_t>(divide_down(element - box.dst_offset, pitch) + 1, 0, dim);
  };
  const int64_t touched = indices_up_to(begin - behind - 1), touched_end = indices_up_to(end - 1);
  const int64_t whole = indices_up_to(begin - 1), whole_end = indices_up_to(end - 1 - behind);
  for (int64_t i = touched; i < touched_end; ++i) {
    if (i == whole && whole < whole_end) {
      copy_box(source, destination, sliced(box, whole, whole_end), element_size);
      i = whole_end - 1;
    } else {
      copy_range(source, destination, inner(box, i), element_size, begin, end);
    }
  }
}

// Where there is a fill, a range gets it before the boxes are copied.
class MovementKernel final : public RangeKernel {
 public:
  // `fill`: what the elements have that no box reaches.
  MovementKernel(std::vector<Box> boxes, const Node& node, int most_blocks,
                 std::optional<double> fill)
      : RangeKernel(node, units_of_elements(node, kMovedElementsWorthABlock, most_blocks)),
        boxes_(std::move(boxes)),
        element_size_(size_of(node.type().dtype)),
        inputs_(node.inputs().size()) {
    if (fill) {
      fill_.resize(element_size_);
      visit_dtype(node.type().dtype, [&]<class T>() {
        const T value = convert_element<T>(*fill);
        std::memcpy(fill_.data(), &value, sizeof value);
      });
    }
  }
  void make(void* const* args, int64_t begin, int64_t end, void*) const override {
    void* out = args[inputs_];
    if (!fill_.empty()) {
      Box all;
      all.dst_offset = begin;
      all.add(end - begin, 0, 1);
      copy_box(fill_.data(), out, all, element_size_);
    }
    for (const Box& box : boxes_) {
      copy_range(args[box.source], out, box, element_size_, begin, end);
    }
  }

 private:
  std::vector<Box> boxes_;
  size_t element_size_;
  size_t inputs_;
  std::vector<char> fill_;
};

Box transpose_box(const Node& node) {
  const Shape& out = node.type().shape;
  const auto src = node.input(0).shape().strides();
  const auto dst = out.strides();
  const auto& perm = node.as<TransposeAttributes>().perm;
  Box box;
  for (size_t i = 0; i < out.rank(); ++i) {
    box.add(out[i], src[static_cast<size_t>(perm[i])], dst[i]);
  }
  return box;
}

Box broadcast_box(const Node& node) {
  const Shape& in = node.input(0).shape();
  const Shape& out = node.type().shape;
  const auto src = in.strides();
  const auto dst = out.strides();
  Box box;
  for (size_t i = 0; i < out.rank(); ++i) {
    const size_t from_end = out.rank() - i;
    const bool repeats = from_end > in.rank() || in[in.rank() - from_end] == 1;
    box.add(out[i], repeats ? 0 : src[in.rank() - from_end], dst[i]);
  }
  return box;
}

Box slice_box(const Node& node) {
  const Shape& in = node.input(0).shape();
  const auto src = in.strides();
  const auto dst = node.type().shape.strides();
  Box box;
  for (size_t i = 0; i < in.rank(); ++i) {
    const SliceBounds bounds = slice_bounds(node.as<SliceAttributes>(), i, in[i]);
    box.src_offset += bounds.first * src[i];
    box.add(bounds.size, bounds.stride * src[i], dst[i]);
  }
  return box;
}

Box pad_box(const Node& node) {
  const Shape& in = node.input(0).shape();
  const auto src = in.strides();
  const auto dst = node.type().shape.strides();
  const auto& pad = node.as<PadAttributes>();
  Box box;
  for (size_t i = 0; i < in.rank(); ++i) {
    box.dst_offset += pad.low[i] * dst[i];
    const int64_t apart = pad.interior.empty() ? 1 : pad.interior[i] + 1;
    box.add(in[i], src[i], dst[i] * apart);
  }
  return box;
}

std::vector<Box> concat_boxes(const Node& node) {
  const auto axis = static_cast<size_t>(node.as<ConcatAttributes>().axis);
  const auto dst = node.type().shape.strides();
  std::vector<Box> boxes;
  int64_t at = 0;
  for (size_t input = 0; input < node.inputs().size(); ++input) {
    const Shape& in = node.input(input).shape();
    const auto src = in.strides();
    Box box;
    box.source = input;
    box.dst_offset = at * dst[axis];
    for (size_t i = 0; i < in.rank(); ++i) box.add(in[i], src[i], dst[i]);
    boxes.push_back(box);
    at += in[axis];
  }
  return boxes;
}

std::unique_ptr<RangeKernel> make_boxes(std::vector<Box> boxes, const Node& node, int most_blocks,
                                        std::optional<double> fill = {}) {
  for (Box& box : boxes) {
    if (box.rank == 0) box.add(1, 1, 1);
  }
  return std::make_unique<MovementKernel>(std::move(boxes), node, most_blocks, fill);
}

template <Box (*kBoxOf)(const Node&)>
std::unique_ptr<RangeKernel> make_box(const Node& node, int most_blocks) {
  return make_boxes({kBoxOf(node)}, node, most_blocks);
}

std::unique_ptr<RangeKernel> make_pad(const Node& node, int most_blocks) {
  return make_boxes({pad_box(node)}, node, most_blocks, node.as<PadAttributes>().value);
}

std::unique_ptr<RangeKernel> make_concat(const Node& node, int most_blocks) {
  return make_boxes(concat_boxes(node), node, most_blocks);
}

KernelPlan plan_transfer(const Node& node, int) {
  KernelPlan plan;
  plan.kernel = make_copy_kernel(node.type().shape.num_bytes(node.type().dtype));
  plan.kind = TaskKind::kMemcpy;
  return plan;
}

constexpr SharedKernel kMovementKernels[] = {
    made_in_ranges<make_box<transpose_box>>("transpose"),
    made_in_ranges<make_box<broadcast_box>>("broadcast_to"),
    made_in_ranges<make_box<slice_box>>("slice"),
    made_in_ranges<make_pad>("pad"),
    made_in_ranges<make_concat>("concat"),
    {"transfer", plan_transfer}};

}  // namespace

std::span<const SharedKernel> movement_kernels() { return kMovementKernels; }

}  // namespace keel
