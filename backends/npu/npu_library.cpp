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

void add_remark(std::string& text, const std::string& remark) {
  if (remark.empty()) return;
  if (!text.empty()) text += "; ";
  text += remark;
}

std::string reason_text(const TaskLaunch& task) {
  const Launch& launch = *task.launch;
  std::string text = launch.limit == Limit::kNone ? "" : name_of(launch.limit);
  if (!launch.reason.empty()) text += ": " + launch.reason;
  add_remark(text, task.variant());
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

PlannedLaunch plan_run(PlannedRequest request, const KernelEntry& entry, const KernelPlan& plan) {
  const Node& node = request.anchored.node();
  const size_t behind = node.inputs().size() + node.types().size();
  if (plan.float_status) request.status_argument = behind + (plan.workspace_bytes != 0 ? 1 : 0);
  return entry.planned->run(request, entry.planned->tiles(request));
}

}  // namespace

std::string TaskLaunch::variant() const {
  std::string text = launch->variant;
  add_remark(text, remark);
  return text;
}

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

KernelPlan NpuLibrary::price(KernelPlan plan, TaskLaunch task) const {
  plan.block_dim = static_cast<int>(task.launch->price.block_dim);
  plan.device_ns = task.launch->price.total_ns;
  plan.reason = reason_text(task);
  launches_[plan.kernel.get()] = std::move(task);
  return plan;
}

KernelPlan NpuLibrary::plan(const Node& node, const StateLayouts& layouts) const {
  if (transfer_of(node) != nullptr) {
    return price(find_shared_kernel(node)->plan(node, 1),
                 {std::make_shared<Launch>(schedule(*preset_, AnchoredNode(node)))});
  }
  const AnchoredNode anchored(node);
  const Packed packed = anchored.is_product() ? packed_parts(anchored, layouts) : Packed();
  TaskLaunch task{cache_.launch(*preset_, anchored, options_, packed.packing), packed.text};
  const KernelEntry& entry = *find_entry(anchored);
  const bool saturate = preset_->saturate_f16;
  KernelPlan plan = entry.plan(anchored, {layouts, epilogues_, saturate});
  const bool unbounded = entry.saturates_behind != nullptr && entry.saturates_behind(anchored);
  const bool saturates_behind = saturate && unbounded && node.type().dtype == f16;
  if (saturates_behind) plan = vector::saturate_results(std::move(plan), node);
  if (strict_) {
    PlannedLaunch planned = plan_run(
        {preset_, anchored, *task.launch, layouts, std::nullopt, saturates_behind}, entry, plan);
    keep_run(*plan.kernel, std::move(planned), task);
  }
  return price(std::move(plan), std::move(task));
}

// Gives the task a remark where nothing carries out its launch as planned.
void NpuLibrary::keep_run(const Kernel& kernel, PlannedLaunch planned, TaskLaunch& task) const {
  if (planned.run == nullptr)
    add_remark(task.remark, "strict runs do not go by the plan: " + planned.why_not);
  else
    planned_runs_[&kernel] = std::move(planned.run);
}

KernelPlan NpuLibrary::plan_on_host(const Node& node) const {
  KernelPlan plan = KernelLibrary::plan_on_host(node);
  const auto types = node.types().to_vector();
  const bool halves =
      std::any_of(types.begin(), types.end(), [](const Type& type) { return type.dtype == f16; });
  if (preset_->saturate_f16 && halves && !node.has(kMovement))
    plan = vector::saturate_results(std::move(plan), node);
  return price(std::move(plan), {std::make_shared<Launch>(schedule_on_host(*preset_, node))});
}

KernelPlan NpuLibrary::plan_status_read(size_t words) const {
  const auto bytes = static_cast<int64_t>(words * sizeof(uint32_t));
  return price(KernelLibrary::plan_status_read(words),
               {std::make_shared<Launch>(schedule_copy(*preset_, bytes, options_))});
}

// The index is read and an address is written: what lies there is read by the tasks that want it.
KernelPlan NpuLibrary::plan_row_view(const Node& node) const {
  KernelPlan plan = KernelLibrary::plan_row_view(node);
  auto launch = std::make_shared<Launch>(schedule_copy(*preset_, sizeof(int64_t), options_));
  launch->variant = plan.reason;
  return price(std::move(plan), {std::move(launch)});
}

KernelPlan NpuLibrary::plan_all_reduce(const Node& node) const {
  return price(KernelLibrary::plan_all_reduce(node),
               {std::make_shared<Launch>(schedule_all_reduce(*preset_, node, bucket_bytes(node)))});
}

KernelPlan NpuLibrary::plan_copy(size_t bytes) const {
  KernelPlan plan;
  plan.kernel = make_copy_kernel(bytes);
  plan.kind = TaskKind::kMemcpy;
  const auto count = static_cast<int64_t>(bytes);
  TaskLaunch task{std::make_shared<Launch>(schedule_copy(*preset_, count, options_))};
  if (strict_) keep_run(*plan.kernel, plan_copy_run(preset_, *task.launch, count), task);
  return price(std::move(plan), std::move(task));
}

}  // namespace keel::npu
