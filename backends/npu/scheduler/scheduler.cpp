#include "keel/backends/npu/scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "keel/backends/common/cube/lane_bytes.h"
#include "keel/backends/common/reduce_plan.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/npu/cost/collective.h"
#include "keel/backends/npu/scheduler/bytes_once.h"
#include "keel/backends/npu/scheduler/resident_price.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/all_reduce_attributes.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/ir/transfer.h"

namespace keel::npu {
namespace {

void take(const Choice& choice, const NodeWork& work, Launch& launch) {
  launch.price = choice.price;
  launch.cube = work.cube.has_value();
  launch.tiling = choice.tiling;
  if (work.cube)
    launch.product = choice.rows_in_memory ? with_rows_in_memory(*work.cube) : *work.cube;
  else
    launch.split = work.splits[choice.split];
}

// Returns work as a task of its own, on as many cores as its price favours.
Launch launch_of(const Preset& preset, const NodeWork& work) {
  Launch launch;
  take(work.cube ? choose_cube(preset, *work.cube, preset.cube_cores)
                 : choose_vector(preset, work.splits, preset.vector_cores),
       work, launch);
  return launch;
}

// The decisions about one node's work, with what a user said about its blocks.
class Scheduler {
 public:
  // `operands`: bytes of the task's operands, each once.
  Scheduler(const Preset& preset, const NodeWork& work, int64_t operands, const std::string& op,
            const BlockDimOptions& options)
      : preset_(preset),
        work_(work),
        operands_(operands),
        cores_(work.cube ? preset.cube_cores : preset.vector_cores) {
    const auto it = options.force.find(op);
    if (options.cap) asked_ = options.cap;
    if (it != options.force.end()) {
      asked_ = it->second;
      forced_ = true;
    }
    best_ = choose(cores_, false);
    taken_ = asked_ ? choose(std::min(*asked_, cores_), forced_) : best_;
  }

  void fill(Launch& launch) const {
    take(taken_, work_, launch);
    explain(launch);
  }

 private:
  Choice choose(int64_t blocks, bool forced) const {
    if (work_.cube) return choose_cube(preset_, *work_.cube, blocks, forced);
    Choice choice = choose_vector(preset_, work_.splits, blocks, forced);
    const Split& split = work_.splits[choice.split];
    // An epilogue has the results of several cores from where they were merged.
    const bool merged = split.merges && split.work.epilogue != nullptr;
    count_once(preset_, split.work, operands_ + (merged ? split.work.bytes_out : 0), choice.price);
    return choice;
  }

  void explain(Launch& launch) const {
    const int64_t blocks = taken_.price.block_dim;
    if (asked_ && blocks != best_.price.block_dim) {
      launch.limit = Limit::kUserCap;
      launch.reason = fmt::format("{} at {} by the user; the prices favour {}",
                                  forced_ ? "set" : "capped", *asked_, best_.price.block_dim);
      launch.fix = "raise or drop the number of blocks";
      take(best_, work_, launch.instead.emplace_back());
      return;
    }
    if (blocks >= cores_) return;
    const int64_t units = most_units();
    const double single = static_cast<double>(choose(1, true).price.pipeline_ns);
    const double wanted = best_blocks(preset_, single, cores_);
    if (blocks >= units && wanted >= static_cast<double>(units) + 1) {
      launch.limit = units_limit();
      launch.reason = units_reason();
      return;
    }
    // The square root is flat about its best: a third more blocks takes hardly longer or less.
    // Where blocks cost nothing to start, a single one more is worth it if it saves anything.
    const bool worth_more =
        preset_.task_per_block_ns == 0 || wanted > 1.34 * static_cast<double>(blocks);
    if (worth_more && blocks < units &&
        divide_up(units, blocks) == divide_up(units, std::min(units, cores_))) {
      launch.limit = units_limit();
      launch.reason =
          fmt::format("{}; {} block{} have as much to do at most as {} would have", units_reason(),
                      blocks, blocks == 1 ? "" : "s", std::min(units, cores_));
      return;
    }
    // A hundredth is the rounding of how work is dealt out, not a gain.
    const bool saves = static_cast<double>(choose(blocks + 1, true).price.pipeline_ns) <
                       0.99 * static_cast<double>(taken_.price.pipeline_ns);
    if (waits_for_memory() && !saves && worth_more) {
      launch.limit = Limit::kBandwidth;
      launch.reason =
          fmt::format("{} block{} keep the memory busy", blocks, blocks == 1 ? "" : "s");
      return;
    }
    if (worth_more) {
      const int64_t most = std::max(blocks + 1, static_cast<int64_t>(wanted));
      explain_by(choose(std::min({cores_, units, most}), true), launch);
      return;
    }
    launch.limit = Limit::kBytes;
    launch.reason = fmt::format(
        "{} bytes take one core {:.2f} us, which is worth about sqrt({:.2f} / {}) = {:.1f} "
        "blocks",
        taken_.price.bytes_in + taken_.price.bytes_out, single * 1e-3, single * 1e-3,
        static_cast<double>(preset_.task_per_block_ns) / 1e3, wanted);
  }

  // Says what another choice of more blocks would change, which takes no less time: its busiest
  // core has hardly less to do, or less than starting the blocks takes.
  void explain_by(const Choice& more, Launch& launch) const {
    const TaskPrice& price = taken_.price;
    const int64_t saved = price.pipeline_ns - more.price.pipeline_ns;
    const double share =
        1 - static_cast<double>(price.block_dim) / static_cast<double>(more.price.block_dim);
    const double evenly = share * static_cast<double>(price.pipeline_ns);
    if (static_cast<double>(saved) <= evenly / 10) {
      launch.limit = Limit::kAlignment;
      launch.reason = grid_text() + " cannot be dealt evenly to more blocks";
      return;
    }
    launch.limit = Limit::kBytes;
    launch.reason =
        fmt::format("{} blocks would have {:.2f} us less to do and take {:.2f} us more to start",
                    more.price.block_dim, static_cast<double>(saved) * 1e-3,
                    static_cast<double>(more.price.overhead_ns - price.overhead_ns) * 1e-3);
  }

  // Where vector cores work beside the cube's, either may be the one that memory keeps waiting.
  bool waits_for_memory() const {
    const TaskPrice& price = taken_.price;
    const int64_t copies = std::max(price.busy(Unit::kMte2) + price.busy(Unit::kMte3),
                                    price.mix_busy(Unit::kMte2) + price.mix_busy(Unit::kMte3));
    return copies >= price.cycles;
  }

  int64_t most_units() const {
    if (!work_.cube) {
      int64_t most = 1;
      for (const Split& split : work_.splits) most = std::max(most, split.work.units);
      return most;
    }
    const CubeWork& work = *work_.cube;
    const int64_t across = work.whole_rows ? 1 : divide_up(work.n, kFractal);
    return std::max<int64_t>(1, work.batch * divide_up(work.m, kFractal) * across);
  }
  std::string fractal_text() const {
    if (work_.cube->whole_rows) return fmt::format("{} whole rows", kFractal);
    return fmt::format("{}x{}", kFractal, kFractal);
  }
  // What a launch's work is dealt in.
  std::string grid_text() const {
    if (!work_.cube) return work_.splits[taken_.split].reason;
    const CubeWork& work = *work_.cube;
    std::string text = work.batch > 1 ? fmt::format("{} times ", work.batch) : "";
    const int64_t rows = divide_up(work.m, kFractal);
    if (work.whole_rows) return text + fmt::format("{} tiles of {}", rows, fractal_text());
    return text +
           fmt::format("{} x {} tiles of {}", rows, divide_up(work.n, kFractal), fractal_text());
  }
  Limit units_limit() const {
    if (!work_.cube) return work_.splits[taken_.split].limit;
    const CubeWork& work = *work_.cube;
    return work.k > std::max(work.m, work.n) ? Limit::kReduction : Limit::kAlignment;
  }
  std::string units_reason() const {
    if (!work_.cube) return work_.splits[taken_.split].reason;
    const CubeWork& work = *work_.cube;
    std::string text = fmt::format("{} tile{} of {} in the result", most_units(),
                                   most_units() == 1 ? "" : "s", fractal_text());
    if (units_limit() == Limit::kReduction) text += fmt::format("; k = {} is not split", work.k);
    return text;
  }

  const Preset& preset_;
  const NodeWork& work_;
  const int64_t operands_;
  const int64_t cores_;
  std::optional<int64_t> asked_;
  bool forced_ = false;
  Choice best_;
  Choice taken_;
};

// Returns vector work as it would be with units enough for every core; so many bytes come in.
Launch finer(const Preset& preset, Split split, int64_t element_bytes, int64_t bytes_in) {
  VectorWork& work = split.work;
  const int64_t total = work.elements != 0 ? work.elements : work.units * work.elements_per_unit;
  work.elements_per_unit = std::max<int64_t>(1, 256 / element_bytes);
  work.units = std::max<int64_t>(1, total / work.elements_per_unit);
  Launch launch = launch_of(preset, {{}, {std::move(split)}});
  count_once(preset, launch.split.work, bytes_in, launch.price);
  return launch;
}

// Returns a cast of the operand to f32 and the sum in f32.
std::vector<Launch> sum_in_f32(const Preset& preset, const Node& node, const VectorWork& sum) {
  const int64_t elements = node.input(0).shape().num_elements();
  const auto narrow = static_cast<int64_t>(size_of(node.input(0).dtype()));
  VectorWork cast;
  cast.elements_per_unit = std::min<int64_t>(elements, 64);
  cast.units = std::max<int64_t>(1, (elements + 63) / 64);
  cast.pass_bytes = vector::instruction_passes("cast") * lane_bytes(f32);
  cast.bytes_in = elements * narrow;
  cast.bytes_out = elements * 4;
  cast.tile_elements = tile_that_fits(preset, 2 * (narrow + 4));
  VectorWork wide = sum;
  const ReducePlan numeric(node);
  wide.units = std::max<int64_t>(1, numeric.outer_count() * numeric.chunks());
  wide.elements_per_unit = divide_up(elements, wide.units);
  wide.bytes_in = cast.bytes_out;
  wide.bytes_out = wide.bytes_out_per_block = node.type().shape.num_elements() * 4;
  wide.pass_bytes = passes_of(node) * lane_bytes(f32);
  wide.tile_elements = tile_that_fits(preset, 12);
  return {launch_of(preset, {{}, {{cast}}}), launch_of(preset, {{}, {{wide}}})};
}

void advise_product(const Preset& preset, const CubeWork& work, Launch& launch) {
  if (work.dtype == f32) {
    CubeWork narrow = work;
    narrow.dtype = f16;
    if (work.stored_a == 0 || work.stored_a == 4) narrow.bytes_a /= 2;
    if (work.stored_b == 0 || work.stored_b == 4) narrow.bytes_b /= 2;
    narrow.stored_a = std::min<int64_t>(work.stored_a, 2);
    narrow.stored_b = std::min<int64_t>(work.stored_b, 2);
    launch.fix = "cast the operands to f16" + std::string(preset.bf16 ? " or bf16" : "") +
                 " (the casts not counted)";
    launch.instead = {launch_of(preset, {narrow, {}})};
  } else if (launch.limit != Limit::kNone) {
    launch.fix = "batch it with its like, or fuse what surrounds it";
  }
}

void advise_vector(const Preset& preset, const Node& node, const Split& split, Launch& launch) {
  const auto element = static_cast<int64_t>(size_of(node.type().dtype));
  switch (launch.limit) {
    case Limit::kAtomicAdd:
      if (preset.has_atomic_add(f32)) {
        launch.fix = "cast to f32 first and keep the sum in f32";
        launch.instead = sum_in_f32(preset, node, split.work);
      }
      break;
    case Limit::kRows:
      launch.fix = "use a larger batch: more rows occupy more cores";
      launch.instead = {finer(preset, split, element, launch.price.bytes_in)};
      break;
    case Limit::kDependency:
      launch.fix = "add wider rows: cores share their columns";
      break;
    case Limit::kReduction:
      launch.fix = "reduce along an inner axis first, so that each core has results of its own";
      launch.instead = {finer(preset, split, element, launch.price.bytes_in)};
      break;
    case Limit::kBytes:
    case Limit::kAlignment:
      launch.fix = "fuse it with its neighbours";
      break;
    case Limit::kNone:
    case Limit::kBandwidth:
      launch.fix = "fuse it with its neighbours, so that their intermediates stay on the core";
      launch.keeps_results = true;
      break;
    case Limit::kUserCap:
    case Limit::kHost:
    case Limit::kLinks:
      break;
  }
}

Launch launch_of(const Node& node) {
  Launch launch;
  launch.op = node.op_name();
  for (const Value& v : node.inputs()) launch.inputs.push_back(v.type());
  launch.outputs = node.types().to_vector();
  return launch;
}

// Schedules a copy between the memories of the device and the host, over their link.
Launch schedule_transfer(const Preset& preset, const Node& node) {
  Launch launch = launch_of(node);
  launch.price.overhead_ns = launch.price.total_ns = price_transfer(preset, bytes_of(node.type()));
  launch.limit = Limit::kHost;
  launch.reason = transfer_of(node)->to == kToHost ? "D2H: the policy mixed reads it on the host"
                                                   : "H2D: the policy mixed makes it on the host";
  return launch;
}

}  // namespace

Support pays(const Preset& preset, const AnchoredNode& fused, const KernelEntry& entry) {
  if (entry.apart == nullptr) return {true, ""};
  const auto total_ns = [&](const std::vector<Split>& splits) {
    return choose_vector(preset, splits, preset.vector_cores).price.total_ns;
  };
  const int64_t together = total_ns(entry.work({preset, fused, {}}).splits);
  int64_t separate = 0;
  for (const std::vector<Split>& splits : entry.apart(preset, fused)) separate += total_ns(splits);
  if (together <= separate) return {true, ""};
  return {false, fmt::format("{} would take {} ns for it, and {} apart: too few cores can share "
                             "the reduction",
                             preset.name, together, separate)};
}

Launch schedule(const Preset& preset, const AnchoredNode& anchored, const BlockDimOptions& options,
                const Packing& packing) {
  if (transfer_of(anchored.node()) != nullptr) return schedule_transfer(preset, anchored.node());
  const NodeWork work = work_of(preset, anchored, packing);
  const Scheduler scheduler(preset, work, bytes_of_distinct_operands(anchored.node()),
                            anchored.anchor().op_name(), options);
  Launch launch = launch_of(anchored.node());
  scheduler.fill(launch);
  if (work.cube && work.cube->dtype == f32 && preset.cube_fp32_rate == 0) {
    launch.variant =
        "computed in f32, priced as three f16 passes: the cube of " + preset.name + " has no f32";
  }
  const bool capped = launch.limit == Limit::kUserCap;
  if (!capped && work.cube) advise_product(preset, *work.cube, launch);
  if (!capped && !work.cube) {
    size_t split = 0;
    for (size_t i = 0; i < work.splits.size(); ++i) {
      if (work.splits[i].limit == launch.limit) split = i;
    }
    advise_vector(preset, anchored.anchor(), work.splits[split], launch);
  }
  launch.gain_ns = gain_of(preset, launch, Residency::kCold);
  return launch;
}

Launch schedule_on_host(const Preset& preset, const Node& node) {
  Launch launch = launch_of(node);
  int64_t bytes_in = 0, bytes_out = 0;
  for (const Type& type : launch.inputs) bytes_in = checked_add(bytes_in, bytes_of(type));
  for (const Type& type : launch.outputs) bytes_out = checked_add(bytes_out, bytes_of(type));
  launch.price = price_ai_cpu(preset, bytes_in, bytes_out);
  launch.limit = Limit::kHost;
  launch.reason = is_placed_by_policy(node) ? placement_rule(node) : "its scope places it there";
  return launch;
}

Launch schedule_all_reduce(const Preset& preset, const Node& node, int64_t bytes) {
  const int64_t ranks = all_reduce_of(node)->ranks;
  CollectivePrice collective = price_all_reduce(preset, bytes, ranks);
  Launch launch = launch_of(node);
  // The cores have no part in it.
  launch.price.overhead_ns = launch.price.total_ns = collective.total_ns;
  launch.price.bytes_in = launch.price.bytes_out = bytes;
  launch.limit = Limit::kLinks;
  launch.reason = fmt::format("{}, {} bytes over {} ranks: {}", bucket_text(*all_reduce_of(node)),
                              bytes, ranks, collective.algorithm);
  return launch;
}

Launch schedule_copy(const Preset& preset, int64_t bytes, const BlockDimOptions& options) {
  const NodeWork work{{}, {copy_split(preset, bytes)}};
  Launch launch;
  launch.op = kCopyLaunch;
  launch.inputs = launch.outputs = {Type{u8, Shape{bytes}}};
  Scheduler(preset, work, bytes, launch.op, options).fill(launch);
  return launch;
}

}  // namespace keel::npu
