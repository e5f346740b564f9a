// Devices as users meet them: names, memory, streams, errors that surface where they should.
#include <atomic>
#include <cstdlib>
#include <cstring>

#include <doctest/doctest.h>

#include "keel/backends/common/worker_stream.h"
#include "keel/backends/npu/device/float_status.h"
#include "keel/backends/npu/device/memory.h"
#include "keel/backends/npu/options.h"

#include "ops_for_tests.h"

namespace keel {
namespace {

using testing::contains;
using testing::error_of;

class NoMemory final : public MemoryTransfer {
 public:
  void to_device(Buffer&, size_t, const void*, size_t) override {}
  void to_host(void*, const Buffer&, size_t, size_t) override {}
};

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("the variables of a job number the devices of a backend that has several") {
  setenv("DEVICE_ID", "3", 1);
  CHECK(device("npu").index() == 3);
  CHECK(device("npu:1").index() == 1);
  // The host, where a dataset is mapped, is there whichever device the job was given.
  for (const char* host : {"cpu", "ref"}) CHECK(device(host).index() == 0);
  setenv("DEVICE_ID", "8", 1);
  CHECK(contains(error_of([] { device("npu"); }), "DEVICE_ID: npu: expected a device number"));
  unsetenv("DEVICE_ID");
}

TEST_CASE("devices are found by name and unknown ones suggest the nearest") {
  CHECK(device("npu").name() == "npu:0");
  CHECK(device("ref:0").name() == "ref:0");
  CHECK(contains(error_of([] { device("npx:0"); }), "did you mean 'npu'"));
  CHECK(contains(error_of([] { device("cpu:1"); }), "a device number from 0 to 0"));
  CHECK(contains(error_of([] { device("cpu:x"); }), "a device number"));
  CHECK(contains(error_of([] { device(""); }), "one of cpu, npu, ref"));
  CHECK(
      contains(error_of([] { load_backend_plugin("/no/such/plugin.so"); }), "/no/such/plugin.so"));
}

TEST_CASE("npu memory counts names its holders and takes buffers back") {
  const auto memory = std::make_shared<npu::DeviceMemory>(size_t{10000});
  auto small = memory->allocate(1000, "state b");
  {
    const auto large = memory->allocate(8000, "scratch");
    CHECK(memory->in_use() == 9000);
    const std::string text = error_of([&] { memory->allocate(2000, "queue train"); });
    CHECK(contains(text, "queue train"));
    CHECK(contains(text, "at most 1000 bytes"));
    CHECK(contains(text, "got 2000"));
    CHECK(contains(text, "9000 of 10000"));
    CHECK(contains(text, "scratch (8000), state b (1000)"));
  }
  CHECK(memory->in_use() == 1000);
  CHECK(memory->peak() == 9000);
  CHECK(memory->allocate(9000, "queue train") != nullptr);
  CHECK(contains(error_of([&] { memory->allocate(SIZE_MAX, "all"); }), "at most"));
  small.reset();
  CHECK(memory->in_use() == 0);
}

TEST_CASE("eight npus each with its own memory and status") {
  Backend& npu = backend("npu");
  REQUIRE(npu.devices().size() == 8);
  CHECK(device("npu:7").name() == "npu:7");
  CHECK(npu.devices()[7].name == "npu:7");
  CHECK(contains(error_of([] { device("npu:8"); }), "a device number from 0 to 7"));

  // Memory of one is foreign to the others, and counted by itself.
  const size_t half = npu.devices()[1].memory_bytes / 2 + 1;
  CHECK(contains(error_of([&] { npu.allocate(1, 2 * half, "first"); }), "npu memory"));
  const auto mine = npu.allocate(1, 64, "first");
  CHECK(contains(error_of([&] { npu.allocate(1, 2 * half - 65, "second"); }), "first (64)"));
  CHECK(!contains(error_of([&] { npu.allocate(2, 2 * half, "second"); }), "first (64)"));
  const auto stream = npu.make_stream(2, StreamKind::kCompute);
  const float number = 1;
  stream->copy_to_device(*mine, 0, &number, sizeof number);
  CHECK(contains(error_of([&] { stream->synchronize(); }), "memory of another device"));

  // Each trains its own model, beside the others, to the same bits.
  std::string hash;
  for (const char* name : {"npu:0", "npu:1", "npu:7"}) {
    Graph g;
    const Value x = g.input("x", f32, {4, 8});
    const Value w = g.state("w", normal({8, 3}, 0, 1));
    const Value loss = mean(square(matmul(x, w)));
    Session session(g, device(name), {.seed = 3});
    for (int i = 0; i < 3; ++i)
      session.run(sgd(0.1).minimize(loss), {loss}, {{x, testing::counting({4, 8})}});
    if (hash.empty()) hash = session.state_sha256();
    CHECK(session.state_sha256() == hash);
    CHECK(session.device().name() == name);
  }

  // What one raises the others do not.
  Graph g;
  const Value x = g.input("x", f16, {2});
  {
    Session session(g, device("npu:3"), {.device_options = npu::options("ascend910")});
    session.run({x + x}, {{x, Tensor::full(f16, {2}, 60000)}});
  }
  CHECK(npu::float_status(device("npu:3")) == kFloatStatusF16Overflow);
  CHECK(npu::float_status(device("npu:2")) == 0);
  npu::clear_float_status(device("npu:3"));
  CHECK(npu::float_status(device("npu:3")) == 0);
}

TEST_CASE("npu memory refuses host pointers and ranges that do not fit") {
  const auto memory = std::make_shared<npu::DeviceMemory>(size_t{1} << 20);
  const auto other = std::make_shared<npu::DeviceMemory>(size_t{1} << 20);
  const auto own = memory->allocate(64, "a");
  const auto host = allocate_host_buffer(64);
  const auto foreign = other->allocate(64, "b");
  char bytes[64] = {};
  memory->to_device(*own, 0, bytes, 64);
  CHECK(contains(error_of([&] { memory->to_device(*host, 0, bytes, 64); }), "got host memory"));
  CHECK(contains(error_of([&] { memory->to_device(*foreign, 0, bytes, 64); }), "another device"));
  CHECK(contains(error_of([&] { memory->to_host(bytes, *own, 32, 64); }), "offset 32"));
  CHECK_FALSE(own->host_accessible());
}

TEST_CASE("npu programs refuse host memory at launch and the device works on") {
  Graph g;
  const Value x = g.input("x", f32, {2});
  g.set_outputs({x + 1.0f});
  const Device npu = device("npu");
  const auto program = npu.backend().compile(0, g, {});
  const auto stream = npu.backend().make_stream(0, StreamKind::kCompute);
  const auto host = allocate_host_buffer(64);
  const auto in = npu.backend().allocate(0, 64, "in");
  const auto out = npu.backend().allocate(0, 64, "out");
  LaunchArgs args;
  args.inputs = {host.get()};
  args.outputs = {out.get()};
  CHECK(contains(error_of([&] { program->launch(*stream, args); }), "got host memory"));

  const float values[2] = {1, 2};
  float results[2] = {};
  args.inputs = {in.get()};
  stream->copy_to_device(*in, 0, values, sizeof values);
  program->launch(*stream, args);
  stream->copy_to_host(results, *out, 0, sizeof results);
  stream->synchronize();
  CHECK(results[0] == 2.0f);
  CHECK(results[1] == 3.0f);
}

TEST_CASE("an error on the device names step task and line once and the device works on") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value table = g.constant(Tensor::of<float>({3}, {5, 6, 7}));
    const Value ids = g.input("ids", i64, {2});
    const Value picked = gather(table, ids);
    Session session(g, device(name));
    const std::string text = error_of([&] {
      session.run({picked}, {{ids, Tensor::of<int64_t>({2}, {1, 3})}});
    });
    CHECK(contains(text, "step"));
    CHECK(contains(text, "gather"));
    CHECK(contains(text, "3 at position 1"));
    CHECK(contains(text, "test_devices.cpp:"));
    const auto out = session.run({picked}, {{ids, Tensor::of<int64_t>({2}, {1, 2})}});
    CHECK(testing::elements(out[0]) == std::vector<double>{6, 7});
  }
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("loop");

TEST_CASE("worker stream keeps order surfaces its first error once and goes on") {
  WorkerStream stream(std::make_shared<NoMemory>());
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) stream.enqueue([&order, i] { order.push_back(i); });
  stream.synchronize();
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<size_t>(i)] == i);

  stream.enqueue([] { throw Error("first"); });
  stream.enqueue([] { throw Error("second"); });
  CHECK(contains(error_of([&] { stream.synchronize(); }), "first"));
  CHECK(error_of([&] { stream.synchronize(); }).empty());
  stream.enqueue([&] { order.clear(); });
  stream.synchronize();
  CHECK(order.empty());
}

TEST_CASE("events order streams and a stream finishes its work when it goes") {
  std::atomic<int> value{0};
  int seen = -1;
  {
    WorkerStream first(std::make_shared<NoMemory>());
    WorkerStream second(std::make_shared<NoMemory>());
    std::atomic<bool> go{false};
    first.enqueue([&] {
      while (!go) std::this_thread::yield();
      value = 7;
    });
    const auto event = first.record();
    second.wait(event);
    second.enqueue([&] { seen = value; });
    go = true;
    event->synchronize();
  }
  CHECK(seen == 7);
}

TEST_SUITE_END();

}  // namespace keel
