// Indexing as in NumPy: x[...] gives the part of a value that an index for each axis names.
//
//   using keel::_, keel::range, keel::ellipsis, keel::new_axis;
//   x[2]                        // x[2]: the axis goes; x[-1] is the last
//   x[{_, -1}]                  // x[:, -1]
//   x[{range(1, 4), ellipsis}]  // x[1:4, ...]
//   x[{range({}, 3), new_axis}] // x[:3, None]
//   x[range({}, {}, -1)]        // x[::-1]
//   x[{_, ids}]                 // x[:, ids]: ids, an i64 or i32 Value, chooses while the graph
//   runs
//
// Axes that are not named stay whole; an ellipsis says where they are. What is known when the graph
// is built becomes one slice; of an axis whose dimension is not known (-1) the rest is checked when
// it is. A bound of a range counts from the back where negative and is clamped to the axis; an
// index counts from the back, too, and is an Error out of range, which names the axis, its size and
// the line. Indices inside a Value count from 0 (gather), and are checked when the graph runs.
//
// One Value among the indices puts its axes in the place of the axis that it indexes. Several are
// broadcast with each other and taken together, x[{i, j}] being the elements (i[k], j[k]); their
// axes come where the first of them was. C++ numbers beside them only drop their axes. (NumPy
// counts those with the arrays, and moves the axes to the front where the arrays are apart.) The
// dimensions of the axes behind the first such one must be known.
//
// Gradients go to the elements taken, summed where one was taken twice. Plain values; any thread
// that may build the graph.
#ifndef KEEL_OPS_COMPOSED_INDEXING_H
#define KEEL_OPS_COMPOSED_INDEXING_H

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// begin : end : step of an axis; see range().
struct Range {
  std::optional<int64_t> begin;
  std::optional<int64_t> end;
  int64_t step = 1;
};
// A range goes from begin to before end, both where left out ({}) as far as the axis goes; a
// negative step goes backwards. The step is not 0.
inline Range range(std::optional<int64_t> begin, std::optional<int64_t> end, int64_t step = 1) {
  return {begin, end, step};
}

// The whole axis; as many whole axes as are not named otherwise; a new axis of size 1.
inline constexpr struct WholeAxis {
} _{};
inline constexpr struct Ellipsis {
} ellipsis{};
inline constexpr struct NewAxis {
} new_axis{};

template <class T>
concept WholeNumber = std::integral<T> && Number<T>;

// Holds what is said of one axis.
class Index {
 public:
  using Kinds = std::variant<WholeAxis, Ellipsis, NewAxis, Range, int64_t, Value>;

  Index(WholeAxis) : kind_(WholeAxis{}) {}
  Index(Ellipsis) : kind_(Ellipsis{}) {}
  Index(NewAxis) : kind_(NewAxis{}) {}
  Index(Range range) : kind_(range) {}
  template <WholeNumber T>
  Index(T number)
      : kind_(std::in_range<int64_t>(number) ? static_cast<int64_t>(number)
                                             : std::numeric_limits<int64_t>::max()) {}
  Index(Value indices) : kind_(indices) {}

  const Kinds& kind() const noexcept { return kind_; }

 private:
  Kinds kind_;
};

// Holds what stands between the brackets, and the line it stands on.
class Indices {
 public:
  Indices(std::initializer_list<Index> list, CallSite site = CallSite::here())
      : list_(list), site_(site) {}
  Indices(std::vector<Index> list, CallSite site = CallSite::here())
      : list_(std::move(list)), site_(site) {}
  template <std::convertible_to<Index> T>
  Indices(T index, CallSite site = CallSite::here()) : list_{Index(index)}, site_(site) {}

  const std::vector<Index>& list() const noexcept { return list_; }
  CallSite site() const noexcept { return site_; }

 private:
  std::vector<Index> list_;
  CallSite site_;
};

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_INDEXING_H
