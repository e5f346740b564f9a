// A cumprod along a batch that the run decides was exported with the ten rounds that 1,009 to 1,019
// items have, and gave wrong products for more than 1,024.
#include <doctest/doctest.h>

#include "keel/keel.h"
#include "keel/ops/exchange/onnx/export.h"

#include "support/temp_folder.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("a graph whose ops are counted by the batch is exported for one size alone") {
  const keel_test::TempFolder folder;
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  const Value products = cumprod(x, 0);
  const Value slope = gradients(sum(prod(x, {0})), {x})[0];
  for (const Value& v : {products, slope}) {
    CHECK_THROWS_WITH_AS(onnx::save(g, {}, {v}, folder.file("m.onnx")),
                         doctest::Contains("export it for one size"), Error);
    onnx::save(g, {}, {v}, folder.file("m.onnx"), {.batch = 5});
  }
}

TEST_SUITE_END();

}  // namespace keel
