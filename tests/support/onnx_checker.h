// The ONNX project's own checker, an independent reader of what Keel writes: Debian's python3-onnx,
// which only tests use.
#ifndef KEEL_TESTS_SUPPORT_ONNX_CHECKER_H
#define KEEL_TESTS_SUPPORT_ONNX_CHECKER_H

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace keel_test {

// What a line of Python prints, errors included, with `onnx` and `numpy_helper` imported and the
// model of `path` checked and loaded as `m`.
inline std::string onnx_python(const std::string& path, const std::string& line) {
  const std::string program =
      "import onnx; from onnx import numpy_helper; onnx.checker.check_model('" + path +
      "', full_check=True); m = onnx.load('" + path + "'); " + line;
  const std::string command = "/usr/bin/python3 -c \"" + program + "\" 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "cannot run python3";
  std::string text;
  std::array<char, 4096> part;
  while (const size_t got = std::fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), got);
  pclose(pipe);
  return text;
}

inline bool has_onnx_checker() {
  static const bool kFound = std::system("/usr/bin/python3 -c 'import onnx' >/dev/null 2>&1") == 0;
  return kFound;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_ONNX_CHECKER_H
