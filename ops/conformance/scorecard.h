// The scorecard of a backend: every op in every dtype that it has samples of, forward and gradient,
// against the ops' own reference functions and error bounds. What `keel conformance` prints and
// what the tests of the built-in backends look at. One thread at a time.
#ifndef KEEL_OPS_CONFORMANCE_SCORECARD_H
#define KEEL_OPS_CONFORMANCE_SCORECARD_H

#include <functional>
#include <string>
#include <vector>

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"
#include "keel/core/device/backend.h"

namespace keel::conformance {

enum class Verdict {
  kPass,         // the backend's own kernel, within the op's bound
  kComposed,     // the same, as a composition of other ops in some case at least
  kUnsupported,  // neither the op nor a composition of it runs, in a few samples or in all cases
  kFail,         // a result outside of the bound, or an exception
};
// "pass", "composed", "unsupported", "fail".
KEEL_API const char* name_of(Verdict verdict) noexcept;

struct Score {
  std::string op;
  DType dtype = f32;
  Verdict verdict = Verdict::kPass;
  int cases = 0;  // that were run; at least one where the verdict is pass or composed
  // Unsupported: the backend's reason. Fail: the case, the first element that differs, what was
  // expected and the bound. Pass and composed: in how many cases the gradient was not run, and why;
  // empty where it was in all that have one.
  std::string detail;
};

struct ScorecardOptions {
  int cases = 50;                            // of each op, shared by its dtypes
  std::vector<std::string> ops;              // only these; empty: all that compute something
  std::function<void(const Score&)> listen;  // called for each as soon as it is known
};

// Runs on the backend's device 0. Throws Error for ops that do not exist; what the backend throws
// is a failure of the op.
KEEL_API std::vector<Score> scorecard(Backend& backend, const ScorecardOptions& options = {});

}  // namespace keel::conformance

#endif  // KEEL_OPS_CONFORMANCE_SCORECARD_H
