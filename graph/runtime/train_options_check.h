// The conflicts among the options of a fit, and between them and the session's loop size: each is
// an error of its own before anything is done. Internal to graph/runtime; pure functions.
#ifndef KEEL_GRAPH_RUNTIME_TRAIN_OPTIONS_CHECK_H
#define KEEL_GRAPH_RUNTIME_TRAIN_OPTIONS_CHECK_H

#include <string>

#include "keel/graph/runtime/trainer.h"

namespace keel {

// The names of these options in errors.
inline constexpr const char* kLoopSizeOption = "TrainOptions::loop_size";
inline constexpr const char* kLoopTunerOption = "TrainOptions::loop_tuner";

[[noreturn]] void complain_of_fit(const std::string& argument, const std::string& expected,
                                  const std::string& got, CallSite site);

// Throws Error (kInvalidArgument) for options that are wrong or contradict each other, and
// LOOP_SIZE_MISMATCH where they contradict the loop size in force.
void check_train_options(const TrainOptions& options, const LoopSize& in_force, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_TRAIN_OPTIONS_CHECK_H
