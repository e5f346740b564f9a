// Rules for the assignments of a step, whoever is given them: a graph, text, or a session.
// Pure functions; any thread.
#ifndef KEEL_GRAPH_IR_UPDATE_CHECK_H
#define KEEL_GRAPH_IR_UPDATE_CHECK_H

#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/graph/ir/update.h"

namespace keel {

// Throws Error, in the name of `op`, unless the assignment is of a state, and of its type: an
// unknown dimension of the next value may turn out to be the state's.
void require_assignment(const Assignment& assignment, const std::string& op, CallSite site);

// Throws Error, in the name of `op`, unless the assignments are of states, each assigned once, and
// none is the number of steps, which the steps count themselves.
void require_step(const std::vector<Assignment>& assignments, const std::string& op, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_UPDATE_CHECK_H
