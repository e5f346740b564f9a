// Loss scaling: the state machine over a scripted sequence, skipped steps, resuming, saturating
// devices, whose overflow it was; and the op float_status.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/keel.h"

#include "runtime_for_tests.h"
#include "support/fusion.h"
#include "support/temp_folder.h"
#include "unit/graph/infinity_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::kInfinity;
using keel_test::TempFolder;

// Steps 3, 5, 9, 13, 14 and 15 of 15, counted from 1, overflow.
bool overflows(int64_t step) {
  return step == 3 || step == 5 || step == 9 || (step >= 13 && step <= 15);
}

// A scale of 8 that doubles after 3 good steps and halves after 2 bad ones; by hand:
//   good 2, bad (b1), good, bad (b2: 4), good 3 (8), bad (b1), good 3 (16), bad (b1), bad (b2: 8).
// Each step has the scale that the steps before it left.
const std::vector<double> kScales = {8, 8, 8, 8, 8, 4, 4, 4, 8, 8, 8, 8, 16, 16, 8};
constexpr ExponentialLossScale kRule = {.init_loss_scale = 8,
                                        .incr_every_n_steps = 3,
                                        .decr_every_n_nan_or_inf = 2,
                                        .incr_ratio = 2,
                                        .decr_ratio = 0.5};

std::shared_ptr<NumberFeeder> script(const Device& on) {
  auto feeder = std::make_shared<NumberFeeder>(on, ElementSpec{{{"x", {f32, {3}}}}},
                                               [](int64_t i, const std::vector<void*>& fields) {
                                                 auto* x = static_cast<float*>(fields[0]);
                                                 for (int64_t k = 0; k < 3; ++k)
                                                   x[k] = static_cast<float>((i + k) % 4);
                                                 if (overflows(i + 1))
                                                   x[1] = i % 2 == 0 ? kInfinity : -kInfinity;
                                                 return true;
                                               });
  feeder->open({});
  return feeder;
}

// loss = sum(w * x), so the gradient of w is x.
struct Scripted {
  explicit Scripted(const LossScale& rule = kRule) : scaler(graph, rule) {
    loss = sum(w * x);
    const Values scaled = gradients(scaler.scaled(loss), {w});
    finite = scaler.finite(scaled);
    update = apply_if(finite, sgd(0.5, {.momentum = 0.5}).apply({w}, scaler.unscaled(scaled)));
    update += scaler.update(finite);
  }
  Graph graph;
  LossScaler scaler;
  Value x = graph.input("x", f32, {3});
  Value w = graph.state("w", from_tensor(Tensor::of<float>({3}, {1, 2, 3})));
  Value loss, finite;
  Update update;
};

std::vector<double> scales_of(Loop& loop, const Value& scale, int64_t steps, int64_t loop_size) {
  std::vector<double> scales;
  for (int64_t done = 0; done < steps; done += loop_size) {
    const LoopReport report = loop.run(std::min(loop_size, steps - done));
    const auto row = report[scale];
    scales.insert(scales.end(), row.begin(), row.end());
  }
  return scales;
}

double value_of(Session& session, const char* state) {
  return session.read(session.graph().find_state(state)).at(0);
}

}  // namespace

TEST_CASE("loss scaling: the scale follows its rule over scripted overflows for any loop size") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    std::string sha;
    for (const int64_t loop_size : {1, 7, 15}) {
      CAPTURE(loop_size);
      Scripted m;
      Session session(m.graph, device(backend));
      Loop loop = session.sink(
          {.update = m.update, .fetches = {m.scaler.scale()}, .source = script(session.device())});
      CHECK(scales_of(loop, m.scaler.scale(), 15, loop_size) == kScales);
      CHECK(value_of(session, "loss_scale/scale") == 8);
      CHECK(value_of(session, "loss_scale/good_steps") == 0);
      CHECK(value_of(session, "loss_scale/bad_steps") == 1);
      CHECK(session.step() == 15);
      CHECK(value_of(session, "keel/updates") == 9);
      const std::string own = session.state_sha256();
      if (!sha.empty()) CHECK(own == sha);
      sha = own;
    }
  }
}

TEST_CASE(
    "loss scaling: a skipped step leaves weights and momentum and applied ones are unscaled") {
  Scripted scaled;
  Session session(scaled.graph, device("npu"));
  Loop loop = session.sink({.update = scaled.update, .source = script(session.device())});
  // Without scaling, on the good steps alone; all numbers are exact.
  std::vector<double> w = {1, 2, 3}, velocity = {0, 0, 0};
  for (int64_t step = 1; step <= 12; ++step) {
    loop.run(1);
    for (int64_t k = 0; k < 3 && !overflows(step); ++k) {
      const auto at = static_cast<size_t>(k);
      velocity[at] = velocity[at] * 0.5 + static_cast<double>((step - 1 + k) % 4);
      w[at] -= 0.5 * velocity[at];
    }
    CAPTURE(step);
    for (int64_t k = 0; k < 3; ++k)
      CHECK(session.read(scaled.w).at(k) == w[static_cast<size_t>(k)]);
  }
}

TEST_CASE("loss scaling: resuming in the middle of a growth interval is exact") {
  const TempFolder files;
  const std::string file = files.file("states");
  const auto train = [&](int64_t steps, const char* resume) {
    Scripted m;
    Session session(m.graph, device("cpu"));
    Trainer trainer(session, {.update = m.update, .source = script(session.device())});
    if (resume != nullptr) trainer.resume(resume);
    trainer.fit({.steps = steps - session.step()});
    trainer.save(file);
    return session.state_sha256();
  };
  const std::string whole = train(12, nullptr);
  train(7, nullptr);
  CHECK(train(12, file.c_str()) == whole);
}

TEST_CASE("loss scaling: a fixed scale changes no result and may leave overflows unchecked") {
  Scripted checked(FixedLossScale{.scale = 1024});
  CHECK(checked.scaler.update(checked.finite).empty());
  Session session(checked.graph, device("npu"));
  Loop loop = session.sink({.update = checked.update, .source = script(session.device())});
  loop.run(15);
  CHECK(value_of(session, "keel/updates") == 9);
  for (int64_t k = 0; k < 3; ++k) CHECK(std::isfinite(session.read(checked.w).at(k)));

  Scripted unchecked(FixedLossScale{.scale = 1024, .enable_overflow_check = false});
  Session other(unchecked.graph, device("npu"));
  other.sink({.update = unchecked.update, .source = script(other.device())}).run(15);
  CHECK(!std::isfinite(other.read(unchecked.w).at(1)));
}

TEST_CASE("loss scaling: gradients that f16 cannot hold train with it and not without") {
  const auto moved = [](bool scaled, const char* preset) {
    Graph g;
    const Value x = g.input("x", f32, {4, 8});
    const Value w = g.state("w", zeros({8, 2}));
    // Gradients of about 1e-9 reach the product's operands.
    const Value loss = mean(square(matmul(x, w) - 1.0f)) * 1e-9f;
    LossScaler scaler(g, FixedLossScale{.scale = scaled ? 1048576.0 : 1.0});
    const Values slopes = gradients(scaler.scaled(loss), {w});
    const Update update =
        apply_if(scaler.finite(slopes), sgd(1e8).apply({w}, scaler.unscaled(slopes)));
    Session session(g, device("npu"),
                    {.precision = "mixed_fp16", .device_options = npu::options(preset)});
    for (int i = 0; i < 5; ++i) session.run(update, loss, {{x, Tensor::full(f32, {4, 8}, 0.25)}});
    return session.read(w).at(0);
  };
  for (const char* preset : {"ascend910", "ascend910b1"}) {
    CAPTURE(preset);
    CHECK(moved(false, preset) == 0);
    CHECK(moved(true, preset) > 0.05);
  }
}

TEST_CASE("loss scaling: overflow is seen where the device saturates and where it does not") {
  for (const char* preset : {"ascend910", "ascend910b1"}) {
    CAPTURE(preset);
    Graph g;
    const Value x = g.input("x", f32, {1, 2});
    const Value w = g.state("w", ones({2, 2}));
    const Value loss = sum(matmul(x, w));
    LossScaler scaler(g,
                      ExponentialLossScale{.init_loss_scale = 65536, .decr_every_n_nan_or_inf = 1});
    const Values scaled = gradients(scaler.scaled(loss), {w});
    const Value finite = scaler.finite(scaled);
    Update update = apply_if(finite, sgd(0.5).apply({w}, scaler.unscaled(scaled)));
    update += scaler.update(finite);
    Session session(g, device("npu"),
                    {.precision = "mixed_fp16", .device_options = npu::options(preset)});
    const Tensor value = Tensor::of<float>({1, 2}, {1, 3});
    // 65536 itself is no f16: stopped at 65504, or infinite.
    CHECK(session.run(update, finite, {{x, value}}).at(0) == 0);
    CHECK(session.read(w).at(0) == 1);
    CHECK(value_of(session, "loss_scale/scale") == doctest::Approx(65536 * 0.8));
    CHECK(session.run(update, finite, {{x, value}}).at(0) == 1);
    // The scale itself is rounded to f16.
    CHECK(session.read(w).at(0) == doctest::Approx(0.5).epsilon(1e-3));
    CHECK(session.read(w).at(2) == doctest::Approx(-0.5).epsilon(1e-3));
  }
}

TEST_CASE("loss scaling: two optimizers tell whose overflow it was") {
  const auto options = npu::options("ascend910");
  Graph g;
  const Value x = g.input("x", f32, {1, 2}), y = g.input("y", f32, {1, 2});
  const Value v = g.state("v", ones({2, 1})), w = g.state("w", ones({2, 1}));
  const auto half = [&](const Value& in, const Value& state, const char* name) {
    const Value loss = sum(matmul(in, state));
    LossScaler scaler(g, FixedLossScale{.scale = 2}, name);
    const Values scaled = gradients(scaler.scaled(loss), {state});
    return apply_if(scaler.finite(scaled), sgd(1.0).apply({state}, scaler.unscaled(scaled)));
  };
  Update both = half(x, v, "first");
  both += half(y, w, "second");
  Session session(g, device("npu"), {.precision = "mixed_fp16", .device_options = options});
  const Tensor small = Tensor::of<float>({1, 2}, {1, 1});
  const Tensor large = Tensor::of<float>({1, 2}, {1, 70000});  // rounded to f16 for the product
  session.run(both, Values{}, {{x, large}, {y, small}});
  CHECK(session.read(v).at(0) == 1);
  CHECK(session.read(w).at(0) == 0);
  session.run(both, Values{}, {{x, small}, {y, large}});
  CHECK(session.read(v).at(0) == 0);
  CHECK(session.read(w).at(0) == 0);
}

TEST_CASE("loss scaling: rules that make no sense are refused") {
  Graph g;
  const auto error = [&](const LossScale& rule) {
    return error_of([&] { LossScaler(g, rule, "s" + std::to_string(g.size())); });
  };
  CHECK(contains(error(FixedLossScale{.scale = 0.5}), "LossScaler: scale: expected at least 1"));
  CHECK(contains(error(ExponentialLossScale{.init_loss_scale = 0}), "init_loss_scale"));
  CHECK(contains(error(ExponentialLossScale{.incr_every_n_steps = 0}), "incr_every_n_steps"));
  CHECK(contains(error(ExponentialLossScale{.decr_every_n_nan_or_inf = 0}), "decr_every"));
  CHECK(contains(error(ExponentialLossScale{.incr_ratio = 0.5}), "incr_ratio"));
  CHECK(contains(error(ExponentialLossScale{.decr_ratio = 1}), "decr_ratio"));
  const LossScaler first(g, kRule);
  CHECK(contains(error_of([&] { LossScaler(g, kRule); }), "give each scaler a name of its own"));
  CHECK(contains(error_of([&] { all_finite({}); }), "all_finite"));
}

TEST_CASE("loss scaling: what an update goes by are flags of one element") {
  Graph g;
  const Value good = g.input("good", boolean, {});
  const Value number = g.input("number", f32, {}), several = g.input("several", boolean, {2});
  const LossScaler fixed(g, FixedLossScale{.scale = 2}), exponential(g, kRule);
  for (const LossScaler* scaler : {&fixed, &exponential}) {
    const size_t before = g.size();
    CHECK(contains(error_of([&] { scaler->update(number); }),
                   "LossScaler: finite: expected bool[], got f32[]"));
    CHECK(contains(error_of([&] { scaler->update(several); }),
                   "LossScaler: finite: expected bool[], got bool[2]"));
    CHECK(contains(error_of([&] { scaler->update(good, number); }),
                   "LossScaler: when: expected bool[], got f32[]"));
    const std::string error = error_of([&] { scaler->update(good, several); });
    CHECK(contains(error, "LossScaler: when: expected bool[], got bool[2]"));
    CHECK(contains(error, "test_loss_scale.cpp"));
    CHECK(g.size() == before);
    CHECK_NOTHROW(scaler->update(good, good));
  }
}

TEST_CASE("loss scaling: it grows to the end of f32 and shrinks to 1 and not further") {
  Graph g;
  const Value good = g.input("good", boolean, {});
  LossScaler scaler(g, ExponentialLossScale{.init_loss_scale = 2e38,
                                            .incr_every_n_steps = 1,
                                            .decr_every_n_nan_or_inf = 1,
                                            .incr_ratio = 2,
                                            .decr_ratio = 1e-30});
  const Update update = scaler.update(good);
  Session session(g, device("cpu"));
  const auto step = [&](bool ok) {
    session.run(update, Values{}, {{good, Tensor::full(boolean, {}, ok ? 1 : 0)}});
    return value_of(session, "loss_scale/scale");
  };
  CHECK(step(true) == doctest::Approx(2e38));
  CHECK(step(false) == doctest::Approx(2e8));
  CHECK(step(false) == 1);
  CHECK(step(true) == 2);
}

TEST_CASE("float status op: it sees what its inputs depend on in this step and nothing else") {
  for (const bool fuse : {true, false}) {
    Graph g;
    const Value x = g.input("x", f16, {4}), y = g.input("y", f16, {4});
    const Value a = (x + x) * 0.5f, b = (y + y) * 0.5f;
    const Value of_a = float_status({a}), of_b = float_status({b}), of_both = float_status({b, a});
    const Value later = float_status({sum(cast(a, f32))});
    Session session(g, device("npu"),
                    {.disabled_passes = keel_test::fusion(fuse),
                     .precision = "fp32",
                     .device_options = npu::options("ascend910")});
    const auto statuses = [&](double u, double v) {
      std::vector<double> result;
      for (const Tensor& t :
           session.run({of_a, of_b, of_both, later, a},
                       {{x, Tensor::full(f16, {4}, u)}, {y, Tensor::full(f16, {4}, v)}}))
        result.push_back(t.at(0));
      return result;
    };
    CHECK(statuses(1, 1) == std::vector<double>{0, 0, 0, 0, 1});
    CHECK(statuses(40000, 1) == std::vector<double>{1, 0, 1, 1, 32752});
    CHECK(statuses(1, -40000) == std::vector<double>{0, 1, 1, 0, 1});
    CHECK(statuses(1, 1) == std::vector<double>{0, 0, 0, 0, 1});
  }
  Graph g;
  const Value x = g.input("x", f16, {4});
  Session infinite(g, device("npu"), {.device_options = npu::options("ascend910b1")});
  const Value status = float_status({x + x});
  CHECK(infinite.run(status, {{x, Tensor::full(f16, {4}, 40000)}}).at(0) == 0);
  CHECK(contains(error_of([] { float_status({}); }), "float_status: values"));
}

TEST_CASE("float status op: a loop raises it when one of its turns does") {
  Graph g;
  const Value x = g.input("x", f16, {2});
  const auto status_after = [&](int64_t turns) {
    const Value grown = while_loop(
        {x}, [](const Values& v) { return less(sum(v[0]), 0.0f); },
        [](const Values& v) { return Values{v[0] + v[0]}; }, {.trip_count = turns})[0];
    return float_status({cast(grown, f32)});
  };
  const Value few = status_after(3), many = status_after(6);
  Session session(g, device("npu"),
                  {.precision = "fp32", .device_options = npu::options("ascend910")});
  const auto results = session.run({few, many}, {{x, Tensor::full(f16, {2}, 2000)}});
  CHECK(results[0].at(0) == 0);  // 16000
  CHECK(results[1].at(0) == 1);  // 128000
}

TEST_SUITE_END();
