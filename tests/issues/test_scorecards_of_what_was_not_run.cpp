// A scorecard said "pass" of ops whose gradients the backend does not run, and of those of which no
// case was run at all.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/ops/conformance/scorecard.h"

#include "support/declining_backend.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("conformance");

namespace {

using namespace keel;
using conformance::Score;
using conformance::Verdict;
using keel_test::contains;

// A backend that stops running anything.
class TiringBackend final : public keel_test::DecliningBackend {
 public:
  TiringBackend() : DecliningBackend("ref", "") {}
  Support supports(const Node& node, const DeviceOptions* options) const override {
    if (tired) return {false, "it is tired"};
    return DecliningBackend::supports(node, options);
  }
  bool tired = false;
};

}  // namespace

TEST_CASE("a gradient that a backend does not run is told of beside what passed") {
  // Gradients are checked of results that products weight.
  keel_test::DecliningBackend modest("ref", "mul");
  const std::vector<Score> scores = conformance::scorecard(modest, {.ops = {"neg", "equal"}});
  REQUIRE(!scores.empty());
  for (const Score& score : scores) {
    CAPTURE(score.op);
    CAPTURE(name_of(score.dtype));
    CAPTURE(score.detail);
    CHECK(score.verdict == Verdict::kPass);
    CHECK(score.cases > 0);
    const bool has_gradient = score.op == "neg" && is_float(score.dtype);
    if (!has_gradient) {
      CHECK(score.detail.empty());
      continue;
    }
    CHECK(score.detail.starts_with("gradient not run: "));
    CHECK(contains(score.detail, "its control unit is too small"));
  }
  for (const Score& score : conformance::scorecard(backend("ref"), {.ops = {"neg"}}))
    CHECK(score.detail.empty());
}

TEST_CASE("an op of which no case was run does not pass") {
  TiringBackend backend;
  // The first dtype is looked at closely before it tires, all others behind that.
  const auto listen = [&](const Score&) { backend.tired = true; };
  const std::vector<Score> scores =
      conformance::scorecard(backend, {.ops = {"neg"}, .listen = listen});
  REQUIRE(scores.size() > 1);
  CHECK(scores[0].verdict == Verdict::kPass);
  CHECK(scores[0].cases > 0);
  for (size_t i = 1; i < scores.size(); ++i) {
    CAPTURE(scores[i].detail);
    CHECK(scores[i].verdict == Verdict::kUnsupported);
    CHECK(scores[i].cases == 0);
    CHECK(contains(scores[i].detail, "no case of "));
    CHECK(contains(scores[i].detail, "it is tired"));
  }
}

TEST_SUITE_END();
