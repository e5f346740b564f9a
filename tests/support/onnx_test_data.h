// The backend tests of the ONNX project, as Debian's package libonnx-testdata installs them.
#ifndef KEEL_TESTS_SUPPORT_ONNX_TEST_DATA_H
#define KEEL_TESTS_SUPPORT_ONNX_TEST_DATA_H

#include <filesystem>
#include <string>

namespace keel_test {

inline const std::string kOnnxTestData = "/usr/share/libonnx-testdata/data";
// Its results were computed with an epsilon of 0.01, which the model does not say.
inline const std::string kContradictoryOnnxTest = "node/test_adam_multiple";

inline bool has_onnx_test_data() { return std::filesystem::is_directory(kOnnxTestData); }

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_ONNX_TEST_DATA_H
