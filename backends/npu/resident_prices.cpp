#include "keel/backends/npu/resident_prices.h"

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "keel/backends/npu/scheduler/residency_plan.h"
#include "keel/backends/npu/scheduler/resident_price.h"

namespace keel::npu {
namespace {

// Returns whether the cores do its work; what the host, links or the AI CPU do has no work of
// theirs.
bool is_of_cores(const Launch& launch) { return launch.cube || launch.price.pipeline_ns > 0; }

TaskTraffic traffic_of(const Launch& launch) {
  return {is_of_cores(launch), static_cast<uint64_t>(launch.price.bytes_in),
          static_cast<uint64_t>(launch.price.bytes_out)};
}

}  // namespace

void price_by_residency(TaskList& list, NpuLibrary::Launches& launches, const Preset& preset) {
  std::vector<TaskTraffic> traffic(list.tasks.size());
  for (size_t i = 0; i < list.tasks.size(); ++i) {
    const auto it = launches.find(list.tasks[i].kernel);
    if (it != launches.end()) traffic[i] = traffic_of(*it->second.launch);
  }
  const std::vector<Residency> plan =
      plan_residency(list, traffic, static_cast<uint64_t>(preset.l2_bytes));
  // Deep graphs repeat few launches.
  std::map<std::tuple<const Launch*, double, double>, std::shared_ptr<const Launch>> priced;
  std::vector<std::shared_ptr<const Launch>> replaced;
  for (size_t i = 0; i < list.tasks.size(); ++i) {
    if (!traffic[i].of_cores || (plan[i].operands == 0 && plan[i].results == 0)) continue;
    std::shared_ptr<const Launch>& launch = launches.at(list.tasks[i].kernel).launch;
    auto& resident = priced[{launch.get(), plan[i].operands, plan[i].results}];
    if (resident == nullptr) {
      auto copy = std::make_shared<Launch>(*launch);
      copy->price = resident_price(preset, *launch, plan[i]);
      copy->gain_ns = gain_of(preset, *launch, plan[i]);
      resident = std::move(copy);
    }
    replaced.push_back(launch);  // so that no other launch has its address
    launch = resident;
    list.tasks[i].device_ns = launch->price.total_ns;
  }
}

}  // namespace keel::npu
