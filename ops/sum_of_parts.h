// sum_of_parts: what each of several equal parts of a batch gives, summed over the parts. It is how
// a training computes the micro-shards of a rank (nn/data_parallel.h). Like a gradient it is
// recorded, not expanded: the node's inputs are values computed from one part of the batch, the
// part, and the batch. When the graph is specialised, and gradients are expanded, the node becomes
// the computation for all parts (parts/expand_parts.cpp). Building: one thread per graph.
//
//   auto part = gather(reshape(x, {4, -1, 784}), 0);      // the first quarter of the rows
//   auto loss = mean(square(matmul(part, w)));
//   auto sums = sum_of_parts({loss, gradients(loss, {w})[0]}, {{x, part}}, {.parts = 4});
//
// The sum is a balanced tree over the parts, (0 + 1) + (2 + 3). Its bits do not depend on how the
// parts are dealt to graphs: that of 4 parts is the sum of those of the two halves, and that of one
// part is the value, computed as every part is. Random ops in the shape of a value that depends on
// a part draw the numbers that they would in the whole batch, in bodies of loops and conditions,
// too.
#ifndef KEEL_OPS_SUM_OF_PARTS_H
#define KEEL_OPS_SUM_OF_PARTS_H

#include <cstdint>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/op_def.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct SumOfPartsAttributes {
  int64_t parts = 1;
  int64_t values = 0;  // inputs that are summed; pairs of a batch and its part follow
  // The number that the first part has among those of all ranks: random ops count rows by it. No
  // field: the graphs of all ranks print, hash and compare alike.
  int64_t first_part = 0;
  static void fields(auto&& visit) {
    visit("parts", &SumOfPartsAttributes::parts);
    visit("values", &SumOfPartsAttributes::values);
  }
};

struct BatchPart {
  Value whole;  // with rows along its first axis
  Value part;   // with as many rows as each of its equal parts has, for each of which it stands;
                // the whole where there is one part
};

struct SumOfPartsOptions {
  int64_t parts = 1;
  int64_t first_part = 0;
};

// Returns the sums of `values`, each of its value's type. Values that depend on no part count once
// for each. Throws Error for parts below 1 and for a part whose rows are not as many of its
// batch's as there are parts.
KEEL_API Values sum_of_parts(const Values& values, const std::vector<BatchPart>& batch,
                             const SumOfPartsOptions& options, CallSite site = CallSite::here());

// These two are in parts/, which uses the other ops. The first marks random ops of rows in
// bodies under the values, before gradients copy them; the second builds the computation for all
// parts, in the place of a node.
void mark_draws_of_rows(const Values& values, const std::vector<BatchPart>& batch);
Values expand_sum_of_parts(const BuildContext& context);

}  // namespace keel

#endif  // KEEL_OPS_SUM_OF_PARTS_H
