// The mark of nodes that compute whether numbers are finite. They make NaN of an infinity on
// purpose, so that whoever looks for the op that made a number which is not finite passes them
// over. Pure functions; any thread.
#ifndef KEEL_GRAPH_IR_FINITENESS_CHECK_H
#define KEEL_GRAPH_IR_FINITENESS_CHECK_H

#include "keel/graph/ir/label.h"

namespace keel {

inline constexpr const char* kFinitenessCheckAttribute = "finiteness_check";
inline constexpr const char* kMakesNan = "makes_nan";

inline bool checks_finiteness(const Node& node) {
  return is_marked(node, kFinitenessCheckAttribute, kMakesNan);
}

}  // namespace keel

#endif  // KEEL_GRAPH_IR_FINITENESS_CHECK_H
