// Views: nodes that show the bytes of their first input under another shape (trait kView). Pure
// functions; any thread.
#ifndef KEEL_GRAPH_IR_VIEWS_H
#define KEEL_GRAPH_IR_VIEWS_H

#include "keel/core/base/export.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Returns the value whose bytes a chain of views shows.
KEEL_API Value root_of(Value v);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_VIEWS_H
