// Initial values of variables as a graph of their own, in which a variable stands for its own
// initial value: a step's assignments do not reach it. Internal to the import; plain functions.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_INITIAL_VALUES_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_INITIAL_VALUES_H

#include <set>
#include <string>

#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/graphdef/selection.h"

namespace keel::graphdef {

// Makes what initial values are computed of read the initial values of other variables in place of
// those variables; nodes that the outputs need as well are copied for it. Variables have their
// initial value as their first input. Throws Error where two of them need each other.
void separate_initial_values(Selection& selection, const OpRules& rules);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_INITIAL_VALUES_H
