// Messages whose advice could not be taken where they came up.
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/npu/profile/profile.h"
#include "keel/core/base/file.h"
#include "keel/keel.h"
#include "keel/ops/exchange/onnx/export.h"

#include "support/count_of.h"
#include "support/error_of.h"
#include "support/numbers.h"
#include "support/onnx_op.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("messages");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

}  // namespace

TEST_CASE("a loop without a source is told of it and not of feeds") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3}), y = g.input("y", f32, {-1});
  const Value w = g.state("w", ones({3, 1}));
  const Value loss = mean(matmul(x, w)) + mean(y);
  const Update update = sgd(0.1).minimize(loss);
  for (const bool data_sink : {true, false}) {
    Session session(g, device("npu"), {.data_sink = data_sink});
    const SinkOptions step{.update = update, .fetches = {loss}};
    const int line = __LINE__ + 1;
    const std::string error = error_of([&] { session.sink(step); });
    CHECK_MESSAGE(
        contains(error,
                 "sink: source: expected a feeder or queue for the step's inputs, such as 'x' "
                 "f32[?, 3], got none; add .source = keel::feed(dataset, session.spec({x, y})) ("),
        error);
    CHECK_MESSAGE(contains(error, "led_nowhere.cpp:" + std::to_string(line)), error);
    // A step that reaches no input needs none.
    CHECK(session.sink({.update = Update{{{w, w + 1.0f}}}}).run(2).steps == 2);
  }
}

TEST_CASE("a precision of another list is told where it goes") {
  Graph g;
  const auto text = [&](const Precision& precision) {
    return error_of([&] { Session(g, device("npu"), {.precision = precision}); });
  };
  CHECK(contains(text("allow_mix_precision_fp16"),
                 "got 'allow_mix_precision_fp16'; it is a name of precision_mode: take "
                 "keel::Precision::named(\"allow_mix_precision_fp16\"), which sets .mode ("));
  CHECK(contains(text("mixed_float16"), "which sets .mode_v2"));
  Precision mode;
  mode.mode = "mixed_bf16";
  CHECK(contains(text(mode), "which sets .name"));
  CHECK(contains(text("mixed_bf6"), "did you mean 'mixed_bf16'?"));
  CHECK(text(Precision::named("allow_mix_precision_fp16")).empty());
}

TEST_CASE("a random op of an open shape is told where the key of the other one comes from") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  CHECK(contains(error_of([&] { normal(g, x.shape()); }),
                 "use normal_like(keel::random_key(graph), x, ...)"));
  CHECK(contains(error_of([&] { bernoulli(g, 0.5, x.shape()); }),
                 "use bernoulli_like(keel::random_key(graph), x, ...)"));
  CHECK(normal_like(random_key(g), x, 0, 1, f32).shape() == x.shape());
}

TEST_CASE("what cannot be written as ONNX is listed once") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 8});
  const Value w = g.state("w", ones({8, 8}));
  const Value loss = mean(dropout(relu(dropout(matmul(x, w), 0.5)), 0.5));
  const Value slope = gradients(loss, {w})[0];
  std::map<std::string, Tensor> states{{"w", Tensor::full(f32, {8, 8}, 1)}};
  for (const char* own : {"keel/seed", "keel/step"}) states[own] = Tensor::full(i64, {}, 0);
  const keel_test::TempFolder folder;
  const std::string error = error_of([&] {
    onnx::save(g, states, {loss, slope}, folder.file("m.onnx"));
  });
  // Each dropout has a key of its own, and both stand on one line.
  CHECK_MESSAGE(contains(error, "2 values cannot be written as ONNX"), error);
  CHECK_MESSAGE(keel_test::count_of("(fold_key ", error) == 1, error);
  CHECK_MESSAGE(keel_test::count_of("(bernoulli ", error) == 1, error);
}

// What a rule makes of a node is refused at lines of the rule, which no user knows of.
TEST_CASE("what an import refuses is told by the line of the node") {
  const keel_test::OnnxOp hot{.op = "OneHot",
                              .operands = {{"ids", keel_test::onnx_int64({1}, {0})},
                                           {"depth", keel_test::onnx_int64({1}, {-3}), true},
                                           {"values", Tensor::of<float>({2}, {0, 1}), true}}};
  const std::string error = error_of([&] { hot.import(); });
  CHECK_MESSAGE(contains(error, "got -3 (m.onnx:1)"), error);
  CHECK_MESSAGE(!contains(error, "import_rules"), error);
}

TEST_CASE("the advice on a profile does not ask users to change what counts the steps") {
  Graph g;
  const Value w = g.state("w", ones({64, 64}));
  Session session(g, device("npu"));
  const Loop loop = session.sink({.update = Update{{{w, matmul(w, w)}}}});
  const keel_test::TempFolder folder;
  npu::write_profile(loop.program(), {.directory = folder.path()});
  const std::string advice = read_file(folder.file("advice.txt"), 1 << 20);
  const size_t own = advice.find("keel/add");
  REQUIRE(own != std::string::npos);
  const std::string piece = advice.substr(own, advice.find("\n\n", own) - own);
  CHECK_MESSAGE(contains(piece, "note: Keel's own count"), piece);
  CHECK_MESSAGE(!contains(piece, "fix:"), piece);
}

// Each message is followed: what it says to do is then taken.
TEST_CASE("a shuffle behind a prefetch is told to stand before it") {
  const Dataset four = keel_test::numbers(4);
  for (const Dataset& before : {four.prefetch(2), four.repeat(2)}) {
    const std::string error = error_of([&] { before.shuffle(1); });
    CHECK_MESSAGE(contains(error, "put prefetch() and repeat() behind the shuffle"), error);
  }
  CHECK(four.shuffle(1).prefetch(2).size() == 4);
}

TEST_CASE("a split and a batch of too few items say so in words") {
  const auto of_split = [](int64_t items) {
    return error_of([&] { keel_test::numbers(items).split(1); });
  };
  CHECK(contains(of_split(1), "split: two parts need two items or more, and there is 1; "));
  CHECK(contains(of_split(0), "split: two parts need two items or more, and there are none; "));
  CHECK(contains(error_of([] { keel_test::numbers(2).split(2); }), "expected 1 to 1, of 2 items"));
  const auto of_batch = [](int64_t items, int64_t size, BatchShare share) {
    return error_of([&] { keel_test::numbers(items).batch(size, share); });
  };
  CHECK(contains(of_batch(0, 1, {}), "batch: there are too few items for one batch: 0; "));
  CHECK(contains(of_batch(1, 1, {.count = 2}),
                 "batch: there are too few items for one batch: 1 for 2 shares; "));
  CHECK(contains(of_batch(2, 2, {.count = 2}), "expected at most 1, a share of the number"));
}

TEST_SUITE_END();
