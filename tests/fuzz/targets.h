// The fuzz targets: one function for each parser of files that others may have written. Each takes
// any bytes and returns whether they were read, or refused by an Error; whatever else happens is a
// finding: another exception, a check of its own that fails (std::logic_error), a sanitizer's
// report, memory beyond the read budget that a target sets. One thread at a time.
#ifndef KEEL_TESTS_FUZZ_TARGETS_H
#define KEEL_TESTS_FUZZ_TARGETS_H

#include <string>
#include <string_view>
#include <vector>

namespace keel_fuzz {

struct Target {
  std::string name;  // of its folder of seeds, too
  bool (*run)(std::string_view bytes);
};

bool fuzz_json(std::string_view bytes);
bool fuzz_graph(std::string_view bytes);
bool fuzz_safetensors(std::string_view bytes);
bool fuzz_npy(std::string_view bytes);
bool fuzz_idx(std::string_view bytes);
bool fuzz_csv(std::string_view bytes);
bool fuzz_onnx(std::string_view bytes);
bool fuzz_graphdef(std::string_view bytes);
bool fuzz_python(std::string_view bytes);

inline std::vector<Target> targets() {
  return {{"json", fuzz_json}, {"graph", fuzz_graph},       {"safetensors", fuzz_safetensors},
          {"npy", fuzz_npy},   {"idx", fuzz_idx},           {"csv", fuzz_csv},
          {"onnx", fuzz_onnx}, {"graphdef", fuzz_graphdef}, {"python", fuzz_python}};
}

}  // namespace keel_fuzz

#endif  // KEEL_TESTS_FUZZ_TARGETS_H
