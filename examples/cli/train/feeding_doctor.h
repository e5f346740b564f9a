// Says in one line what bounds a training, by measurements of it and of its feed, and what to try.
// The training itself says who waited for whom; what the feed took by itself only says why. Pure;
// any thread.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_FEEDING_DOCTOR_H
#define KEEL_EXAMPLES_CLI_TRAIN_FEEDING_DOCTOR_H

#include <cstdint>
#include <string>
#include <vector>

namespace keel_cli {

// A stage of the feed and what it costs by itself, on the producer's thread, in wall time.
struct FeedStage {
  std::string name;              // "map(normalise)"
  double own_us = 0;             // a batch
  double images_per_second = 0;  // of the feed up to this stage, with nobody waiting
  std::string advice;            // what makes it faster
};

struct FeedSigns {
  double step_us = 0;             // wall time of a step
  double queue_wait_us = 0;       // of it the device waited for data
  std::vector<FeedStage> stages;  // none: they were not measured
  bool data_sink = true;          // else the host made each batch when its step came
};

// Two figures decide, each against a limit that is in the text: how much of a step the device waits
// for data, and how much of it the feed takes by itself, its stages together.
//   waits less than 5 %, the feed takes less than the step:
//     "bound by the device: it waits for data 0 % of wall; the feed by itself is 5.2 times as fast"
//   waits less than 5 %, the feed takes as long:
//     "bound by the device, just: it waits for data 2 % of wall; the feed by itself takes as long"
//   waits less than 5 %, the feed takes longer, as it can where the machine's load changes:
//     "bound by the device: it waits for data 0 % of wall, though the feed by itself takes 1.2
//     times as long"
//   waits longer, and the feed takes so much longer than the device that it explains half of that:
//     "bound by map(normalise): 71 % of wall; device idle 40 %; try --map-threads 2"
//   waits longer, though the feed by itself does not explain half of it:
//     "bound by the processor: device idle 40 %, though the feed by itself takes 10 % of wall; try
//     fewer --threads"
// Without stages nothing is said about the feed. Where the host makes each batch, the device waits
// for it however fast that is:
//     "bound by the host, which feeds each step: device idle 27 %; try --data-sink on"
std::string feeding_verdict(const FeedSigns& signs);

// How full a queue was found, from DeviceQueue::occupancy(): a line for empty, for each quarter,
// and for full, with its share of all dequeues and a bar.
std::string occupancy_histogram(const std::vector<int64_t>& occupancy);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_FEEDING_DOCTOR_H
