#include "keel/ops/nn/data_parallel.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/ops/all_reduce.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/argument_checks.h"
#include "keel/ops/nn/clipping.h"
#include "keel/ops/nn/in_name_of.h"
#include "keel/ops/nn/micro_shards.h"
#include "keel/ops/nn/own_scope.h"
#include "keel/ops/nn/remembered.h"
#include "keel/ops/nn/table_gradients.h"
#include "keel/ops/nn/updates.h"

namespace keel {
namespace {

constexpr const char* kDataParallel = "data_parallel";

bool is_power_of_two(int64_t n) { return std::has_single_bit(static_cast<uint64_t>(n)); }

void require_flags(const Values& flags, CallSite site) {
  for (const Value& flag : flags) {
    if (flag.valid() && flag.type() == Type{boolean, {}}) continue;
    throw Error({.op = kDataParallel,
                 .argument = "flags",
                 .expected = to_string(Type{boolean, {}}),
                 .got = flag.valid() ? to_string(flag.type()) : "an empty Value",
                 .site = site});
  }
}

// The dtype in which ranks sum.
Value summed_form(const Value& value, bool several_ranks, CallSite site) {
  if (value.dtype() == f64 && several_ranks) {
    throw Error({.op = kDataParallel,
                 .expected = "values of 32 or 16 bits: ranks sum in f32",
                 .got = to_string(value.type()) + made_at(value),
                 .fix = "keep the weights in f32",
                 .site = site});
  }
  return cast(Operand(value, site), memory_dtype(value.dtype()), site);
}

int64_t bytes_of(const Value& value) {
  return static_cast<int64_t>(value.shape().num_bytes(value.dtype()));
}

// By bucket the numbers of its values.
using Buckets = std::vector<std::vector<size_t>>;

// Puts the values that were made last into the first bucket: their gradients are known first.
Buckets buckets_of(const Values& values, int64_t most_bytes) {
  Buckets buckets(1);
  int64_t bytes = 0;
  for (size_t i = values.size(); i-- > 0;) {
    if (!values[i].valid()) continue;
    const int64_t more = bytes_of(values[i]);
    if (!buckets.back().empty() && bytes + more > most_bytes) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(i);
    bytes += more;
  }
  return buckets;
}

}  // namespace

int64_t default_micro_shards(int64_t ranks) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(ranks, 1))));
}

DataParallel::DataParallel(std::shared_ptr<Group> group, const DataParallelOptions& options,
                           CallSite site)
    : group_(std::move(group)),
      ranks_(group_ == nullptr ? 1 : group_->size()),
      micro_shards_(options.micro_shards == 0 ? default_micro_shards(ranks_)
                                              : options.micro_shards),
      bucket_bytes_(options.bucket_bytes),
      gather_rows_(options.gather_rows) {
  require_option(options.micro_shards >= 0, kDataParallel, "micro_shards", "at least 1",
                 static_cast<double>(options.micro_shards), site);
  require_option(options.bucket_bytes >= 1, kDataParallel, "bucket_bytes", "at least 1",
                 static_cast<double>(options.bucket_bytes), site);
}

std::string DataParallel::why_not_bit_equal(Operand loss) const {
  const Value value = require_root_value(loss, kDataParallel, "loss", loss.site());
  const std::string shards = std::to_string(micro_shards_) + " micro-shards";
  if (micro_shards_ % ranks_ != 0)
    return shards + " are no multiple of " + std::to_string(ranks_) + " ranks";
  if (!is_power_of_two(micro_shards_)) return shards + " are no power of two";
  if (!attached_updates(Operand(value, loss.site())).empty())
    return "running statistics are of a rank's whole batch";
  return "";
}

int64_t DataParallel::own_shards(Value loss) const {
  const bool shared_evenly = micro_shards_ % ranks_ == 0;
  if (micro_shards_ == 1 || !shared_evenly || !attached_updates(loss).empty()) return 0;
  return micro_shards_ / ranks_;
}

int64_t DataParallel::first_shard(int64_t own) const {
  return group_ == nullptr ? 0 : group_->rank() * own;
}

// A bucket that is gathered comes right before the last one, with which ranks agree.
Values DataParallel::sum_over_ranks(Values& values, Values& others,
                                    const std::vector<TableGradient>& tables, double scale,
                                    CallSite site) const {
  const Buckets buckets = buckets_of(values, bucket_bytes_);
  AllReduceOptions options{.scale = scale,
                           .buckets = static_cast<int64_t>(buckets.size() + !tables.empty())};
  Values of_tables;
  for (size_t b = 0; b < buckets.size(); ++b) {
    Values bucket;
    for (const size_t i : buckets[b]) bucket.push_back(values[i]);
    const bool last = b + 1 == buckets.size();
    if (last && !tables.empty()) {
      of_tables = sum_table_gradients(tables, group_, options, site);
      ++options.bucket;
    }
    if (last) bucket.insert(bucket.end(), others.begin(), others.end());
    if (bucket.empty()) continue;
    const Values sums = all_reduce(bucket, group_, options, site);
    ++options.bucket;
    for (size_t k = 0; k < buckets[b].size(); ++k) values[buckets[b][k]] = sums[k];
    for (size_t k = 0; last && k < others.size(); ++k) others[k] = sums[buckets[b].size() + k];
  }
  return of_tables;
}

// By state the rows that are looked up in it, where they travel and not the whole. The parts of a
// rank are summed before anything travels, so there it has one at most.
std::vector<std::vector<LookedUpRows>> DataParallel::gathered_look_ups(Value loss, int64_t shards,
                                                                       const Values& states) const {
  std::vector<std::vector<LookedUpRows>> all(states.size());
  if (ranks_ == 1 || shards > 1 || gather_rows_ == false) return all;
  for (size_t i = 0; i < states.size(); ++i) {
    auto found = look_ups_of({loss}, states[i]);
    if (found && (gather_rows_ == true || gathering_pays(*found, states[i], ranks_)))
      all[i] = std::move(*found);
  }
  return all;
}

GlobalGradients DataParallel::gradients(Operand loss, const Values& states,
                                        const GlobalGradientsOptions& options,
                                        CallSite site) const {
  const CallSite line = site.known() ? site : loss.site();
  const Value value = require_root_value(loss, kDataParallel, "loss", line);
  require_flags(options.flags, line);
  Graph& graph = value.graph();
  const LossScaler* scaler = options.scaler;
  const int64_t shards = own_shards(value);
  const LossOfPart part = shards == 0 ? LossOfPart{value, {}} : loss_of_part(value, shards, line);
  // Where it is exact, the gradients are those of the loss's share of the mean, so that their sums
  // need no scaling.
  const double share = 1 / static_cast<double>(ranks_ * std::max<int64_t>(shards, 1));
  const bool shares_loss = shards != 0 && is_power_of_two(micro_shards_);
  Value root = part.loss;
  if (shares_loss) {
    const OwnScope here(graph, kDataParallel, line);
    root = mul(Operand(root, line), share, line);
  }
  const auto look_ups = gathered_look_ups(part.loss, shards, states);
  Values by = states;
  for (size_t i = 0; i < states.size(); ++i) {
    if (!look_ups[i].empty()) by[i] = look_ups[i][0].rows;
  }
  const Value scaled = scaler ? scaler->scaled(root, line) : root;
  const Values slopes = in_name_of({kDataParallel, {{"y", "loss"}, {"x", "state"}}, "gradient"},
                                   [&] { return keel::gradients(scaled, by, line); });

  GlobalGradients global;
  global.statistics = attached_updates(Operand(value, line));
  Values flags = options.flags;
  if (ranks_ == 1 && shards == 0) {
    global.gradients = scaler ? scaler->unscaled(slopes, line) : slopes;
    global.loss = value;
    global.flags = options.flags;
    if (scaler) global.finite = scaler->finite(global.gradients, line);
    return global;
  }

  const OwnScope here(graph, kDataParallel, line);
  const bool several = ranks_ > 1;
  for (const Value& slope : slopes) global.gradients.push_back(summed_form(slope, several, line));
  Values others{summed_form(part.loss, several, line)};
  if (shards != 0) {
    Values sums = global.gradients;
    sums.push_back(others[0]);
    sums =
        sum_of_parts(sums, part.batch, {.parts = shards, .first_part = first_shard(shards)}, line);
    others[0] = sums.back();
    if (shares_loss) others[0] = mul(Operand(others[0], line), share, line);
    sums.pop_back();
    global.gradients = sums;
  }
  if (scaler)
    flags.push_back(
        logical_not(scaler->finite(shards == 0 ? slopes : global.gradients, line), line));

  std::vector<TableGradient> tables;
  for (size_t i = 0; i < states.size(); ++i) {
    if (look_ups[i].empty()) continue;
    tables.push_back({states[i], look_ups[i], {global.gradients[i]}});
    global.gradients[i] = Value();
  }

  // Statistics are means over ranks: where there are any, the rank's batch is in one part.
  for (const Value& flag : flags) others.push_back(cast(Operand(flag, line), f32, line));
  for (const Assignment& a : global.statistics.assignments) {
    if (!is_float(a.next.dtype())) continue;
    others.push_back(summed_form(a.next, several, line));
  }
  const Values of_tables =
      sum_over_ranks(global.gradients, others, tables, shares_loss ? 1 : share, line);
  auto of_table = of_tables.begin();
  for (size_t i = 0; i < states.size(); ++i) {
    if (!look_ups[i].empty()) global.gradients[i] = *of_table++;
  }

  if (scaler) global.gradients = scaler->unscaled(global.gradients, line);
  auto next = others.begin();
  global.loss = cast(Operand(*next++, line), value.dtype(), line);
  for (size_t i = 0; i < flags.size(); ++i)
    global.flags.push_back(greater(Operand(*next++, line), 0, line));
  for (Assignment& a : global.statistics.assignments) {
    if (is_float(a.next.dtype())) a.next = cast(Operand(*next++, line), a.next.dtype(), line);
  }
  if (scaler) {
    const Value bad = global.flags.back();
    global.flags.pop_back();
    global.finite =
        logical_and(scaler->finite(global.gradients, line), logical_not(bad, line), line);
  }
  return global;
}

GlobalGradients DataParallel::means(const Values& values, const Values& flags,
                                    CallSite site) const {
  require_flags(flags, site);
  GlobalGradients global;
  global.gradients = values;
  global.flags = flags;
  const auto first =
      std::find_if(values.begin(), values.end(), [](const Value& v) { return v.valid(); });
  Value any = first != values.end() ? *first : flags.empty() ? Value() : flags[0];
  if (ranks_ == 1 || !any.valid()) return global;
  const OwnScope here(any.graph(), kDataParallel, site);
  for (Value& v : global.gradients) {
    if (v.valid()) v = summed_form(v, true, site);
  }
  Values others;
  for (const Value& flag : flags) others.push_back(cast(Operand(flag, site), f32, site));
  sum_over_ranks(global.gradients, others, {}, 1 / static_cast<double>(ranks_), site);
  for (size_t i = 0; i < values.size(); ++i) {
    Value& v = global.gradients[i];
    if (v.valid()) v = cast(Operand(v, site), values[i].dtype(), site);
  }
  for (size_t i = 0; i < flags.size(); ++i)
    global.flags[i] = greater(Operand(others[i], site), 0, site);
  return global;
}

DataParallelOptimizer::DataParallelOptimizer(const Optimizer& optimizer, DataParallel ranks,
                                             std::optional<double> clip_norm)
    : optimizer_(optimizer), ranks_(std::move(ranks)), clip_norm_(clip_norm) {}

Values DataParallelOptimizer::clipped(const Values& gradients, CallSite site) const {
  return clip_norm_ ? clip_by_global_norm(gradients, *clip_norm_, site) : gradients;
}

Update DataParallelOptimizer::minimize(Operand loss, CallSite site) const {
  const CallSite line = site.known() ? site : loss.site();
  const Value value = require_root_value(loss, kDataParallel, "loss", line);
  const Values states = trainable_states(value);
  // Without any it says so.
  return states.empty() ? optimizer_.minimize(value, line) : minimize(value, states, line);
}

Update DataParallelOptimizer::minimize(Operand loss, const Values& states, CallSite site) const {
  const CallSite line = site.known() ? site : loss.site();
  const GlobalGradients global = ranks_.gradients(loss, states, {}, line);
  Update update = optimizer_.apply(states, clipped(global.gradients, line), global.loss, line);
  update += global.statistics;
  return update;
}

Update DataParallelOptimizer::apply(const Values& states, const Values& gradients,
                                    CallSite site) const {
  return apply_means(states, gradients, {}, site);
}

Update DataParallelOptimizer::apply(const Values& states, const Values& gradients, Operand loss,
                                    CallSite site) const {
  return apply_means(states, gradients, require_root_value(loss, kDataParallel, "loss", site),
                     site);
}

Update DataParallelOptimizer::apply_means(Values states, Values gradients, Value loss,
                                          CallSite site) const {
  if (states.size() != gradients.size()) {
    throw Error({.op = kDataParallel,
                 .argument = "gradients",
                 .expected = std::to_string(states.size()) + ", one for each state",
                 .got = std::to_string(gradients.size()),
                 .site = site});
  }
  Values moved, slopes;
  for (size_t i = 0; i < states.size(); ++i) {
    if (!gradients[i].valid()) continue;
    moved.push_back(states[i]);
    // Of small gradients 16 bits may hold each and not the mean.
    const DType dtype = memory_dtype(gradients[i].dtype());
    slopes.push_back(cast(Operand(gradients[i], site), dtype, site));
  }
  if (moved.empty()) return {};
  if (loss.valid()) slopes.push_back(loss);
  Values means = ranks_.means(slopes, {}, site).gradients;
  if (!loss.valid()) return optimizer_.apply(moved, clipped(means, site), site);
  const Value mean_loss = means.back();
  means.pop_back();
  return optimizer_.apply(moved, clipped(means, site), mean_loss, site);
}

DataParallelOptimizer data_parallel(const Optimizer& optimizer, const std::shared_ptr<Group>& group,
                                    const DataParallelOptimizerOptions& options, CallSite site) {
  return {optimizer,
          DataParallel(group,
                       {.micro_shards = options.micro_shards,
                        .bucket_bytes = options.bucket_bytes,
                        .gather_rows = options.gather_rows},
                       site),
          options.clip_norm};
}

}  // namespace keel
