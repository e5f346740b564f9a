// Ops that read, write or make elements by index: gather, scatter_add, one_hot, iota.
//
// Indices (i64 or i32) and ids (any integer dtype) are counted from 0. One that is out of range is
// an error at run time that names it and the range; it is found before anything is written.
//
// Each function adds one node to the graph of the call (graph/ir/emit.h). Errors and printed graphs
// name `site`, or where that is not given the line that made the first operand.
#ifndef KEEL_OPS_GATHER_H
#define KEEL_OPS_GATHER_H

#include <cstdint>
#include <string>

#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"

namespace keel {

struct GatherAttributes {
  int64_t axis = 0;  // counted from the front
  static void fields(auto&& visit) { visit("axis", &GatherAttributes::axis); }
};
struct OneHotAttributes {
  int64_t depth = 0;
  DType dtype = f32;
  static void fields(auto&& visit) {
    visit("depth", &OneHotAttributes::depth);
    visit("dtype", &OneHotAttributes::dtype);
  }
};
struct IotaAttributes {
  std::vector<Type> type;  // exactly one, all dimensions known
  int64_t axis = 0;        // counted from the front
  static void fields(auto&& visit) {
    visit("type", &IotaAttributes::type);
    visit("axis", &IotaAttributes::axis);
  }
};

// Slices of x (any dtype) along an axis, one for each index: the axis is replaced by the indices'
// shape.
KEEL_API Value gather(Operand x, Operand indices, int64_t axis = 0, CallSite site = {});
// x (a number dtype) with updates[i] added to row indices[i] along the first axis. updates has the
// shape of the indices followed by that of a row. Rows that meet are added in ascending order of i.
KEEL_API Value scatter_add(Operand x, Operand indices, Operand updates, CallSite site = {});
// Returns a new last axis of size `depth`, 1 at the id and 0 elsewhere.
KEEL_API Value one_hot(Operand ids, int64_t depth, DType dtype = f32, CallSite site = {});
// 0, 1, 2, ... along an axis, the same along the others; a number dtype that holds them.
KEEL_API Value iota(Graph& graph, DType dtype, const Shape& shape, int64_t axis = 0,
                    CallSite site = CallSite::here());

// Element `i` of a tensor of an integer dtype.
KEEL_API int64_t integer_at(const Tensor& indices, int64_t i);
// Throws Error unless every index is in [0, size): what backends call before an op that reads or
// writes by index. `what` names one index ("index", "class id"), `of` what it counts ("rows",
// "classes").
KEEL_API void require_indices(const std::string& op, const std::string& argument, const char* what,
                              const Tensor& indices, int64_t size, const char* of);

}  // namespace keel

#endif  // KEEL_OPS_GATHER_H
