#include "cli/train/training_feed.h"

#include <fmt/core.h>

namespace keel_cli {
namespace {

constexpr size_t kMostCached = size_t{256} << 20;
// The states, the scratch arena and the queue need room, too.
constexpr size_t kShareOfMemory = 4;

std::string in_mb(size_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
}

// Why a set of that size is not kept on the device; empty where it is.
std::string refusal(const keel::FeedSpec& spec, size_t bytes, const TrainingFeedOptions& options) {
  if (!spec.data_sink) return "--data-sink off: the host hands over each batch";
  if (!options.cache) return "--no-cache";
  if (options.augmentation) return "images are changed anew in each epoch";
  if (bytes > kMostCached)
    return in_mb(bytes) + " are more than the " + in_mb(kMostCached) + " that are cached";
  const keel::Device& device = spec.device;
  const auto devices = device.backend().devices();
  const keel::DeviceInfo& info = devices.at(static_cast<size_t>(device.index()));
  for (const auto& [name, value] : info.properties) {
    if (name == "strict" && value.starts_with("on"))
      return "KEEL_NPU_STRICT copies whatever a task may read, so the whole set in every step";
  }
  const size_t memory = info.memory_bytes;
  const bool known = memory != 0;
  if (known && bytes > memory / kShareOfMemory)
    return fmt::format("{} are more than a quarter of {}'s {}", in_mb(bytes), device.name(),
                       in_mb(memory));
  return "";
}

size_t bytes_of(const keel::Dataset& items) {
  size_t of_an_item = 0;
  for (const keel::FieldSpec& field : items.spec().fields)
    of_an_item += field.type.shape.num_bytes(field.type.dtype);
  return of_an_item * static_cast<size_t>(items.size().value());
}

keel::Dataset batches(const keel::Dataset& items, const TrainingFeedOptions& options) {
  keel::Dataset order = items.shuffle(options.seed);
  // Random ops of the graph draw from keys of the seed, too; these are of their own.
  if (options.augmentation)
    order = order.augment(*options.augmentation, keel::fold_key(options.seed, "augmentation"));
  return order.batch(options.batch, options.share).repeat();
}

}  // namespace

TrainingFeed feed_training(const keel::Dataset& items, const keel::FeedSpec& spec,
                           const TrainingFeedOptions& options) {
  const keel::FeedOptions named{.name = "train"};
  const size_t bytes = bytes_of(items);
  std::string why = refusal(spec, bytes, options);
  if (why.empty()) {
    try {
      return {keel::feed(batches(items.cache(spec.device), options), spec, named),
              "device cache, " + in_mb(bytes), ""};
    } catch (const keel::Error& error) {
      // Memory that others hold. Whatever else is wrong shows again below.
      why = error.what();
    }
  }
  return {keel::feed(batches(items, options), spec, named), "streamed", why};
}

}  // namespace keel_cli
