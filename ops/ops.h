// Every op of Keel: include this, or the families you use.
#ifndef KEEL_OPS_OPS_H
#define KEEL_OPS_OPS_H

#include "keel/ops/batch_norm.h"
#include "keel/ops/composed/attention.h"
#include "keel/ops/composed/channel_norm.h"
#include "keel/ops/composed/convolutions.h"
#include "keel/ops/composed/einsum.h"
#include "keel/ops/composed/global_pooling.h"
#include "keel/ops/composed/indexing.h"
#include "keel/ops/composed/rearrange.h"
#include "keel/ops/composed/recurrent.h"
#include "keel/ops/conv.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/loss.h"
#include "keel/ops/matmul.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/normalization.h"
#include "keel/ops/pool.h"
#include "keel/ops/queue.h"
#include "keel/ops/random.h"
#include "keel/ops/reduce.h"
#include "keel/ops/resize.h"
#include "keel/ops/scan.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"
#include "keel/ops/sort.h"
#include "keel/ops/split.h"
#include "keel/ops/triangle.h"
#include "keel/ops/variance.h"

#endif  // KEEL_OPS_OPS_H
