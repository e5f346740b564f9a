// Every op on every backend and dtype that it claims, forward and gradient, against the references.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/ops/conformance/scorecard.h"

#include "conformance/scale.h"

TEST_SUITE_BEGIN("conformance");

namespace keel::conformance {
namespace {

// Nothing fails, and every op that can be computed in f32 is.
void check_backend(const std::string& name) {
  for (const Score& score : scorecard(backend(name), {.cases = cases_for_each_op()})) {
    CHECK_MESSAGE(score.verdict != Verdict::kFail, name, ": ", score.detail);
    const bool missing = score.dtype == f32 && score.verdict == Verdict::kUnsupported;
    CHECK_MESSAGE(!missing, name, " does not run ", score.op, " in f32: ", score.detail);
  }
}

}  // namespace

// One case each, so that they run and fail apart.
TEST_CASE("ref agrees with the references") { check_backend("ref"); }
TEST_CASE("cpu agrees with the references") { check_backend("cpu"); }
TEST_CASE("npu agrees with the references") { check_backend("npu"); }

TEST_CASE("every built-in backend has its case here") {
  for (const BackendFactory& factory : builtin_backends()) {
    const std::string name = factory.name;
    CHECK_MESSAGE((name == "ref" || name == "cpu" || name == "npu"), name);
  }
}

}  // namespace keel::conformance

TEST_SUITE_END();
