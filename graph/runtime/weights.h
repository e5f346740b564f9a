// Weights: the states of a model out of a file that may hold more or less than the graph: a
// training's optimizer states, another number of classes. Session::load takes a whole file or
// nothing; here states are taken by name. Any thread that may use the session.
#ifndef KEEL_GRAPH_RUNTIME_WEIGHTS_H
#define KEEL_GRAPH_RUNTIME_WEIGHTS_H

#include <map>
#include <string>
#include <vector>

#include "keel/graph/runtime/session.h"

namespace keel {

// Which of the graph's states a file holds, by name and in the graph's order.
struct WeightsMatch {
  struct Mismatch {
    std::string name;
    Type wanted, saved;
  };
  std::vector<std::string> matched;     // of the same dtype and shape
  std::vector<std::string> missing;     // not in the file
  std::vector<Mismatch> mismatched;     // of another dtype or shape there
  std::vector<std::string> left_aside;  // in the file and not asked for; Keel's own counters aside

  bool complete() const noexcept { return missing.empty() && mismatched.empty(); }
};

// `states` of a graph against tensors of a file (read_safetensors).
KEEL_API WeightsMatch match_weights(const Values& states,
                                    const std::map<std::string, Tensor>& saved);
// The same, and those that match are written. Throws what Session::write throws.
KEEL_API WeightsMatch load_weights(Session& session, const Values& states,
                                   const std::map<std::string, Tensor>& saved,
                                   CallSite site = CallSite::here());
// "12 match; missing: 'a', 'b'; of another shape: 'w' (f32[784, 10], f32[3072, 10] in the file)",
// each list cut short behind a few.
KEEL_API std::string describe(const WeightsMatch& match);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_WEIGHTS_H
