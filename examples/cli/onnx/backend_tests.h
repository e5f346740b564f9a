// The backend tests of the ONNX project: folders with a model, inputs and expected outputs, each of
// them imported, run and compared. What `keel conformance --onnx` prints. One thread at a time.
#ifndef KEEL_EXAMPLES_CLI_ONNX_BACKEND_TESTS_H
#define KEEL_EXAMPLES_CLI_ONNX_BACKEND_TESTS_H

#include <functional>
#include <string>
#include <vector>

#include <keel/keel.h>

namespace keel_cli {

enum class OnnxVerdict {
  kPassed,
  kRefused,  // by the import, or by the backend when it compiled, before anything ran
  kFailed,   // a result out of tolerance, or an error while compiling or running
};
const char* name_of(OnnxVerdict verdict) noexcept;

struct OnnxScore {
  std::string name;  // the case's folder, relative to the one that was asked for
  OnnxVerdict verdict = OnnxVerdict::kPassed;
  // The reason of a refusal; the first element that differs, or the error.
  std::string detail;
  std::vector<std::string> bound;   // inputs that were constants of the imported graph
  bool computed_at_import = false;  // nothing was left for the backend to compute
};

// The cases below `folder`, in the order of their names. Throws keel::Error where there is none.
std::vector<std::string> backend_test_names(const std::string& folder);

// Returns the files that all of them but those called `except` are read from.
std::vector<std::string> backend_test_files(const std::string& folder,
                                            const std::vector<std::string>& except);

// Runs all of them but those called `except`.
std::vector<OnnxScore> run_backend_tests(const std::string& folder, const keel::Device& device,
                                         const std::vector<std::string>& except,
                                         const std::function<void(const OnnxScore&)>& listen);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_ONNX_BACKEND_TESTS_H
