// Errors of Tensor::at, Shape, DeviceQueue and load_backend_plugin did not say which line of the
// user's program they are about.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/queue/device_queue.h"
#include "keel/core/tensor/tensor.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

// This line, as errors name it.
std::string at_line(int line) {
  return "test_errors_without_the_users_line.cpp:" + std::to_string(line) + ")";
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("an element out of range is an error with the line that asks for it") {
  Tensor t = Tensor::of<float>({2}, {1, 2});
  const std::string read = error_of([&] { t.at(2); });
  CHECK(contains(read, "tensor: index: expected 0 to 1"));
  CHECK_MESSAGE(contains(read, at_line(__LINE__ - 2)), read);
  const std::string written = error_of([&] { t.set(-1, 0); });
  CHECK_MESSAGE(contains(written, at_line(__LINE__ - 1)), written);
}

TEST_CASE("a shape with a dimension below -1 or too many is an error with its line") {
  const std::string below = error_of([] { Shape({-2}); });
  CHECK_MESSAGE(contains(below, at_line(__LINE__ - 1)), below);
  const std::string many = error_of([] { Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  CHECK_MESSAGE(contains(many, at_line(__LINE__ - 1)), many);
  const auto takes = [](const Shape& shape) { return shape.rank(); };
  const std::string implicit = error_of([&] { takes({3, -7}); });
  CHECK_MESSAGE(contains(implicit, at_line(__LINE__ - 1)), implicit);
}

TEST_CASE("a queue that cannot be made is an error with the line that wrote its options") {
  const ElementSpec element{{{"x", {f32, {4}}}}};
  const Device on = device("cpu");
  const std::string depth = error_of([&] { DeviceQueue(on, element, {.depth = -1}); });
  CHECK_MESSAGE(contains(depth, at_line(__LINE__ - 1)), depth);
  const std::string shared = error_of(
      [&] { std::make_shared<DeviceQueue>(on, element, DeviceQueueOptions{.depth = -1}); });
  CHECK_MESSAGE(contains(shared, at_line(__LINE__ - 1)), shared);
  // Neither the queue's own line nor that of the standard library, which std::make_shared would
  // give.
  const ElementSpec open{{{"x", {f32, {-1}}}}};
  const std::string defaults = error_of([&] { std::make_shared<DeviceQueue>(on, open); });
  CHECK_MESSAGE(!contains(defaults, ".h:"), defaults);
}

TEST_CASE("a plugin that cannot be loaded is an error with the line that asks for it") {
  const std::string error = error_of([] { load_backend_plugin("/nowhere/plugin.so"); });
  CHECK_MESSAGE(contains(error, at_line(__LINE__ - 1)), error);
}

}  // namespace keel
