// NpuOptions: what a session may ask of its NPU: which device is modelled, and how many blocks its
// launches may have. Neither changes a result (but for what an fp16 overflow becomes: Preset).
// Immutable; any thread.
#ifndef KEEL_BACKENDS_NPU_OPTIONS_H
#define KEEL_BACKENDS_NPU_OPTIONS_H

#include <memory>
#include <string>

#include "keel/backends/npu/presets/preset.h"
#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/core/base/export.h"
#include "keel/core/device/backend.h"

namespace keel::npu {

class KEEL_API NpuOptions final : public DeviceOptions {
 public:
  // A null preset is default_preset(). Throws Error (kInvalidArgument) for blocks below 1, and for
  // blocks of an op that there is not.
  explicit NpuOptions(std::shared_ptr<const Preset> preset = nullptr,
                      BlockDimOptions block_dim = {});
  ~NpuOptions() override;

  const std::shared_ptr<const Preset>& preset() const noexcept { return preset_; }
  const BlockDimOptions& block_dim() const noexcept { return block_dim_; }

 private:
  std::shared_ptr<const Preset> preset_;
  BlockDimOptions block_dim_;
};

// Makes options for SessionOptions: {.device_options = npu::options("ascend910", {.cap = 8})}.
// `preset` is a name or the path of a .json file; empty: default_preset(). Throws Error like
// load_preset.
KEEL_API std::shared_ptr<const DeviceOptions> options(const std::string& preset,
                                                      BlockDimOptions block_dim = {});

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_OPTIONS_H
