#include "keel/ops/composed/indexing.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "keel/graph/ir/graph.h"
#include "keel/ops/axes.h"
#include "keel/ops/composed/at_least.h"
#include "keel/ops/composed/offsets_along.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel {
namespace {

constexpr const char* kOp = "indexing";

[[noreturn]] void fail_indexing(const std::string& argument, const std::string& expected,
                                const std::string& got, CallSite site,
                                const std::string& fix = "") {
  throw Error({.op = kOp,
               .argument = argument,
               .expected = expected,
               .got = got,
               .fix = fix,
               .site = site});
}

std::string axis_of(size_t axis, const Shape& shape) {
  return "axis " + std::to_string(axis) + " of " + to_string(shape);
}

template <class Kind>
bool is(const Index& index) {
  return std::holds_alternative<Kind>(index.kind());
}

// Returns one index for each axis of x, and the new ones among them: what was left out filled in.
std::vector<Index> complete(const Indices& indices, const Shape& shape) {
  std::vector<Index> all;
  size_t named = 0, rests = 0;
  for (const Index& index : indices.list()) {
    named += is<Ellipsis>(index) || is<NewAxis>(index) ? 0 : 1;
    rests += is<Ellipsis>(index) ? 1 : 0;
  }
  if (named > shape.rank()) {
    fail_indexing(
        "", "at most " + std::to_string(shape.rank()) + " indices, for shape " + to_string(shape),
        std::to_string(named), indices.site());
  }
  if (rests > 1) fail_indexing("", "at most one ellipsis", std::to_string(rests), indices.site());
  const size_t rest = shape.rank() - named;
  for (const Index& index : indices.list()) {
    if (is<Ellipsis>(index))
      all.insert(all.end(), rest, Index(_));
    else
      all.push_back(index);
  }
  if (rests == 0) all.insert(all.end(), rest, Index(_));
  return all;
}

// A Value among the indices, and its axis: of what was cut and dropped, and x's own.
struct Chosen {
  Value indices;
  int64_t axis, own;
};

// Indices along an axis of this size that is not made one with others.
struct Apart {
  Value indices;
  int64_t size;
};

std::vector<int64_t> counted_from(size_t first, size_t count) {
  std::vector<int64_t> axes(count);
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(first));
  return axes;
}

// Applies indices to a value one kind after the other. Axes are those of x until drop().
class Indexing {
 public:
  Indexing(Value x, const Indices& indices)
      : value_(x), shape_(x.shape()), site_(indices.site()), all_(complete(indices, shape_)) {}

  Value apply() {
    cut();
    drop();
    take();
    insert();
    return value_;
  }

 private:
  // Ranges, and the numbers that a slice of one element can stand for.
  void cut() {
    SliceAttributes box;
    bool whole = true;
    for (const Index& index : all_) {
      if (is<NewAxis>(index)) continue;
      const size_t axis = box.begin.size();
      box.begin.push_back(0);
      box.end.push_back(kToEnd);
      box.strides.push_back(1);
      if (const auto* range = std::get_if<Range>(&index.kind())) {
        if (range->step == 0)
          fail_indexing(axis_of(axis, shape_), "a step other than 0", "0", site_);
        const bool backwards = range->step < 0;
        box.begin.back() = range->begin.value_or(backwards ? kToEnd : 0);
        box.end.back() = range->end.value_or(backwards ? kToStart : kToEnd);
        box.strides.back() = range->step;
        whole = whole && range->begin.value_or(0) == 0 && !range->end && range->step == 1;
      } else if (const auto* number = std::get_if<int64_t>(&index.kind())) {
        dropped_.push_back(static_cast<int64_t>(axis));
        require_within(*number, axis);
        if (is_gathered(*number, axis)) continue;
        if (shape_[axis] < 0) require_reach(*number, axis);
        box.begin.back() = *number;
        box.end.back() = *number + 1 == 0 ? kToEnd : *number + 1;
        whole = whole && shape_[axis] == 1;
      }
    }
    if (!whole) value_ = slice(value_, box.begin, box.end, box.strides, site_);
  }

  void require_within(int64_t number, size_t axis) const {
    const int64_t dim = shape_[axis];
    if (dim < 0 || (number >= -dim && number < dim)) return;
    fail_indexing(axis_of(axis, shape_),
                  dim == 0
                      ? "no index, since it is empty"
                      : "an index from " + std::to_string(-dim) + " to " + std::to_string(dim - 1),
                  std::to_string(number), site_);
  }

  // Has it checked, once the size of the axis is known, that a negative number stays within it.
  void require_reach(int64_t number, size_t axis) {
    const int64_t count = number == kToStart ? kToEnd : -number;
    value_ = with_at_least(value_, axis, count, kOp, "index " + std::to_string(number), site_);
  }

  // A slice of an axis without a known size may turn out empty; gather says what is wrong then.
  bool is_gathered(int64_t number, size_t axis) const { return shape_[axis] < 0 && number >= 0; }

  // Drops the axes of numbers.
  void drop() {
    std::vector<int64_t> squeezed;
    for (size_t i = dropped_.size(); i-- > 0;) {
      const auto axis = static_cast<size_t>(dropped_[i]);
      const int64_t number = std::get<int64_t>(of_axis(axis).kind());
      if (is_gathered(number, axis)) {
        const Value constant = value_.graph().constant(Tensor::scalar(number), site_);
        value_ = gather(value_, constant, dropped_[i], site_);
        for (int64_t& later : squeezed) --later;
      } else {
        squeezed.push_back(dropped_[i]);
      }
    }
    if (!squeezed.empty()) value_ = squeeze(value_, squeezed, site_);
  }

  const Index& of_axis(size_t axis) const {
    for (const Index& index : all_) {
      if (!is<NewAxis>(index) && axis-- == 0) return index;
    }
    return all_.back();  // not reached: there is an index for each axis
  }

  // Takes what Values choose.
  void take() {
    std::vector<Chosen> all;
    int64_t at = 0, own = 0;
    for (const Index& index : all_) {
      if (is<NewAxis>(index)) continue;
      if (const auto* value = std::get_if<Value>(&index.kind())) {
        require_indices_dtype(*value, own);
        all.push_back({*value, at, own});
      }
      at += is<int64_t>(index) ? 0 : 1;
      ++own;
    }
    if (all.empty()) return;
    const Value indices = all.size() == 1 ? all[0].indices : together(all);
    value_ = gather(value_, Operand(indices, site_), all[0].axis, site_);
    chosen_rank_ = static_cast<int64_t>(indices.shape().rank());
    for (const Apart& part : apart_) take_from_each(part, all[0].axis + chosen_rank_);
  }

  void require_indices_dtype(const Value& indices, int64_t axis) const {
    const DType dtype = indices.dtype();
    if (dtype == i64 || dtype == i32) return;
    fail_indexing("indices along axis " + std::to_string(axis), "i64 or i32", name_of(dtype), site_,
                  dtype == boolean ? "the result of a mask would have no known shape: use select"
                                   : "convert them with cast(x, keel::i64)");
  }

  // Makes the axes of the chosen one, where the first of them is, and gives the indices into it.
  // Where no reshape could tell the sizes the axes stay side by side, and the indices are the
  // first's.
  Value together(const std::vector<Chosen>& all) {
    const Shape shape = value_.shape(), flat = bring_together(all);
    const auto dim = [&](const Chosen& one) { return shape[static_cast<size_t>(one.axis)]; };
    if (is_told_by_reshape(flat)) {
      value_ = reshape(value_, flat, site_);
      Value indices;
      int64_t stride = 1;
      for (size_t i = all.size(); i-- > 0;) {
        const Value part = offsets(all[i], dim(all[i]), stride);
        indices = indices.valid() ? add(indices, part, site_) : part;
        stride *= dim(all[i]);
      }
      return indices;
    }
    Value first = offsets(all[0], dim(all[0]), 1);
    for (size_t i = 1; i < all.size(); ++i) {
      apart_.push_back({offsets(all[i], dim(all[i]), 1), dim(all[i])});
      // As zeros, which give the indices of the first the shape that all have together.
      first = add(first, mul(apart_.back().indices, 0, site_), site_);
    }
    return first;
  }

  static bool is_told_by_reshape(const Shape& shape) {
    const auto unknown =
        std::count_if(shape.begin(), shape.end(), [](int64_t dim) { return dim < 0; });
    return unknown <= 1 && !is_undetermined(shape);
  }

  // Puts the axes of the chosen side by side. Returns the shape with one axis in their place.
  Shape bring_together(const std::vector<Chosen>& all) {
    const Shape shape = value_.shape();
    std::vector<int64_t> order, axes;
    Shape flat;
    for (const Chosen& one : all) axes.push_back(one.axis);
    for (int64_t i = 0; i < static_cast<int64_t>(shape.rank()); ++i) {
      if (i == axes[0]) {
        order.insert(order.end(), axes.begin(), axes.end());
        flat.push_back(merged(shape, all));
      } else if (std::find(axes.begin(), axes.end(), i) == axes.end()) {
        order.push_back(i);
        flat.push_back(shape[static_cast<size_t>(i)]);
      }
    }
    if (!std::is_sorted(order.begin(), order.end())) value_ = transpose(value_, order, site_);
    return flat;
  }

  // Returns the number of elements of these axes together; -1 where the first is not known.
  int64_t merged(const Shape& shape, const std::vector<Chosen>& all) const {
    int64_t size = 1;
    for (const Chosen& one : all) {
      const int64_t dim = shape[static_cast<size_t>(one.axis)];
      if (dim < 0 && one.axis != all[0].axis) {
        fail_indexing(axis_of(static_cast<size_t>(one.own), shape_),
                      "a known size, since it is not the first that is indexed by a Value", "-1",
                      site_);
      }
      size = size < 0 || dim < 0 ? kUnknownDim : size * dim;
    }
    return size;
  }

  // Returns indices * stride, checked where the size of their axis is known.
  Value offsets(const Chosen& one, int64_t dim, int64_t stride) const {
    const Operand indices(one.indices, site_);
    if (dim < 0) return mul(cast(indices, i64, site_), stride, site_);
    return offsets_along(one.indices, static_cast<size_t>(one.own), dim, stride, site_);
  }

  // Takes the element that the indices name of each of the slices along `axis`, behind their own
  // axes: the others count as 0 in a sum. (It makes 0 of -0.)
  void take_from_each(const Apart& part, int64_t axis) {
    const DType dtype = value_.dtype();
    const size_t behind = value_.shape().rank() - static_cast<size_t>(axis);
    const auto axes = counted_from(part.indices.shape().rank(), behind);
    const Value wanted = expand_dims(part.indices, axes, site_);
    Value positions = iota(value_.graph(), i64, {part.size}, 0, site_);
    if (behind > 1) positions = expand_dims(positions, counted_from(1, behind - 1), site_);
    const Value each = dtype == boolean ? cast(Operand(value_, site_), u8, site_) : value_;
    const Value named = select(equal(wanted, positions, site_), each, 0, site_);
    value_ = cast(Operand(sum(named, {axis}, false, site_), site_), dtype, site_);
  }

  // Inserts the new axes.
  void insert() {
    std::vector<int64_t> inserted;
    int64_t at = 0;       // an axis of the result
    bool placed = false;  // the axes of the chosen
    for (const Index& index : all_) {
      if (is<NewAxis>(index)) {
        inserted.push_back(at++);
      } else if (is<Value>(index)) {
        at += placed ? 0 : chosen_rank_;
        placed = true;
      } else if (!is<int64_t>(index)) {
        ++at;
      }
    }
    if (!inserted.empty()) value_ = expand_dims(value_, inserted, site_);
  }

  Value value_;
  const Shape shape_;
  CallSite site_;
  std::vector<Index> all_;
  std::vector<int64_t> dropped_;  // axes of x
  std::vector<Apart> apart_;      // in the order of their axes
  int64_t chosen_rank_ = 0;
};

}  // namespace

Value Value::operator[](const Indices& indices) const { return Indexing(*this, indices).apply(); }

}  // namespace keel
