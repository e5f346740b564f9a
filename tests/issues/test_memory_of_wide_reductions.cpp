// Reductions over leading axes of wide rows made accumulators for each row or two, which took more
// memory than the operand.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/vector/element_kernels.h"
#include "keel/keel.h"

namespace keel {
namespace {

size_t workspace_of(const Value& reduced) {
  return vector::plan_reduction(reduced.node()).workspace_bytes;
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("reductions of wide rows take little memory besides their operand") {
  Graph g;
  for (const int64_t width : {int64_t{8192}, int64_t{32768}, int64_t{262144}, int64_t{1} << 21}) {
    CAPTURE(width);
    const int64_t rows = (int64_t{1} << 26) / width;
    const Value floats = g.input("x" + std::to_string(width), f32, {rows, width});
    const Value bytes = g.input("u" + std::to_string(width), u8, {rows, width});
    // 8 bytes for each accumulator: those of the results, and 8 MiB at most for others.
    const size_t most = (static_cast<size_t>(width) << 3) + (size_t{8} << 20);
    CHECK(workspace_of(sum(floats, {0})) <= most);
    CHECK(workspace_of(max(bytes, {0})) <= most);
  }
  // One accumulator for 512 rows, for the errors' sake, where that is more.
  const int64_t rows = 8192, width = 65536;
  const size_t results = static_cast<size_t>(width) * sizeof(float);
  CHECK(workspace_of(sum(g.input("tall and wide", f32, {rows, width}), {0})) <=
        results * (static_cast<size_t>(rows / 512) + 1));
}

TEST_CASE("reductions of wide rows are those of each column for any number of threads") {
  const int64_t rows = 600, width = 16400;
  Tensor x(f32, {rows, width});
  std::vector<double> sums(static_cast<size_t>(width)), squares(sums), largest(sums);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < width; ++c) {
      const auto column = static_cast<size_t>(c);
      const auto value = static_cast<double>((r * 7 + c * 5) % 13);
      x.data<float>()[static_cast<size_t>(r * width + c)] = static_cast<float>(value);
      sums[column] += value;
      squares[column] += value * value;
      largest[column] = std::max(largest[column], value);
    }
  }
  Graph g;
  const Value v = g.input("x", f32, x.shape());
  const Values results{sum(v, {0}), sum(square(v), {0}) * 2.0f, max(v, {0})};
  for (const int threads : {1, 2, 3}) {
    Session session(g, device("cpu"), {.threads = threads});
    const std::vector<Tensor> got = session.run(results, {{v, x}});
    int64_t wrong = 0;
    for (int64_t c = 0; c < width; ++c) {
      const auto column = static_cast<size_t>(c);
      const bool right = got[0].at(c) == sums[column] && got[1].at(c) == 2 * squares[column] &&
                         got[2].at(c) == largest[column];
      wrong += right ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_SUITE_END();

}  // namespace keel
