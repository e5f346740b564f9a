#include "keel/backends/npu/npu_library.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "keel/backends/common/all_reduce_kernel.h"
#include "keel/backends/common/host_backend.h"
#include "keel/backends/common/shared_kernels.h"
#include "keel/backends/common/vector/saturation.h"
#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/backends/npu/scheduler/tile_plan.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/ir/transfer.h"

namespace keel::npu {
namespace {

bool uses(const Node& node, DType dtype) {
  for (const Value& v : node.inputs()) {
    if (v.dtype() == dtype) return true;
  }
  for (const Type& t : node.types()) {
    if (t.dtype == dtype) return true;
  }
  for (const auto& body : node.bodies()) {
    for (const Node& inner : body->nodes()) {
      if (uses(inner, dtype)) return true;
    }
  }
  return false;
}

std::string reason_text(const Launch& launch) {
  std::string text = launch.limit == Limit::kNone ? "" : name_of(launch.limit);
  if (!launch.reason.empty()) text += ": " + launch.reason;
  if (!launch.variant.empty()) text += (text.empty() ? "" : "; ") + launch.variant;
  if (launch.price.mixed()) {
    text += (text.empty() ? "" : "; ") + std::string("vector work on ") +
            std::to_string(launch.price.mix_block_dim) + " vector cores beside the cube's";
  }
  return text;
}

// Holds what a product reads and writes of weights that are kept packed.
struct Packed {
  Packing packing;
  std::string text;
};

Packed packed_parts(const AnchoredNode& product, const StateLayouts& layouts) {
  Packed packed;
  const Node& node = product.node();
  if (const auto use = copy_read_by(product, layouts)) {
    packed.packing.right = static_cast<int64_t>(size_of(use->round_to));
    packed.text = layout_of(layouts, product.stored(1))->state +
                  " packed once for the cube: read in " + name_of(use->round_to);
  }
  for (size_t i = 0; i < node.types().size(); ++i) {
    const auto it = layouts.find(node.output(i));
    if (it == layouts.end()) continue;
    const PrepackedWeight copies(node.type(i), it->second.layout);
    for (size_t copy = 0; copy < copies.count(); ++copy) {
      const DType dtype = copies.use(copy).round_to;
      packed.packing.copies += static_cast<int64_t>(size_of(dtype));
      if (dtype != f32) ++packed.packing.roundings;
    }
    packed.text += (packed.text.empty() ? "" : "; ") + it->second.state +
                   " packed once for the cube: renewed as " + copies.description();
  }
  return packed;
}

// The same decision with a remark.
std::shared_ptr<const Launch> with_variant(const Launch& launch, const std::string& text) {
  auto told = std::make_shared<Launch>(launch);
  told->variant += (told->variant.empty() ? "" : "; ") + text;
  return told;
}

PlannedLaunch plan_run(PlannedRequest request, const KernelEntry& entry, const KernelPlan& plan) {
  const Node& node = request.anchored.node();
  const size_t behind = node.inputs().size() + node.types().size();
  if (plan.float_status) request.status_argument = behind + (plan.workspace_bytes != 0 ? 1 : 0);
  return entry.planned->run(request, entry.planned->tiles(request));
}

}  // namespace

Support NpuLibrary::supports(const Node& node) const {
  if (transfer_of(node) != nullptr) return {true, ""};
  if (uses(node, f64)) return {false, "the NPU does not compute in f64"};
  if (!preset_->bf16 && uses(node, bf16)) {
    return {false, preset_->name + " has no bf16; presets that have it: " + presets_with_bf16()};
  }
  const AnchoredNode anchored(node);
  const KernelEntry* entry = find_entry(anchored);
  if (entry == nullptr) return {false, "no kernel for it"};
  const Support support = entry->supports(anchored);
  return support.supported && anchored.is_fused() ? pays(*preset_, anchored, *entry) : support;
}

KernelPlan NpuLibrary::price(KernelPlan plan, std::shared_ptr<const Launch> launch) const {
  plan.block_dim = static_cast<int>(launch->price.block_dim);
  plan.device_ns = launch->price.total_ns;
  plan.reason = reason_text(*launch);
  launches_[plan.kernel.get()] = std::move(launch);
  return plan;
}

KernelPlan NpuLibrary::plan(const Node& node, const StateLayouts& layouts) const {
  if (transfer_of(node) != nullptr) {
    return price(find_shared_kernel(node)->plan(node, 1),
                 std::make_shared<Launch>(schedule(*preset_, AnchoredNode(node))));
  }
  const AnchoredNode anchored(node);
  const Packed packed = anchored.is_product() ? packed_parts(anchored, layouts) : Packed();
  std::shared_ptr<const Launch> launch =
      cache_.launch(*preset_, anchored, options_, packed.packing);
  if (!packed.text.empty()) launch = with_variant(*launch, packed.text);
  const KernelEntry& entry = *find_entry(anchored);
  const bool saturate = preset_->saturate_f16;
  KernelPlan plan = entry.plan(anchored, {layouts, epilogues_, saturate});
  const bool unbounded = entry.saturates_behind != nullptr && entry.saturates_behind(anchored);
  const bool saturates_behind = saturate && unbounded && node.type().dtype == f16;
  if (saturates_behind) plan = vector::saturate_results(std::move(plan), node);
  if (strict_) {
    PlannedLaunch planned = plan_run(
        {preset_, anchored, *launch, layouts, std::nullopt, saturates_behind}, entry, plan);
    launch = keep_run(*plan.kernel, std::move(launch), std::move(planned));
  }
  return price(std::move(plan), std::move(launch));
}

// Returns the decision, with a remark where nothing carries it out as planned.
std::shared_ptr<const Launch> NpuLibrary::keep_run(const Kernel& kernel,
                                                   std::shared_ptr<const Launch> launch,
                                                   PlannedLaunch planned) const {
  if (planned.run == nullptr) {
    return with_variant(*launch, "strict runs do not go by the plan: " + planned.why_not);
  }
  planned_runs_[&kernel] = std::move(planned.run);
  return launch;
}

KernelPlan NpuLibrary::plan_on_host(const Node& node) const {
  KernelPlan plan = KernelLibrary::plan_on_host(node);
  const auto types = node.types().to_vector();
  const bool halves =
      std::any_of(types.begin(), types.end(), [](const Type& type) { return type.dtype == f16; });
  if (preset_->saturate_f16 && halves && !node.has(kMovement))
    plan = vector::saturate_results(std::move(plan), node);
  return price(std::move(plan), std::make_shared<Launch>(schedule_on_host(*preset_, node)));
}

KernelPlan NpuLibrary::plan_status_read(size_t words) const {
  const auto bytes = static_cast<int64_t>(words * sizeof(uint32_t));
  return price(KernelLibrary::plan_status_read(words),
               std::make_shared<Launch>(schedule_copy(*preset_, bytes, options_)));
}

// The index is read and an address is written: what lies there is read by the tasks that want it.
KernelPlan NpuLibrary::plan_row_view(const Node& node) const {
  KernelPlan plan = KernelLibrary::plan_row_view(node);
  auto launch = std::make_shared<Launch>(schedule_copy(*preset_, sizeof(int64_t), options_));
  launch->limit = Limit::kNone;
  launch->reason = "";
  launch->variant = plan.reason;
  return price(std::move(plan), std::move(launch));
}

KernelPlan NpuLibrary::plan_all_reduce(const Node& node) const {
  return price(KernelLibrary::plan_all_reduce(node),
               std::make_shared<Launch>(schedule_all_reduce(*preset_, node, bucket_bytes(node))));
}

KernelPlan NpuLibrary::plan_copy(size_t bytes) const {
  KernelPlan plan;
  plan.kernel = make_copy_kernel(bytes);
  plan.kind = TaskKind::kMemcpy;
  const auto count = static_cast<int64_t>(bytes);
  std::shared_ptr<const Launch> launch =
      std::make_shared<Launch>(schedule_copy(*preset_, count, options_));
  if (strict_) {
    PlannedLaunch planned = plan_copy_run(preset_, *launch, count);
    launch = keep_run(*plan.kernel, std::move(launch), std::move(planned));
  }
  return price(std::move(plan), std::move(launch));
}

}  // namespace keel::npu
