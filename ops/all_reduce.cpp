#include "keel/ops/all_reduce.h"

#include <string>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/graph/ir/all_reduce_attributes.h"
#include "keel/graph/ir/op_table.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

std::vector<Type> infer_sums(const InferContext& c) {
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

std::vector<Type> infer_all_reduce(const InferContext& c) {
  if (c.as<AllReduceAttributes>().gathers) c.fail("gathers", "false, as all_gather has it", "true");
  return infer_sums(c);
}

std::vector<Type> infer_all_gather(const InferContext& c) {
  const auto& a = c.as<AllReduceAttributes>();
  if (!a.gathers) c.fail("gathers", "true, as all_reduce has it not", "false");
  std::vector<Type> types = infer_sums(c);
  for (size_t i = 0; i < types.size(); ++i) {
    const Shape own = types[i].shape;
    if (own.rank() == Shape::kMaxRank)
      c.fail(c.input_name(i), "fewer axes than " + std::to_string(Shape::kMaxRank),
             to_string(types[i]));
    Shape all{a.ranks};
    for (const int64_t d : own.dims()) all.push_back(d);
    types[i].shape = all;
  }
  return types;
}

// `op`: for errors.
void require_root_values(const char* op, const Values& values, CallSite site) {
  if (values.empty())
    throw Error(
        {.op = op, .argument = "values", .expected = "at least one", .got = "none", .site = site});
  for (const Value& v : values) {
    if (v.valid() && v.graph().parent() == nullptr) continue;
    throw Error({.op = op,
                 .argument = "values",
                 .expected = "values of the root graph",
                 .got = v.valid() ? "one of a body of while_loop or cond" : "an empty Value",
                 .fix = "sum behind the loop or cond: every rank has to sum equally often",
                 .site = site});
  }
}

// Adds a node for all values. REQUIRES several ranks.
Values emit_collective(const char* op, const Values& values, const std::shared_ptr<Group>& group,
                       const AllReduceOptions& options, bool gathers, CallSite site) {
  const Node& node =
      values[0].graph().add(op, values,
                            Attributes::of(AllReduceAttributes{.ranks = group->size(),
                                                               .bucket = options.bucket,
                                                               .buckets = options.buckets,
                                                               .gathers = gathers,
                                                               .group = group}),
                            site);
  Values results = values;
  for (uint32_t i = 0; i < results.size(); ++i) results[i] = node.output(i);
  return results;
}

bool has_several_ranks(const std::shared_ptr<Group>& group) {
  return group != nullptr && group->size() > 1;
}

}  // namespace

Values all_gather(const Values& values, const std::shared_ptr<Group>& group,
                  const AllReduceOptions& options, CallSite site) {
  require_root_values("all_gather", values, site);
  if (options.scale != 1)
    throw Error({.op = "all_gather",
                 .argument = "scale",
                 .expected = "1, since nothing is summed",
                 .got = std::to_string(options.scale),
                 .site = site});
  if (has_several_ranks(group))
    return emit_collective("all_gather", values, group, options, /*gathers=*/true, site);
  Values gathered;
  for (const Value& v : values) {
    Shape shape{1};
    for (const int64_t d : v.shape().dims()) shape.push_back(d);
    gathered.push_back(reshape(Operand(v, site), shape, site));
  }
  return gathered;
}

Values all_reduce(const Values& values, const std::shared_ptr<Group>& group,
                  const AllReduceOptions& options, CallSite site) {
  require_root_values("all_reduce", values, site);
  Values sums = values;
  if (has_several_ranks(group))
    sums = emit_collective("all_reduce", values, group, options, /*gathers=*/false, site);
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
  table.add({.name = "all_gather",
             .summary = "the values of all ranks of a group, along a new first axis",
             .input_names = {"value"},
             .variadic = true,
             .attributes = &attributes_schema<AllReduceAttributes>(),
             .infer = infer_all_gather,
             .not_differentiable =
                 "the gradients of the ranks are gathered, not the way back through a gather",
             .traits = kEffect});
}

}  // namespace keel
