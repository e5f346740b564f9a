// A training went on with a loss of infinity, and nothing said so: a status was raised by presets
// that saturate alone, and kept for the device as a whole.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "keel/backends/npu/device/float_status.h"
#include "keel/backends/npu/options.h"
#include "keel/core/base/log.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/keel.h"

#include "support/declining_backend.h"
#include "unit/runtime_for_tests.h"

namespace keel {
namespace {

using keel_test::DecliningBackend;
using testing::contains;

// w doubles its exponent in each step: 2^128 in the sixth.
struct Growing {
  Graph graph;
  Value w = graph.state("w", from_tensor(Tensor::scalar<float>(4)));
  Value next = w * w;
  Update update{{{w, next}}};
};

struct Warnings {
  Warnings() {
    set_log_sink([this](LogLevel level, const std::string& line) {
      if (level == LogLevel::kWarn) lines.push_back(line);
    });
  }
  ~Warnings() { set_log_sink({}); }
  int64_t about(const std::string& what) const {
    int64_t count = 0;
    for (const std::string& line : lines) count += contains(line, what);
    return count;
  }
  std::vector<std::string> lines;
};

void check_growth(const Device& on, int64_t size) {
  const Warnings warnings;
  Growing m;
  Session session(m.graph, on);
  Loop loop = session.sink({.update = m.update, .fetches = {m.next}});
  int64_t step = 0;
  std::vector<uint32_t> seen;
  for (; step < 12; step += size) {
    const LoopReport report =
        loop.run(size, {.on_step = [&](int64_t, std::span<const double>, uint32_t status) {
                   seen.push_back(status);
                 }});
    REQUIRE(report.float_status.size() == static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) {
      const bool finite = std::isfinite(report[m.next][static_cast<size_t>(i)]);
      CHECK(finite == (step + i + 1 < 6));
      CHECK(report.float_status[static_cast<size_t>(i)] == (finite ? 0 : kFloatStatusNotFinite));
    }
    const bool raised = step + size >= 6;
    CHECK(report.float_status_step.has_value() == raised);
    if (raised) CHECK(*report.float_status_step == std::max<int64_t>(6, step + 1));
  }
  CHECK(seen.size() == 12);
  // Once for the loop, with the step.
  CHECK(warnings.about("step 6: fetched numbers were infinite or NaN") == 1);
  CHECK(warnings.about("infinite") == 1);
}

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("the first step with a number that is not finite is reported and warned of") {
  for (const std::string& name : backend_names()) {
    DecliningBackend modest(name, "sunk_loop");
    for (const int64_t size : {int64_t{1}, int64_t{4}, int64_t{12}}) {
      CAPTURE(name);
      CAPTURE(size);
      check_growth(device(name), size);
      check_growth(modest.device(), size);
    }
  }
}

TEST_CASE("a trainer reports the first step with a number that is not finite") {
  Graph g;
  const Value x = g.input("x", f32, {1, 2});
  const Value w = g.state("w", ones({2, 1}));
  const Value loss = mean(square(matmul(x, w)));
  const Warnings warnings;
  Session session(g, device("npu"));
  auto feeder = testing::halving_feeder(device("npu"), 100);
  Trainer trainer(session,
                  {.update = sgd(1e6).minimize(loss), .fetches = {loss}, .source = feeder});
  std::optional<int64_t> expected;
  const TrainReport report = trainer.fit(
      {.steps = 30, .loop_size = 7, .on_step = [&](int64_t step, std::span<const double> row) {
         if (!expected && !std::isfinite(row[0])) expected = step;
       }});
  REQUIRE(expected.has_value());
  CHECK(report.float_status_step == expected);
  CHECK(report.float_status == kFloatStatusNotFinite);
  CHECK(warnings.about("step " + std::to_string(*expected) + ": fetched numbers") == 1);
}

TEST_CASE("a step that saturates says so itself and no step before or after it") {
  npu::clear_float_status(device("npu"));
  {
    const Warnings warnings;
    Graph g;
    const Value x = g.input("x", f32, {1, 2});
    const Value twice = sum(cast(cast(x, f16) * 2.0, f32));
    Session session(g, device("npu"), {.device_options = npu::options("ascend910")});
    // Element i holds i * 10000 and 1: 2 * 40000 is beyond f16.
    auto feeder = std::make_shared<testing::NumberFeeder>(
        device("npu"), testing::halving_element(), [](int64_t i, const std::vector<void*>& fields) {
          auto* values = static_cast<float*>(fields[0]);
          values[0] = i == 4 ? 40000.0f : 1.0f;
          values[1] = 1;
          return true;
        });
    feeder->open({});
    Loop loop = session.sink({.fetches = {twice}, .source = feeder});
    const LoopReport report = loop.run(8);
    CHECK(report.float_status ==
          std::vector<uint32_t>{0, 0, 0, 0, kFloatStatusF16Overflow, 0, 0, 0});
    CHECK(report.float_status_step == 5);
    CHECK(warnings.about("step 5: f16 results were stopped at +-65504") == 1);
    CHECK(npu::float_status(device("npu")) == kFloatStatusF16Overflow);  // the device's own stays
    CHECK(!loop.run(3).float_status_step.has_value());
  }
  npu::clear_float_status(device("npu"));
}

TEST_CASE("each kind of status is warned of once also where one launch raises several") {
  npu::clear_float_status(device("npu"));
  {
    const Warnings warnings;
    Graph g;
    const Value x = g.input("x", f32, {1, 2});
    const Value twice = sum(cast(cast(x, f16) * 2.0, f32)) + sum(x) * 0.0f;
    Session session(g, device("npu"), {.device_options = npu::options("ascend910")});
    // 2 * 40000 is beyond f16; 0 times infinity is no number.
    auto feeder = std::make_shared<testing::NumberFeeder>(
        device("npu"), testing::halving_element(), [](int64_t i, const std::vector<void*>& fields) {
          auto* values = static_cast<float*>(fields[0]);
          values[0] = i == 2 ? 40000.0f : 1.0f;
          values[1] = i == 5 ? INFINITY : 1.0f;
          return true;
        });
    feeder->open({});
    Loop loop = session.sink({.fetches = {twice}, .source = feeder});
    for (int launch = 0; launch < 2; ++launch) {
      const LoopReport report = loop.run(8);
      if (launch == 0) CHECK(report.float_status_step == 3);
    }
    CHECK(warnings.about("step 3: f16 results were stopped at +-65504") == 1);
    CHECK(warnings.about("step 6: fetched numbers were infinite or NaN") == 1);
  }
  npu::clear_float_status(device("npu"));
}

TEST_SUITE_END();

}  // namespace keel
