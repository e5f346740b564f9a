// FeedingDoctor: from what a training waited for to one line that says what bounds it and what to
// try. Pure; any thread.
#ifndef KEEL_EXAMPLES_CLI_FEEDING_DOCTOR_H
#define KEEL_EXAMPLES_CLI_FEEDING_DOCTOR_H

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
};

// "bound by map(normalise): 71 % of wall; device idle 40 %; try --map-threads 2"
// "bound by the device: it waits for data 0 % of wall; the feed could go 5.2 times as fast"
std::string feeding_verdict(const FeedSigns& signs);

// How full a queue was found, from DeviceQueue::occupancy(): a line for empty, for each quarter,
// and for full, with its share of all dequeues and a bar.
std::string occupancy_histogram(const std::vector<int64_t>& occupancy);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_FEEDING_DOCTOR_H
