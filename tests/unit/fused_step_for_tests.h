// What tests of fused tasks on devices share: the devices that fuse, a step that runs fused or node
// by node, whether two runs gave the same bits, and values of any dtype.
#ifndef KEEL_TESTS_UNIT_FUSED_STEP_FOR_TESTS_H
#define KEEL_TESTS_UNIT_FUSED_STEP_FOR_TESTS_H

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/base/parallel_for.h"
#include "keel/graph/runtime/session.h"

#include "support/fusion.h"

namespace keel::testing {

// The devices that fuse.
inline constexpr const char* kFusingDevices[] = {"npu:0", "cpu:0"};

// A step of any graph over inputs and states.
struct StepCase {
  std::function<std::pair<Update, Values>(Graph&)> build;
  std::vector<Tensor> inputs;
};

// Its fetches, then its states.
inline std::vector<Tensor> run_case(const StepCase& c, const std::string& where, bool fuse,
                                    std::string* tasks = nullptr,
                                    std::shared_ptr<const DeviceOptions> options = {}) {
  Graph g;
  const auto [update, fetches] = c.build(g);
  Session session(
      g, device(where),
      {.disabled_passes = keel_test::fusion(fuse), .device_options = std::move(options)});
  Feeds feeds;
  for (size_t i = 0; i < g.inputs().size(); ++i) feeds.push_back({g.inputs()[i], c.inputs.at(i)});
  if (tasks != nullptr) *tasks = session.describe(update, fetches, feeds);
  std::vector<Tensor> results = session.run(update, fetches, feeds);
  for (const Value& state : g.states()) results.push_back(session.read(state));
  return results;
}

// Its fetches from a session as it is made by default.
inline std::vector<Tensor> fetches_on(const Device& device, const StepCase& c) {
  Graph g;
  const auto [update, fetches] = c.build(g);
  Session session(g, device);
  Feeds feeds;
  for (size_t i = 0; i < g.inputs().size(); ++i) feeds.push_back({g.inputs()[i], c.inputs[i]});
  return session.run(update, fetches, feeds);
}

inline bool all_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), bit_equal);
}

// Returns the tasks of the case as a backend fuses it, once its bits are checked against those of a
// step that fuses nothing, on one thread and on three.
inline std::string tasks_with_checked_bits(const StepCase& c, const std::string& where) {
  std::string tasks;
  const std::vector<Tensor> apart = run_case(c, where, false);
  for (const int threads : {1, 3}) {
    const ComputeThreads scope(threads);
    CHECK(all_equal(run_case(c, where, true, &tasks), apart));
  }
  return tasks;
}

// Values in [-1, 1), or whole numbers below twice `most` in dtypes of integers.
inline Tensor noise(DType dtype, const Shape& shape, uint32_t seed, float most) {
  Tensor t(dtype, shape);
  visit_dtype(dtype, [&]<class T>() {
    for (T& x : t.data<T>()) {
      const float unit = static_cast<float>((seed = seed * 1664525 + 1013904223) >> 8) * 0x1p-23f;
      x = is_float(dtype) ? static_cast<T>(unit - 1.0f) : static_cast<T>(unit * most);
    }
  });
  return t;
}

// The same in f32.
inline Tensor noise(const Shape& shape, uint32_t seed) { return noise(f32, shape, seed, 0); }

// A reduction of values of that shape.
struct Reduced {
  Shape shape;
  std::vector<int64_t> axes;
  bool keepdims = false;
};

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_FUSED_STEP_FOR_TESTS_H
