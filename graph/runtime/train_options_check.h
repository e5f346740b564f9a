// The conflicts among the options of a fit, and between them and the training they are given to:
// each is an error of its own before anything is done. Internal to graph/runtime; pure functions.
#ifndef KEEL_GRAPH_RUNTIME_TRAIN_OPTIONS_CHECK_H
#define KEEL_GRAPH_RUNTIME_TRAIN_OPTIONS_CHECK_H

#include <cstdint>
#include <string>

#include "keel/graph/runtime/trainer.h"

namespace keel {

// The names of these options in errors.
inline constexpr const char* kLoopSizeOption = "TrainOptions::loop_size";
inline constexpr const char* kLoopTunerOption = "TrainOptions::loop_tuner";

[[noreturn]] void complain_of_fit(const std::string& argument, const std::string& expected,
                                  const std::string& got, CallSite site);

// The state of a training that its options may contradict.
struct TrainingNow {
  LoopSize loop_size;  // in force
  int64_t step = 0;    // behind it
  bool has_agreement = false;
};

// Throws Error (kInvalidArgument) for options that are wrong or contradict each other or the
// training, and LOOP_SIZE_MISMATCH where they contradict the loop size in force.
void check_train_options(const TrainOptions& options, const TrainingNow& now, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_TRAIN_OPTIONS_CHECK_H
