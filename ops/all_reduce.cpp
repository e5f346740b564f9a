#include "keel/ops/all_reduce.h"

#include <string>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/graph/ir/all_reduce_attributes.h"
#include "keel/graph/ir/op_table.h"
#include "keel/ops/elementwise.h"

namespace keel {
namespace {

std::vector<Type> infer_all_reduce(const InferContext& c) {
  const auto& a = c.as<AllReduceAttributes>();
  if (a.ranks < 1) c.fail("ranks", "at least 1", std::to_string(a.ranks));
  if (a.group != nullptr && a.group->size() != a.ranks)
    c.fail("ranks", std::to_string(a.group->size()) + ", those of the group",
           std::to_string(a.ranks));
  if (a.bucket < 0 || a.bucket >= a.buckets)
    c.fail("bucket", "0 to " + std::to_string(a.buckets - 1), std::to_string(a.bucket));
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i].dtype == f32) continue;
    c.fail(c.input_name(i), "f32, in which ranks sum", name_of(c.inputs[i].dtype),
           "convert it with cast(x, keel::f32)");
  }
  return {c.inputs.begin(), c.inputs.end()};
}

void require_root_values(const Values& values, CallSite site) {
  if (values.empty())
    throw Error({.op = "all_reduce",
                 .argument = "values",
                 .expected = "at least one",
                 .got = "none",
                 .site = site});
  for (const Value& v : values) {
    if (v.valid() && v.graph().parent() == nullptr) continue;
    throw Error({.op = "all_reduce",
                 .argument = "values",
                 .expected = "values of the root graph",
                 .got = v.valid() ? "one of a body of while_loop or cond" : "an empty Value",
                 .fix = "sum behind the loop or cond: every rank has to sum equally often",
                 .site = site});
  }
}

}  // namespace

Values all_reduce(const Values& values, const std::shared_ptr<Group>& group,
                  const AllReduceOptions& options, CallSite site) {
  require_root_values(values, site);
  Values sums = values;
  if (group != nullptr && group->size() > 1) {
    const Node& node =
        values[0].graph().add("all_reduce", values,
                              Attributes::of(AllReduceAttributes{.ranks = group->size(),
                                                                 .bucket = options.bucket,
                                                                 .buckets = options.buckets,
                                                                 .group = group}),
                              site);
    for (uint32_t i = 0; i < sums.size(); ++i) sums[i] = node.output(i);
  }
  if (options.scale == 1) return sums;
  // The readers of the sums scale them on their way: no task does.
  for (Value& v : sums) v = mul(v, options.scale, site);
  return sums;
}

void register_all_reduce(OpTable& table) {
  table.add({.name = "all_reduce",
             .summary = "sums over the ranks of a group",
             .input_names = {"value"},
             .variadic = true,
             .attributes = &attributes_schema<AllReduceAttributes>(),
             .infer = infer_all_reduce,
             .not_differentiable =
                 "the gradients of the ranks are summed, not the way back through a sum of ranks",
             .traits = kEffect});
}

}  // namespace keel
