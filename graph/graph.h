// Everything that users of graphs need: building, differentiating, printing and running them.
#ifndef KEEL_GRAPH_GRAPH_H
#define KEEL_GRAPH_GRAPH_H

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/sample.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/passes/verify.h"
#include "keel/graph/runtime/loop.h"
#include "keel/graph/runtime/safetensors.h"
#include "keel/graph/runtime/session.h"
#include "keel/graph/runtime/trainer.h"

#endif  // KEEL_GRAPH_GRAPH_H
