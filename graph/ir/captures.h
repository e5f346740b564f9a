// Captures: what a value of a body stands for that the body took from the graphs around it. A pure
// function; any thread, while nobody builds.
#ifndef KEEL_GRAPH_IR_CAPTURES_H
#define KEEL_GRAPH_IR_CAPTURES_H

#include "keel/core/base/export.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Returns the value of the graph where it is computed; the value itself where it was not captured.
KEEL_API Value origin_of(const Value& value);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_CAPTURES_H
