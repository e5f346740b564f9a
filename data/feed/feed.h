// feed: pumps a Dataset into a DeviceQueue on a thread of its own. The elements are written
// straight into the queue's slots. End of data and failures travel through the queue; every element
// carries its cursor.
#ifndef KEEL_DATA_FEED_FEED_H
#define KEEL_DATA_FEED_FEED_H

#include <chrono>
#include <memory>
#include <string>

#include "keel/core/base/export.h"
#include "keel/core/queue/device_queue.h"
#include "keel/core/queue/feeder.h"
#include "keel/data/pipeline/dataset.h"

namespace keel {

struct FeedOptions {
  std::string name = "feed";  // the queue's, in errors and reports
  // Elements that can wait in the queue; 0 for the queue's default, but no more than the dataset
  // has. At most 1 where the spec's data_sink is off: then each is made when its step asks for it.
  int64_t depth = 0;
  // How long a step may wait for an element; zero for ever.
  std::chrono::milliseconds getnext_timeout{0};
  // The place to begin at: right behind the element that carried this cursor.
  Cursor start = {};
};

// Starts feeding. The dataset's elements must be what `spec` asks for: fields pair by name where
// all of the spec's names are fields of the dataset, else in order, and their types must be equal;
// throws Error naming the field otherwise. Feeding ends with the dataset: repeat() makes it
// endless. Training wants batch(n), evaluation batch(n, Tail::kPad) and an input "mask" (bool [n]).
KEEL_API std::shared_ptr<Feeder> feed(const Dataset& dataset, const FeedSpec& spec,
                                      const FeedOptions& options = {},
                                      CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_DATA_FEED_FEED_H
