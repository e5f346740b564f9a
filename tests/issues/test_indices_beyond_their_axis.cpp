// Imported ops that make several axes one took an index beyond its own axis for one of the next
// row: they read and wrote elements that no index named. So did lengths beyond their sequence, and
// class ids beyond the classes cost nothing.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/built_in_backends.h"
#include "support/error_of.h"
#include "support/onnx_op.h"
#include "unit/ops/graphdef/op_runs_for_tests.h"

namespace keel_test {
namespace {

// Says whether it is of that index; the reference tells of an "index", where kernels do not.
bool is_of(const std::string& error, const std::string& index, const std::string& position) {
  const std::string got = index + " at position " + position;
  return contains(error, "got " + got) || contains(error, "got index " + got);
}

// The op on x[3, 4] = 0, 1, ..., and indices that are fed or held.
OnnxOp op_of(const std::string& op, const Tensor& indices, bool is_held,
             const std::vector<std::string>& attributes = {}) {
  return {.op = op,
          .operands = {{"x", onnx_counting({3, 4})}, {"i", indices, is_held}},
          .attributes = attributes};
}

// Requires the index to be refused at import where it is a constant, and else in the run, by name.
void check_index_refused(OnnxOp op, const std::string& index, const std::string& axis) {
  CAPTURE(op.op);
  CAPTURE(index);
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    const std::string error = error_of([&] { op.run(backend); });
    INFO(error);
    CHECK(contains(error, "indices along axis " + axis));
    CHECK(is_of(error, index, ""));
  }
  op.operands[1].held = true;
  const std::string error = error_of([&] { op.import(); });
  INFO(error);
  CHECK(contains(error, "1 x " + op.op));
  CHECK(contains(error, "there is no index " + index + " along axis " + axis + " of size"));
}

OnnxOp with_updates(OnnxOp op, const Tensor& updates) {
  op.operands.push_back({"u", updates});
  return op;
}

std::string reduction(const std::string& name) {
  return bytes_field(1, "reduction") + bytes_field(4, name) + number_field(20, 3);
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("imported ops that gather refuse an index beyond its own axis") {
  const std::string along = onnx_int("axis", 1);
  check_index_refused(op_of("GatherND", onnx_int64({2, 2}, {0, 3, 0, 5}), false), "5", "1");
  check_index_refused(op_of("GatherND", onnx_int64({2, 2}, {0, 3, 1, -5}), false), "-5", "1");
  check_index_refused(op_of("GatherND", onnx_int64({1, 2}, {3, 0}), false), "3", "0");
  check_index_refused(op_of("GatherND", onnx_int64({1, 1}, {-4}), false), "-4", "0");
  check_index_refused(
      op_of("GatherND", onnx_int64({3, 1}, {0, 4, 0}), false, {onnx_int("batch_dims", 1)}), "4",
      "1");
  check_index_refused(op_of("GatherElements", onnx_int64({3, 1}, {0, 5, 0}), false, {along}), "5",
                      "1");
  check_index_refused(op_of("GatherElements", onnx_int64({1, 2}, {0, -4}), false), "-4", "0");
  check_index_refused(op_of("Gather", onnx_int64({1}, {-5}), false, {along}), "-5", "1");
}

TEST_CASE("imported ops that scatter refuse an index beyond its own axis") {
  const Tensor one = Tensor::of<float>({1}, {99}), square = Tensor::of<float>({1, 1}, {99});
  for (const std::string by : {"none", "add", "mul", "max", "min"}) {
    CAPTURE(by);
    const std::vector<std::string> named{onnx_int("axis", 1), reduction(by)};
    check_index_refused(
        with_updates(op_of("ScatterElements", onnx_int64({1, 1}, {5}), false, named), square), "5",
        "1");
    check_index_refused(
        with_updates(op_of("ScatterND", onnx_int64({1, 2}, {0, 5}), false, {reduction(by)}), one),
        "5", "1");
    check_index_refused(
        with_updates(op_of("ScatterND", onnx_int64({1, 2}, {-4, 0}), false, {reduction(by)}), one),
        "-4", "0");
  }
}

TEST_CASE("indices of both ends of an axis still name their elements") {
  for (const bool is_held : {false, true}) {
    CAPTURE(is_held);
    const auto result = [&](const std::string& op, const Tensor& indices,
                            const std::vector<std::string>& attributes = {}) {
      return elements_of(op_of(op, indices, is_held, attributes).run("cpu"));
    };
    using Row = std::vector<double>;
    CHECK(result("GatherND", onnx_int64({4, 2}, {0, 0, 2, 3, -3, -1, -1, -4})) == Row{0, 11, 3, 8});
    CHECK(result("GatherElements", onnx_int64({3, 2}, {0, -4, 3, -1, 1, -2}),
                 {onnx_int("axis", 1)}) == Row{0, 0, 7, 7, 9, 10});
    CHECK(result("Gather", onnx_int64({2}, {-3, 2})) == Row{0, 1, 2, 3, 8, 9, 10, 11});
    const Tensor scattered = with_updates(op_of("ScatterElements", onnx_int64({2, 1}, {-4, 3}),
                                                is_held, {onnx_int("axis", 1)}),
                                          Tensor::of<float>({2, 1}, {50, 60}))
                                 .run("cpu");
    CHECK(elements_of(scattered) == Row{50, 1, 2, 3, 4, 5, 6, 60, 8, 9, 10, 11});
  }
}

TEST_CASE("indices of elements reach no further than the input along the other axes") {
  const std::string error = error_of([] {
    op_of("GatherElements", onnx_int64({4, 1}, {0, 0, 0, 0}), false, {onnx_int("axis", 1)})
        .import();
  });
  CHECK_MESSAGE(contains(error, "its indices [4, 1] do not fit its input [3, 4]"), error);
}

TEST_CASE("lengths beyond a sequence are errors and those up to it are not") {
  const std::vector<std::string> axes{onnx_int("time_axis", 1), onnx_int("batch_axis", 0)};
  const auto reversed = [&](const std::vector<int64_t>& lengths, bool is_held = false) {
    return op_of("ReverseSequence", onnx_int64({3}, lengths), is_held, axes);
  };
  CHECK(elements_of(reversed({4, 0, 2}).run()) ==
        std::vector<double>{3, 2, 1, 0, 4, 5, 6, 7, 9, 8, 10, 11});
  for (const int64_t wrong : {5, -1}) {
    for (const std::string& backend : kBuiltInBackends) {
      const std::string error = error_of([&] { reversed({2, wrong, 4}).run(backend); });
      INFO(error);
      CHECK(contains(error, "lengths"));
      CHECK(is_of(error, std::to_string(wrong), "1"));
    }
    const std::string early = error_of([&] { reversed({2, wrong, 4}, true).import(); });
    CHECK_MESSAGE(contains(early, "a length of its sequences is " + std::to_string(wrong) +
                                      ", and they have 4 steps"),
                  early);
  }
}

TEST_CASE("recurrent layers refuse lengths beyond their sequence") {
  // Two sequences of two steps of 1; the unit adds them up, since relu(x + h) does.
  const Tensor x = Tensor::of<float>({2, 2, 1}, {1, 1, 1, 1});
  const Tensor weight = Tensor::of<float>({1, 1, 1}, {1});
  const auto rnn = [&](const std::vector<int32_t>& lengths) {
    return OnnxOp{.op = "RNN",
                  .operands = {{"x", x},
                               {"w", weight, true},
                               {"r", weight, true},
                               {"", {}},
                               {"l", Tensor::of<int32_t>({2}, lengths)}},
                  .attributes = {onnx_int("hidden_size", 1), bytes_field(1, "activations") +
                                                                 bytes_field(9, "Relu") +
                                                                 number_field(20, 8)}};
  };
  CHECK(elements_of(rnn({2, 1}).run()) == std::vector<double>{1, 1, 2, 0});
  for (const int32_t wrong : {3, -1}) {
    const std::string error = error_of([&] { rnn({1, wrong}).run(); });
    CHECK_MESSAGE(is_of(error, std::to_string(wrong), "1"), error);
  }
}

TEST_CASE("TensorFlow's tuples of indices do not count from the end") {
  const auto attribute = [](const char* axis) { return "i: " + std::string(axis); };
  const Tensor x = onnx_counting({3, 4});
  const auto tuple = [](int32_t i, int32_t j) { return Tensor::of<int32_t>({1, 2}, {i, j}); };
  check(run("GatherNd", {fed(x), fed(tuple(2, 3))})[0], {1}, {11});
  struct Pair {
    int32_t i, j;
    const char* named;
  };
  for (const Pair wrong : {Pair{0, 5, "5"}, Pair{0, -1, "-1"}, Pair{-1, 0, "-1"}}) {
    const int32_t i = wrong.i, j = wrong.j;
    const char* const named = wrong.named;
    CAPTURE(i);
    CAPTURE(j);
    const std::string late = error_of([&] { run("GatherNd", {fed(x), fed(tuple(i, j))}); });
    CHECK_MESSAGE(is_of(late, named, "0"), late);
    const std::string early = error_of([&] { run("GatherNd", {fed(x), held(tuple(i, j))}); });
    CHECK_MESSAGE(contains(early, std::string("there is no index ") + named + " along"), early);
    const Given shape = held(ints({3, 4}));
    const std::string scattered = error_of([&] {
      run("ScatterNd", {fed(tuple(i, j)), fed(row({7})), shape});
    });
    CHECK_MESSAGE(is_of(scattered, named, "0"), scattered);
  }
  const std::string lengths = error_of([&] {
    run("ReverseSequence", {fed(x), fed(ints({4, 6, 2}))},
        {{"seq_dim", attribute("1")}, {"batch_dim", attribute("0")}});
  });
  CHECK_MESSAGE(is_of(lengths, "6", "1"), lengths);
}

TEST_CASE("TensorFlow's sums of segments refuse ids beyond the last and leave out those below 0") {
  const auto sums = [](const std::vector<int64_t>& ids, int32_t segments) {
    return run("UnsortedSegmentSum",
               {fed(row({1, 2, 4})), fed(ints(ids)), held(number(segments))})[0];
  };
  check(sums({1, -1, 1}, 2), {2}, {0, 5});
  check(sums({-1, -1, -2}, 0), {0}, {});
  for (const int64_t wrong : {2, 3}) {
    const std::string error = error_of([&] { sums({0, wrong, 1}, 2); });
    CHECK_MESSAGE(is_of(error, std::to_string(wrong), "1"), error);
  }
}

TEST_CASE("losses of ONNX refuse class ids beyond the classes but for the one to ignore") {
  const Tensor scores = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto loss = [&](const std::string& op, const std::vector<int64_t>& ids,
                        const std::vector<std::string>& attributes = {}) {
    return OnnxOp{.op = op,
                  .operands = {{"x", scores}, {"t", onnx_int64({3}, ids)}},
                  .attributes = attributes};
  };
  for (const std::string op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) {
    CAPTURE(op);
    for (const int64_t wrong : {2, -1}) {
      for (const std::string& backend : kBuiltInBackends) {
        const std::string error = error_of([&] { loss(op, {1, wrong, 0}).run(backend); });
        INFO(error);
        CHECK(contains(error, "class ids"));
        CHECK(is_of(error, std::to_string(wrong), "1"));
        const auto ignored = loss(op, {1, wrong, 7}, {onnx_int("ignore_index", wrong)});
        CHECK(is_of(error_of([&] { ignored.run(backend); }), "7", "2"));
      }
    }
  }
  const auto mean = [&](const std::vector<int64_t>& ids, int64_t ignored) {
    return loss("NegativeLogLikelihoodLoss", ids, {onnx_int("ignore_index", ignored)}).run().at(0);
  };
  CHECK(mean({1, -100, 0}, -100) == -3.5);
  CHECK(mean({1, 1, 0}, 0) == -3);
  // An ignored id takes no part either where its class is impossible.
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor impossible = scores.clone();
  impossible.set(0, -infinity);
  OnnxOp op = loss("NegativeLogLikelihoodLoss", {0, 1, 1}, {onnx_int("ignore_index", 0)});
  op.operands[0].value = impossible;
  CHECK(op.run().at(0) == -5);
  op = loss("NegativeLogLikelihoodLoss", {-100, 1, 1}, {onnx_int("ignore_index", -100)});
  op.operands[0].value = impossible;
  CHECK(op.run().at(0) == -5);
}

TEST_SUITE_END();

}  // namespace keel_test
