// TrainingFeed: how the training set reaches the device: kept there whole where it is small, with
// row numbers in the queue, or streamed batch by batch. The training is the same, bit for bit.
// Images that change from pass to pass are streamed.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_TRAINING_FEED_H
#define KEEL_EXAMPLES_CLI_TRAIN_TRAINING_FEED_H

#include <memory>
#include <optional>
#include <string>

#include <keel/keel.h>

namespace keel_cli {

struct TrainingFeed {
  std::shared_ptr<keel::Feeder> feeder;
  std::string kind;  // "device cache, 47.0 MB" or "streamed"
  std::string why;   // it is streamed; empty for a cache
};

struct TrainingFeedOptions {
  uint64_t seed = 0;         // of the shuffle and the augmentation
  int64_t batch = 100;       // of this rank
  keel::BatchShare share{};  // of the batches of all ranks
  bool cache = true;         // where the set is up to 256 MiB and the device has room
  std::optional<keel::ImageAugmentation> augmentation{};
};

// An endless feed of shuffled batches of items that can be reached in any order.
TrainingFeed feed_training(const keel::Dataset& items, const keel::FeedSpec& spec,
                           const TrainingFeedOptions& options);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_TRAINING_FEED_H
