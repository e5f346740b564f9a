#include "keel/backends/common/all_reduce_kernel.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/core/tensor/buffer.h"
#include "keel/graph/ir/all_reduce_attributes.h"
#include "keel/graph/ir/label.h"

namespace keel {
namespace {

// The place of each result in the bucket, and what all of them take, in bytes. Kernels want results
// aligned.
struct BucketPlan {
  std::vector<size_t> offsets;
  size_t bytes = 0;
};

size_t bytes_of(const Type& type) { return type.shape.num_bytes(type.dtype); }

BucketPlan plan_bucket(const Node& node) {
  BucketPlan plan;
  for (const Type& type : node.types()) {
    plan.offsets.push_back(plan.bytes);
    plan.bytes = align_up(plan.bytes + bytes_of(type), Buffer::kAlignment);
    // The token of an effect has no bytes.
    if (plan.offsets.size() == node.data_inputs().size()) break;
  }
  return plan;
}

// Bytes of the bucket.
struct Range {
  size_t begin = 0;
  size_t bytes = 0;
};

// Returns what other ranks fill: all but this rank's part of each result that is gathered. A rank
// adds zeros there, so that the sum is what each rank has.
std::vector<Range> parts_of_others(const Node& node, const BucketPlan& bucket) {
  const AllReduceAttributes& attributes = *all_reduce_of(node);
  std::vector<Range> parts;
  if (!attributes.gathers) return parts;
  const auto rank = static_cast<size_t>(attributes.group->rank());
  for (size_t i = 0; i < bucket.offsets.size(); ++i) {
    const size_t own = bytes_of(node.input(i).type());
    const size_t before = own * rank, all = bytes_of(node.type(i));
    parts.push_back({bucket.offsets[i], before});
    parts.push_back({bucket.offsets[i] + before + own, all - before - own});
  }
  return parts;
}

class AllReduceKernel final : public Kernel {
 public:
  AllReduceKernel(std::shared_ptr<Group> group, std::unique_ptr<Reduction> reduction,
                  std::vector<Range> zeros, std::string what)
      : group_(std::move(group)),
        reduction_(std::move(reduction)),
        zeros_(std::move(zeros)),
        what_(std::move(what)) {}

  bool waits() const override { return true; }
  void run(void* const*, int, int) const override { sum(); }
  // A stop is agreed behind the step, so nothing but a rank that is lost ends the wait, which the
  // group sees by itself.
  bool run_waiting(void* const*, const AbortContext&) const override {
    sum();
    return true;
  }
  void fail(const char* why) const noexcept override {
    try {
      group_->fail("rank " + std::to_string(group_->rank()) + " ended its step: " + why);
    } catch (const std::exception&) {
      group_->fail("");
    }
  }

 private:
  void sum() const {
    auto* bytes = reinterpret_cast<std::byte*>(reduction_->data());
    for (const Range& range : zeros_) std::memset(bytes + range.begin, 0, range.bytes);
    try {
      StepBallot& ballot = group_->ballot();
      ballot.settle(reduction_->sum_and_agree(ballot.take()));
    } catch (const Error& error) {
      throw error.with_context(what_ + " on rank " + std::to_string(group_->rank()));
    }
  }

  std::shared_ptr<Group> group_;
  std::unique_ptr<Reduction> reduction_;
  std::vector<Range> zeros_;
  std::string what_;
};

}  // namespace

int64_t bucket_bytes(const Node& node) { return static_cast<int64_t>(plan_bucket(node).bytes); }

KernelPlan plan_all_reduce(const Node& node) {
  const AllReduceAttributes& attributes = *all_reduce_of(node);
  if (attributes.group == nullptr) {
    throw Error({.op = "all_reduce",
                 .message = "sums over " + std::to_string(attributes.ranks) +
                            " ranks, and this graph came from text, which has no group",
                 .fix = "build the graph with all_reduce(values, group)",
                 .site = node.site()});
  }
  BucketPlan bucket = plan_bucket(node);
  const std::string what = bucket_text(attributes);
  std::unique_ptr<Reduction> reduction =
      attributes.group->make_reduction(what, bucket.bytes / sizeof(float));
  KernelPlan plan;
  plan.kind = TaskKind::kHccl;
  plan.own_memory = reduction->data();
  std::vector<Range> zeros = parts_of_others(node, bucket);
  plan.own_offsets = std::move(bucket.offsets);
  plan.reason = what + ", " + std::to_string(bucket.bytes) + " bytes over " +
                std::to_string(attributes.ranks) + " ranks";
  plan.kernel = std::make_unique<AllReduceKernel>(attributes.group, std::move(reduction),
                                                  std::move(zeros), what);
  return plan;
}

}  // namespace keel
