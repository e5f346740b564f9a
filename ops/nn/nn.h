// Modules, layers, losses, optimizers, schedules and initializers: compositions of ops.
#ifndef KEEL_OPS_NN_NN_H
#define KEEL_OPS_NN_NN_H

#include "keel/ops/nn/clipping.h"
#include "keel/ops/nn/image_layers.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/layers.h"
#include "keel/ops/nn/loss_scale.h"
#include "keel/ops/nn/losses.h"
#include "keel/ops/nn/module.h"
#include "keel/ops/nn/optimizers.h"
#include "keel/ops/nn/pooling_layers.h"
#include "keel/ops/nn/schedules.h"
#include "keel/ops/nn/sequence_layers.h"
#include "keel/ops/nn/updates.h"

#endif  // KEEL_OPS_NN_NN_H
