// Everything that users of backends need: keel::device("npu:0").
#ifndef KEEL_BACKENDS_BACKENDS_H
#define KEEL_BACKENDS_BACKENDS_H

#include "keel/backends/registry.h"

#endif  // KEEL_BACKENDS_BACKENDS_H
