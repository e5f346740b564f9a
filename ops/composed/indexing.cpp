#include "keel/ops/composed/indexing.h"

#include <algorithm>
#include <string>

#include "keel/graph/ir/graph.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel {
namespace {

[[noreturn]] void fail(const std::string& argument, const std::string& expected,
                       const std::string& got, CallSite site, const std::string& fix = "") {
  throw Error({.op = "indexing",
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
    fail("", "at most " + std::to_string(shape.rank()) + " indices, for shape " + to_string(shape),
         std::to_string(named), indices.site());
  }
  if (rests > 1) fail("", "at most one ellipsis", std::to_string(rests), indices.site());
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
        if (range->step == 0) fail(axis_of(axis, shape_), "a step other than 0", "0", site_);
        const bool backwards = range->step < 0;
        box.begin.back() = range->begin.value_or(backwards ? kToEnd : 0);
        box.end.back() = range->end.value_or(backwards ? kToStart : kToEnd);
        box.strides.back() = range->step;
        whole = whole && range->begin.value_or(0) == 0 && !range->end && range->step == 1;
      } else if (const auto* number = std::get_if<int64_t>(&index.kind())) {
        dropped_.push_back(static_cast<int64_t>(axis));
        require_within(*number, axis);
        if (is_gathered(*number, axis)) continue;
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
    fail(axis_of(axis, shape_),
         dim == 0 ? "no index, since it is empty"
                  : "an index from " + std::to_string(-dim) + " to " + std::to_string(dim - 1),
         std::to_string(number), site_);
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
    Values chosen;
    std::vector<int64_t> axes;
    int64_t at = 0;
    for (const Index& index : all_) {
      if (is<NewAxis>(index) || is<int64_t>(index)) continue;
      if (const auto* value = std::get_if<Value>(&index.kind())) {
        require_indices_dtype(*value, at);
        chosen.push_back(*value);
        axes.push_back(at);
      }
      ++at;
    }
    if (chosen.empty()) return;
    if (chosen.size() > 1) chosen = {flattened(chosen, axes)};
    value_ = gather(value_, Operand(chosen[0], site_), axes[0], site_);
    chosen_rank_ = static_cast<int64_t>(chosen[0].shape().rank());
  }

  void require_indices_dtype(const Value& indices, int64_t axis) const {
    const DType dtype = indices.dtype();
    if (dtype == i64 || dtype == i32) return;
    fail("indices along axis " + std::to_string(axis), "i64 or i32", name_of(dtype), site_,
         dtype == boolean ? "the result of a mask would have no known shape: use select"
                          : "convert them with cast(x, keel::i64)");
  }

  // Makes the axes one, where the first of them is, and gives the indices into it.
  Value flattened(const Values& chosen, const std::vector<int64_t>& axes) {
    const Shape shape = value_.shape();
    std::vector<int64_t> order, sizes;
    for (int64_t i = 0; i < static_cast<int64_t>(shape.rank()); ++i) {
      if (i == axes[0]) {
        order.insert(order.end(), axes.begin(), axes.end());
        sizes.push_back(merged(shape, axes));
      } else if (std::find(axes.begin(), axes.end(), i) == axes.end()) {
        order.push_back(i);
        sizes.push_back(shape[static_cast<size_t>(i)]);
      }
    }
    if (!std::is_sorted(order.begin(), order.end())) value_ = transpose(value_, order, site_);
    value_ = reshape(value_, Shape(sizes), site_);
    Value all;
    int64_t stride = 1;
    for (size_t i = axes.size(); i-- > 0;) {
      const int64_t dim = shape[static_cast<size_t>(axes[i])];
      const Value part = offsets(chosen[i], dim, stride);
      all = all.valid() ? add(all, part, site_) : part;
      stride *= dim;
    }
    return all;
  }

  // Returns the number of elements of these axes together; -1 where the first is not known.
  int64_t merged(const Shape& shape, const std::vector<int64_t>& axes) const {
    int64_t size = 1;
    for (const int64_t axis : axes) {
      const int64_t dim = shape[static_cast<size_t>(axis)];
      if (dim < 0 && axis != axes[0]) {
        fail(axis_of(static_cast<size_t>(axis), shape),
             "a known size, since it is not the first that is indexed by a Value", "-1", site_);
      }
      size = size < 0 || dim < 0 ? kUnknownDim : size * dim;
    }
    return size;
  }

  // indices * stride. Looked up in a table, where the size is known: an index out of range of its
  // own axis must not end up in another row.
  Value offsets(const Value& indices, int64_t dim, int64_t stride) const {
    if (dim < 0) return mul(cast(Operand(indices, site_), i64, site_), stride, site_);
    const Value table = mul(iota(indices.graph(), i64, {dim}, 0, site_), stride, site_);
    return gather(table, Operand(indices, site_), 0, site_);
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
  int64_t chosen_rank_ = 0;
};

}  // namespace

Value Value::operator[](const Indices& indices) const { return Indexing(*this, indices).apply(); }

}  // namespace keel
