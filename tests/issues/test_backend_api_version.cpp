// What plugins and the library exchange had changed under an unchanged kBackendApiVersion, so that
// a plugin built before was loaded and read other fields than were written.
#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/common/shared_kernels.h"
#include "keel/backends/common/vector/integer_product.h"
#include "keel/backends/common/vector_call.h"
#include "keel/backends/plugin.h"
#include "keel/core/device/backend.h"
#include "keel/core/group/agreement.h"
#include "keel/core/queue/device_queue.h"
#include "keel/core/queue/metrics_queue.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_def.h"

TEST_SUITE_BEGIN("device");

#if defined(__x86_64__) && defined(__GLIBCXX__) && !defined(_GLIBCXX_DEBUG)

// Fields of structs with members of other libraries: conditionally supported, and fine here.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace {

using namespace keel;

struct Layouts {
  std::string text;
  void add(const char* what, size_t number) {
    text += what + (" " + std::to_string(number)) + "\n";
  }
  uint64_t hash() const {  // FNV-1a
    uint64_t h = 14695981039346656037u;
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return h;
  }
};

#define KEEL_SIZE(T) layouts.add(#T, sizeof(T))
#define KEEL_FIELD(T, f) layouts.add(#T "::" #f, offsetof(T, f))

Layouts exchanged() {
  Layouts layouts;
  KEEL_SIZE(PluginAbi);
  KEEL_SIZE(DeviceInfo);
  KEEL_FIELD(DeviceInfo, memory_bytes);
  KEEL_FIELD(DeviceInfo, properties);
  KEEL_SIZE(Support);
  KEEL_FIELD(Support, reason);
  KEEL_SIZE(CompileOptions);
  KEEL_FIELD(CompileOptions, device_options);
  KEEL_SIZE(Backend::SlotMemory);
  KEEL_SIZE(StateInfo);
  KEEL_FIELD(StateInfo, layout);
  KEEL_FIELD(StateInfo, bytes);
  KEEL_FIELD(StateInfo, updated);
  KEEL_FIELD(StateInfo, second_buffer);
  KEEL_SIZE(InsertedOp);
  KEEL_SIZE(ProgramInfo);
  KEEL_FIELD(ProgramInfo, outputs);
  KEEL_FIELD(ProgramInfo, scratch_bytes);
  KEEL_FIELD(ProgramInfo, task_count);
  KEEL_FIELD(ProgramInfo, inserted_ops);
  KEEL_FIELD(ProgramInfo, launch_device_ns);
  KEEL_SIZE(LaunchReport);
  KEEL_FIELD(LaunchReport, stopped);
  KEEL_FIELD(LaunchReport, verdict);
  KEEL_FIELD(LaunchReport, step_given_up);
  KEEL_FIELD(LaunchReport, error);
  KEEL_FIELD(LaunchReport, cursor);
  KEEL_FIELD(LaunchReport, float_status);
  KEEL_FIELD(LaunchReport, metrics_wait_ns);
  KEEL_SIZE(StateBuffers);
  KEEL_SIZE(LaunchArgs);
  KEEL_FIELD(LaunchArgs, scratch);
  KEEL_FIELD(LaunchArgs, queue);
  KEEL_FIELD(LaunchArgs, agreement);
  KEEL_FIELD(LaunchArgs, report);
  KEEL_SIZE(Cursor);
  KEEL_SIZE(Shape);
  KEEL_SIZE(Type);
  KEEL_SIZE(CallSite);
  KEEL_SIZE(FieldSpec);
  KEEL_SIZE(ElementSpec);
  KEEL_SIZE(Tensor);
  KEEL_SIZE(Value);
  KEEL_SIZE(Attributes);
  KEEL_SIZE(NodeLabel);
  KEEL_SIZE(Node);
  KEEL_SIZE(OpDef);
  KEEL_FIELD(OpDef, traits);
  KEEL_FIELD(OpDef, role);
  KEEL_SIZE(Graph);
  KEEL_SIZE(DeviceQueue);
  KEEL_SIZE(MetricsQueue);
  KEEL_SIZE(LoopAgreement);
  KEEL_SIZE(AbortContext);
  KEEL_SIZE(VectorCall);
  KEEL_FIELD(VectorCall, n);
  KEEL_FIELD(VectorCall, streams);
  KEEL_FIELD(VectorCall, status);
  KEEL_SIZE(SharedKernel);
  KEEL_FIELD(SharedKernel, supports);
  KEEL_SIZE(RangeKernel);
  KEEL_SIZE(vector::IntegerProductCall);
  KEEL_FIELD(vector::IntegerProductCall, c_stride);
  KEEL_FIELD(vector::IntegerProductCall, scratch);
  return layouts;
}

}  // namespace

TEST_CASE("the layout of what plugins exchange is that of this version of the backend API") {
  const Layouts now = exchanged();
  CAPTURE(now.text);
  CHECK_MESSAGE(kBackendApiVersion == 16, "the version was raised: put it here, too");
  CHECK_MESSAGE(now.hash() == 12967498041730534061u,
                "a struct that plugins exchange with the library has another layout, so plugins "
                "built before would read wrong fields: raise kBackendApiVersion "
                "(core/device/backend.h), and put the new version and this hash here: ",
                now.hash());
}

#endif

TEST_SUITE_END();
