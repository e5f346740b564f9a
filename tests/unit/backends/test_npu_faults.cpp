// A fault on the device surfaces at the synchronising call with op, step and the user's line, and
// the device works on afterwards: in single steps and in the sunk loop.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/queue/device_queue.h"
#include "keel/ops/gather.h"
#include "keel/ops/matmul.h"

#include "ops_for_tests.h"
#include "runtime_for_tests.h"

namespace keel {
namespace {

using testing::contains;
using testing::elements;
using testing::error_of;
using testing::NumberFeeder;

Initializer filled(const Shape& shape) {
  Initializer init;
  init.kind = "value";
  init.type = {f32, shape};
  init.value = Tensor::full(f32, shape, 1);
  return init;
}

// w + w[index], where data makes the gather's kernel throw, beside a state that no step touches.
struct Model {
  Model() {
    line = __LINE__ + 1;
    const Value picked = gather(w, index);
    update = Update{{{w, w + picked}}};
  }
  std::string where() const { return "test_npu_faults.cpp:" + std::to_string(line); }

  Graph graph;
  Value w = graph.state("w", filled({3}));
  Value other = graph.state("other", filled({3}));
  Value index = graph.input("index", i64, {});
  Update update;
  int line = 0;
};

ElementSpec index_spec() { return ElementSpec{{{"index", {i64, {}}}}}; }

std::shared_ptr<NumberFeeder> numbers(const Device& on, int64_t first_bad) {
  return std::make_shared<NumberFeeder>(
      on, index_spec(), [first_bad](int64_t i, const std::vector<void*>& fields) {
        *static_cast<int64_t*>(fields[0]) = i >= first_bad ? 99 : i % 3;
        return true;
      });
}

void check_described(const std::string& error, const Model& m, const std::string& step) {
  CAPTURE(error);
  CHECK(contains(error, step));
  CHECK(contains(error, "gather"));
  CHECK(contains(error, "got 99 at position 0"));
  CHECK(contains(error, m.where()));
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("npu faults: a kernel that throws in a single step") {
  Model m;
  Session session(m.graph, device("npu"));
  const auto feeds = [&](int64_t i) { return Feeds{{m.index, Tensor::scalar(i)}}; };
  session.run(m.update, {}, feeds(2));
  check_described(error_of([&] { session.run(m.update, {}, feeds(99)); }), m, "step 2");

  // It wrote nothing, and the next step goes on.
  CHECK(elements(session.read(m.w)) == std::vector<double>{2, 2, 2});
  CHECK(elements(session.read(m.other)) == std::vector<double>{1, 1, 1});
  CHECK(session.step() == 1);
  session.run(m.update, {}, feeds(0));
  CHECK(elements(session.read(m.w)) == std::vector<double>{4, 4, 4});
  CHECK(session.step() == 2);
}

TEST_CASE("npu faults: a kernel that throws in the sunk loop") {
  Model m;
  const Device npu = device("npu");
  Session session(m.graph, npu);
  auto feeder = numbers(npu, 5);
  feeder->open({});
  Loop loop = session.sink({.update = m.update, .source = feeder});
  check_described(error_of([&] { loop.run(10); }), m, "step 6");
  CHECK(loop.failed_report().steps == 5);
  CHECK(elements(session.read(m.w)) == std::vector<double>{32, 32, 32});
  CHECK(session.step() == 5);
  CHECK(elements(session.read(m.other)) == std::vector<double>{1, 1, 1});

  session.write(m.w, Tensor::full(f32, {3}, 1));
  session.write(m.graph.step(), Tensor::scalar<int64_t>(0));
  auto good = numbers(npu, 1000);
  good->open({});
  Loop again = session.sink({.update = m.update, .source = good});
  CHECK(again.run(4).steps == 4);
  CHECK(elements(session.read(m.w)) == std::vector<double>{16, 16, 16});
}

TEST_CASE("npu faults: a failing producer leaves the states of the steps before it") {
  Model m;
  const Device npu = device("npu");
  Session session(m.graph, npu);
  auto feeder = std::make_shared<NumberFeeder>(
      npu, index_spec(), [](int64_t i, const std::vector<void*>& fields) -> bool {
        if (i == 3) throw Error("the producer failed");
        *static_cast<int64_t*>(fields[0]) = 0;
        return true;
      });
  feeder->open({});
  Loop loop = session.sink({.update = m.update, .source = feeder});
  const std::string error = error_of([&] { loop.run(10); });
  CHECK(contains(error, "the producer failed"));
  CHECK(contains(error, "step 4"));
  CHECK(elements(session.read(m.w)) == std::vector<double>{8, 8, 8});
  CHECK(session.step() == 3);
}

TEST_CASE("npu faults: device memory that is not enough") {
  const Device npu = device("npu");
  const size_t capacity = npu.backend().devices()[0].memory_bytes;
  REQUIRE(capacity > 0);
  // A step with an intermediate value that is larger than the device.
  const auto side = static_cast<int64_t>(capacity / sizeof(float) / 1024 + 1);
  Model m;
  const int line = __LINE__ + 1;
  const Value huge = sum(matmul(iota(m.graph, f32, {side, 1}), iota(m.graph, f32, {1, 1024})));
  Session session(m.graph, npu);
  session.run(m.update, {}, {{m.index, Tensor::scalar<int64_t>(0)}});
  const std::string error = error_of([&] {
    session.run(m.update, {huge}, {{m.index, Tensor::scalar<int64_t>(0)}});
  });
  CAPTURE(error);
  CHECK(contains(error, "npu memory"));
  CHECK(contains(error, "step 2"));
  CHECK(contains(error, "(matmul)"));
  CHECK(contains(error, "test_npu_faults.cpp:" + std::to_string(line)));
  CHECK(contains(error, "most by"));
  CHECK(contains(error, std::to_string(capacity)));

  // The states are what they were, and the device works on.
  CHECK(elements(session.read(m.w)) == std::vector<double>{2, 2, 2});
  session.run(m.update, {}, {{m.index, Tensor::scalar<int64_t>(0)}});
  CHECK(elements(session.read(m.w)) == std::vector<double>{4, 4, 4});

  // Likewise a queue whose slots do not fit, for the sunk loop.
  const auto bytes = static_cast<int64_t>(capacity) + 1;
  const std::string queue = error_of([&] {
    DeviceQueue(npu, ElementSpec{{{"big", {u8, {bytes}}}}}, DeviceQueueOptions{.name = "train"});
  });
  CHECK(contains(queue, "npu memory"));
  CHECK(contains(queue, "train"));
  auto good = numbers(npu, 1000);
  good->open({});
  Loop loop = session.sink({.update = m.update, .source = good});
  CHECK(loop.run(2).steps == 2);
  CHECK(elements(session.read(m.w)) == std::vector<double>{16, 16, 16});
}

TEST_CASE("npu faults: host memory is refused") {
  Graph g;
  const Value x = g.input("x", f32, {2});
  const Value w = g.state("w", filled({2}));
  g.add_update(w, w + x);
  g.set_outputs({x + w});
  Backend& npu = device("npu").backend();
  const auto program = npu.compile(0, g, {});
  const auto stream = npu.make_stream(0, StreamKind::kCompute);
  const auto host = allocate_host_buffer(64);
  const auto make = [&] { return npu.allocate(0, 64, "test"); };
  const auto in = make(), out = make(), state = make(), second = make(), scratch = make();
  const float values[2] = {1, 2};
  stream->copy_to_device(*in, 0, values, sizeof values);
  stream->copy_to_device(*state, 0, values, sizeof values);
  stream->synchronize();

  LaunchArgs args;
  args.inputs = {in.get()};
  args.outputs = {out.get()};
  args.scratch = scratch.get();
  args.states = {{state.get(), second.get()}};
  const auto refusal = [&](Buffer*& place) {
    Buffer* const right = place;
    place = host.get();
    const std::string error = error_of([&] {
      program->launch(*stream, args);
      stream->synchronize();
    });
    place = right;
    return error;
  };
  CHECK(contains(refusal(args.inputs[0]), "npu: input: expected memory of this device"));
  CHECK(contains(refusal(args.outputs[0]), "npu: output:"));
  CHECK(contains(refusal(args.states[0].current), "npu: state:"));
  CHECK(contains(refusal(args.states[0].other), "second buffer"));
  CHECK(contains(refusal(args.scratch), "got host memory"));

  // Copies surface where the stream is synchronised, once.
  float results[2] = {};
  stream->copy_to_device(*host, 0, values, sizeof values);
  CHECK(contains(error_of([&] { stream->synchronize(); }), "copy to device"));
  stream->copy_to_host(results, *host, 0, sizeof results);
  CHECK(contains(error_of([&] { stream->synchronize(); }), "copy to host"));
  stream->synchronize();

  // None of these wrote anything, and the device works on.
  program->launch(*stream, args);
  stream->copy_to_host(results, *out, 0, sizeof results);
  stream->synchronize();
  CHECK(results[0] == 2.0f);
  CHECK(results[1] == 4.0f);
}

TEST_SUITE_END();

}  // namespace keel
