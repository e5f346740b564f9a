// Preset: the parameters of one modelled device, from a JSON file in which each has its unit in its
// name and its source beside it. A preset changes device time, never results (but for what an fp16
// overflow becomes). Immutable once loaded; any thread.
//
// Each session may name its own (npu::options); the default preset is KEEL_NPU_PRESET (a name or a
// path), or ascend910b1. The devices' memory has the default preset's size: sessions with others
// share the devices.
#ifndef KEEL_BACKENDS_NPU_PRESETS_PRESET_H
#define KEEL_BACKENDS_NPU_PRESETS_PRESET_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel::npu {

// Bytes; the smallest real one has three times as many. What the prices cut into tiles fits in it.
inline constexpr int64_t kLeastUnifiedBuffer = int64_t{64} * 1024;

// Share of the peak that transfers of so many contiguous bytes reach.
struct EfficiencyPoint {
  double bytes = 0;
  double share = 0;
};

// A parameter as the file has it.
struct PresetParameter {
  std::string name;
  std::string value;
  std::string source;  // begins with "assumed" where nobody published it
};

struct Preset {
  std::string name;
  std::string description;
  std::string series;  // "910", "910B" or "310"

  int64_t cube_cores = 0;
  int64_t vector_cores = 0;
  int64_t clock_mhz = 0;
  int64_t cube_m = 0, cube_n = 0, cube_k = 0;  // multiply-adds of f16 a cycle: their product
  double cube_fp32_rate = 0;                   // of the f16 rate; 0 where the cube has no f32
  bool bf16 = false;
  std::string precision_mode;            // of sessions that name none
  std::string precision_mode_v2;         // the same in the other list; empty where that has none
  bool saturate_f16 = false;             // overflow gives +-65504 and a status bit, else infinity
  std::vector<DType> atomic_add_dtypes;  // that several cores can add to global memory
  int64_t vector_bytes_per_cycle = 0;

  int64_t ub_bytes = 0, l1_bytes = 0, l0a_bytes = 0, l0b_bytes = 0, l0c_bytes = 0;
  int64_t l1_to_l0a_bytes_per_cycle = 0, l1_to_l0b_bytes_per_cycle = 0;
  int64_t l0c_out_bytes_per_cycle = 0;
  int64_t l2_bytes = 0;
  double l2_gb_per_s = 0;  // GB/s are bytes per ns
  double hbm_gb_per_s = 0;
  int64_t hbm_bytes = 0;
  std::vector<EfficiencyPoint> hbm_efficiency;  // ascending in both

  double gm_ub_issue_ns = 0, gm_ub_gb_per_s = 0;  // of one core: t = issue + bytes / rate
  double gm_l1_issue_ns = 0, gm_l1_gb_per_s = 0;
  double unaligned_ub_factor = 1, unaligned_l1_factor = 1;  // rows that are no multiple of 512 B
  int64_t task_base_ns = 0, task_per_block_ns = 0;
  int64_t kernel_prologue_ns = 0;  // from a kernel's first instruction to its first copy
  double gm_ub_row_ns = 0;         // what each row of a strided copy costs a core beside its bytes
  // Shares of their peaks that vector and cube units reach in kernels: instructions wait for those
  // before them.
  double vector_share = 1, cube_share = 1;
  int64_t scalar_cycles_per_tile = 0;
  int64_t cube_vector_sync_ns = 0;  // handing over between a cube core and its vector cores
  int64_t control_task_ns = 0;
  int64_t ai_cpu_task_ns = 0;  // starting an op on the AI CPU
  double ai_cpu_gb_per_s = 0;  // what it takes and gives in a second
  int64_t launch_sync_ns = 0;
  double pcie_gb_per_s = 0;
  int64_t pcie_latency_ns = 0;

  // Links to other cards, each way: to each card of its half, between the halves of a server, and
  // between servers.
  double hccs_gb_per_s = 0;
  int64_t hccs_latency_ns = 0;
  double card_pcie_gb_per_s = 0;
  double network_gb_per_s = 0;
  int64_t network_latency_ns = 0;

  std::vector<PresetParameter> parameters;  // in the order of the table in the file's reader

  // Returns whether cube and vector units are cores of their own, which meet in global memory.
  bool split_cores() const { return series == "910B"; }
  // Vector cores that work with a cube core: 1 where the cores are not split.
  int64_t vector_cores_of_a_cube() const;
  double clock_ghz() const { return static_cast<double>(clock_mhz) * 1e-3; }  // cycles per ns
  double cube_f16_tflops() const;
  double cube_f32_tflops() const;  // as products in f32 are priced, see cube_passes
  double vector_f16_gflops() const;
  double vector_f32_gflops() const;
  bool has_atomic_add(DType dtype) const;
};

// Cube cycles that a product in this dtype takes for each cycle of an f16 product: 1 for f16 and
// bf16, 1 / cube_fp32_rate for f32, or 3 where the cube has no f32 and three f16 passes emulate it.
KEEL_API double cube_passes(const Preset& preset, DType dtype);

// Throws Error that names source and parameter for what is missing, unknown, of the wrong kind or
// out of range.
KEEL_API Preset parse_preset(const std::string& text, const std::string& name,
                             const std::string& source);
// Returns a built-in preset, or where the argument has a '/' or ends in .json a file. Throws Error
// (kInvalidArgument for a name that nobody has).
KEEL_API Preset load_preset(const std::string& name_or_path);
KEEL_API std::vector<std::string> preset_names();

// Loaded on first use, then the same one for ever.
KEEL_API std::shared_ptr<const Preset> default_preset();

// Writes for people the peaks, then every parameter with its source.
KEEL_API std::string describe_preset(const Preset& preset);
// Returns the built-in presets with bf16, for messages: "ascend910b1, ascend910b4".
std::string presets_with_bf16();

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PRESETS_PRESET_H
