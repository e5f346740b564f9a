// The presets that travel inside the library: the .json files of this folder, turned into a
// generated source by build.cmake. Any thread.
#ifndef KEEL_BACKENDS_NPU_PRESETS_PRESET_FILES_H
#define KEEL_BACKENDS_NPU_PRESETS_PRESET_FILES_H

#include <string>
#include <vector>

namespace keel::npu {

struct NpuPresetFile {
  std::string name;  // "ascend910b1"
  std::string text;  // JSON
};

// Returns the presets in the order of the files' names.
std::vector<NpuPresetFile> builtin_presets();

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PRESETS_PRESET_FILES_H
