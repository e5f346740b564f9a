// Every op of Keel: include this, or the families you use.
#ifndef KEEL_OPS_OPS_H
#define KEEL_OPS_OPS_H

#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"

#endif  // KEEL_OPS_OPS_H
