// Everything public of core, but for the two headers that pull in other packages:
// core/tensor/xtensor.h and core/base/json.h.
#ifndef KEEL_CORE_CORE_H
#define KEEL_CORE_CORE_H

#include "keel/core/base/call_site.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/dtype.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/export.h"
#include "keel/core/base/file.h"
#include "keel/core/base/function_ref.h"
#include "keel/core/base/half.h"
#include "keel/core/base/log.h"
#include "keel/core/base/parallel_for.h"
#include "keel/core/base/random.h"
#include "keel/core/base/read_budget.h"
#include "keel/core/base/result.h"
#include "keel/core/base/sha256.h"
#include "keel/core/base/shape.h"
#include "keel/core/base/wait_word.h"
#include "keel/core/device/backend.h"
#include "keel/core/device/device.h"
#include "keel/core/device/program.h"
#include "keel/core/device/stream.h"
#include "keel/core/queue/device_queue.h"
#include "keel/core/queue/element_function.h"
#include "keel/core/queue/element_spec.h"
#include "keel/core/queue/feeder.h"
#include "keel/core/queue/metrics_queue.h"
#include "keel/core/tensor/buffer.h"
#include "keel/core/tensor/convert.h"
#include "keel/core/tensor/finite.h"
#include "keel/core/tensor/npy.h"
#include "keel/core/tensor/tensor.h"

#endif  // KEEL_CORE_CORE_H
