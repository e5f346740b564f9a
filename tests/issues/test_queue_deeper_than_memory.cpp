// A queue depth of 10^9 ended in bad_alloc.
#include <limits>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/error_of.h"

namespace keel {

using keel_test::contains;
using keel_test::error_of;

TEST_SUITE_BEGIN("queue");

TEST_CASE("a queue deeper than memory is an error that says how deep it may be") {
  const ElementSpec element{{{"x", {f32, {4}}}}};
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const auto refusal = [&](int64_t depth) {
      return error_of(
          [&] { DeviceQueue(device(name), element, {.name = "train", .depth = depth}); });
    };
    const std::string billion = refusal(1000000000);
    CAPTURE(billion);
    CHECK(contains(billion, "queue 'train': depth: expected at most "));
    CHECK(contains(billion, "got 1000000000"));
    CHECK(contains(billion, "64 bytes on " + name + ":0"));
    CHECK(!refusal(std::numeric_limits<int64_t>::max()).empty());
    CHECK(!refusal(std::numeric_limits<int64_t>::max() / 64).empty());
    CHECK(refusal(1000).empty());
  }
}

TEST_CASE("a feed deeper than memory is an error as well") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 2});
  Session session(g, device("cpu"));
  const Tensor rows(f32, {8, 2});
  const Dataset data = Dataset::from_tensors({{"x", rows}}).batch(2).repeat();
  CHECK(contains(error_of([&] { feed(data, session.spec({x}), {.depth = 1000000000}); }),
                 "depth: expected at most "));
}

TEST_SUITE_END();

}  // namespace keel
