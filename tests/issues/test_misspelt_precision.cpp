// A misspelt `precision` attribute was an error under the mixed modes only, so that a program that
// was tried in fp32 failed when it was given a mode.
#include <string>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/error_of.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("a misspelt precision attribute is an error under every mode") {
  for (const std::string& mode : precision_names()) {
    CAPTURE(mode);
    Graph g;
    const Value x = g.input("x", f32, {2, 2});
    Value y;
    {
      const AttributeScope exact(g, kPrecisionAttribute, "kept");
      y = matmul(x, x) + 1.0f;
    }
    Session session(g, device("cpu"), {.precision = mode});
    const std::string error = keel_test::error_of([&] {
      session.run({y}, {{x, Tensor(f32, {2, 2})}});
    });
    CHECK_MESSAGE(keel_test::contains(error, "attribute precision: expected 'keep', got 'kept'"),
                  error);
    CHECK_MESSAGE(keel_test::contains(error, "test_misspelt_precision.cpp"), error);
  }
}

}  // namespace keel
