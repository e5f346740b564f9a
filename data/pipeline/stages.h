// The stages of a pipeline, as Dataset's methods make them. Each is described at the method; the
// errors they throw for arguments that are wrong carry no site, Dataset adds it. Those that keep
// items tell of memory that is short with the site they are given. Internal to data.
#ifndef KEEL_DATA_PIPELINE_STAGES_H
#define KEEL_DATA_PIPELINE_STAGES_H

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/queue/element_function.h"
#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/stage.h"

namespace keel {

StagePtr make_tensor_stage(const std::vector<std::pair<std::string, Tensor>>& fields);
StagePtr make_generator_stage(ElementSpec item, Dataset::Generator generator,
                              std::optional<int64_t> size, CallSite site);
StagePtr make_shuffle_stage(StagePtr from, uint64_t seed);
StagePtr make_buffered_shuffle_stage(StagePtr from, int64_t buffer, uint64_t seed, CallSite site);
// Items first, first + step, ... of `from`, at most `limit` of them.
StagePtr make_slice_stage(StagePtr from, int64_t first, int64_t step, std::optional<int64_t> limit);
StagePtr make_repeat_stage(StagePtr from, std::optional<int64_t> times);
StagePtr make_concatenate_stage(StagePtr first, StagePtr second);
StagePtr make_zip_stage(std::vector<StagePtr> parts);
StagePtr make_interleave_stage(std::vector<StagePtr> parts, int64_t block);
StagePtr make_filter_stage(StagePtr from, Dataset::Predicate keep, std::string name, CallSite site);
// The key of item i in pass p is fold_key(fold_key(seed, p), i).
StagePtr make_map_stage(StagePtr from, std::shared_ptr<const ElementFunction> function,
                        uint64_t seed, const MapOptions& options, CallSite site);
StagePtr make_select_stage(StagePtr from, const std::vector<std::string>& fields);
StagePtr make_batch_stage(StagePtr from, int64_t size, BatchShare share, Tail tail);
StagePtr make_cache_stage(StagePtr from, CallSite site);
StagePtr make_device_cache_stage(StagePtr from, const Device& device, CallSite site);
StagePtr make_prefetch_stage(StagePtr from, int64_t elements, CallSite site);

// The stage that a repeat at the end of a chain repeats, and how often (nothing: endless).
struct Repetition {
  StagePtr from;
  std::optional<int64_t> times = 1;
};
Repetition outermost_repetition(const StagePtr& stage);
// Returns whether the passes behind one that had no items are known to have none either, so that a
// repeat of `once` ends with it. Throws Error where the repeat is endless.
bool ends_with_empty_pass(const Stage& once, bool endless);

// Makes a stage that works element by element: under a repeat that ends the chain, so that the
// repeat still ends it and cursors count its passes.
template <class Make>
StagePtr make_under_repeat(const StagePtr& from, Make make) {
  const Repetition repetition = outermost_repetition(from);
  if (repetition.from == from) return make(from);
  return make_repeat_stage(make(repetition.from), repetition.times);
}

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_STAGES_H
