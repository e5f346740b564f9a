// Everything public of graph. Building graphs needs ops/ops.h beside it.
#ifndef KEEL_GRAPH_GRAPH_H
#define KEEL_GRAPH_GRAPH_H

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/initializer.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/node.h"
#include "keel/graph/ir/op_def.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/sample.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/ir/update.h"
#include "keel/graph/ir/value.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/passes/precision.h"
#include "keel/graph/runtime/graph_function.h"
#include "keel/graph/runtime/hook.h"
#include "keel/graph/runtime/loop.h"
#include "keel/graph/runtime/loop_size.h"
#include "keel/graph/runtime/safetensors.h"
#include "keel/graph/runtime/session.h"
#include "keel/graph/runtime/trainer.h"

#endif  // KEEL_GRAPH_GRAPH_H
