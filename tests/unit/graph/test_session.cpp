#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <doctest/doctest.h>

#include "keel/backends/common/host_backend.h"
#include "keel/backends/registry.h"
#include "keel/core/base/sha256.h"
#include "keel/graph/runtime/safetensors.h"
#include "keel/ops/gather.h"

#include "runtime_for_tests.h"
#include "support/declining_backend.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

Tensor row(float a, float b) { return Tensor::of<float>({1, 2}, {a, b}); }

struct ScratchFolder {
  ScratchFolder() {
    char pattern[] = "/tmp/keel_session_XXXXXX";
    path = mkdtemp(pattern);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

TEST_CASE("session runs a step and updates its states") {
  HalvingModel m;
  Session session(m.graph, device("ref"));
  const auto out = session.run(m.update, {m.total, m.next}, {{m.x, row(3, 4)}});
  CHECK(out[0].item<float>() == 8 / 2 + 3 + 16 / 2 + 4);
  CHECK(out[1].data<float>()[0] == 7);
  CHECK(session.read(m.w).data<float>()[1] == 12);
  CHECK(session.step() == 1);
  CHECK(session.read(m.graph.step()).item<int64_t>() == 1);
}

TEST_CASE("session without an update changes nothing") {
  HalvingModel m;
  Session session(m.graph, device("ref"));
  const std::string before = session.state_sha256();
  CHECK(session.run({m.total}, {{m.x, row(0, 0)}})[0].item<float>() == 12);
  CHECK(session.run({m.w})[0].data<float>()[0] == 8);
  CHECK(session.state_sha256() == before);
  CHECK(session.step() == 0);
}

TEST_CASE("session compiles once for each signature") {
  HalvingModel m;
  Session session(m.graph, device("ref"), {.cached_programs = 2});
  const auto run = [&](int64_t rows) {
    session.run({m.total}, {{m.x, Tensor(f32, {rows, 2})}});
    return session.compiles();
  };
  CHECK(run(1) == 1);
  CHECK(run(1) == 1);
  CHECK(run(2) == 2);
  CHECK(run(1) == 2);
  CHECK(run(3) == 3);  // puts the program of 2 rows out
  CHECK(run(1) == 3);
  CHECK(run(2) == 4);
  CHECK(run(0) == 5);
}

TEST_CASE("session refuses wrong feeds and names them") {
  HalvingModel m;
  Graph other;
  const Value foreign = other.input("x", f32, {-1, 2});
  Session session(m.graph, device("ref"));
  const auto feed = [&](const Feeds& feeds) {
    return error_of([&] { session.run({m.total}, feeds); });
  };
  const std::string missing = feed({});
  CHECK(contains(missing, "x: expected f32[?, 2], got nothing"));
  CHECK(contains(missing, "runtime_for_tests.h"));
  CHECK(contains(missing, "test_session.cpp"));
  const std::string shape = feed({{m.x, Tensor(f32, {1, 3})}});
  CHECK(contains(shape, "'x': expected f32[?, 2], got f32[1, 3]"));
  CHECK(contains(shape, "test_session.cpp"));
  CHECK(contains(feed({{m.x, Tensor(f64, {1, 2})}}), "got f64[1, 2]"));
  CHECK(contains(feed({{m.x, Tensor()}}), "empty Tensor"));
  CHECK(contains(feed({{m.x, row(1, 1)}, {m.x, row(1, 1)}}), "two tensors"));
  CHECK(contains(feed({{m.w, row(1, 1)}}), "got state 'w'"));
  CHECK(contains(feed({{foreign, row(1, 1)}}), "another graph"));
  CHECK(contains(feed({{Value(), row(1, 1)}}), "empty Value"));
  CHECK(contains(error_of([&] { session.run({foreign}); }), "another graph"));
  CHECK(session.run({m.total}, {{m.x, row(0, 0)}})[0].item<float>() == 12);
}

TEST_CASE("session initialises states from their names and the seed alone") {
  Graph a;
  a.state("first", zeros({4}));
  const Value wa = a.state("w", normal({64}, 0, 1));
  Graph b;
  const Value wb = b.state("w", normal({64}, 0, 1));
  const Value vb = b.state("v", normal({64}, 0, 1));
  Session sa(a, device("ref"), {.seed = 7});
  Session sb(b, device("ref"), {.seed = 7});
  Session sc(b, device("ref"), {.seed = 8});
  CHECK(bit_equal(sa.read(wa), sb.read(wb)));
  CHECK(!bit_equal(sb.read(wb), sb.read(vb)));
  CHECK(!bit_equal(sb.read(wb), sc.read(wb)));
  CHECK(sb.read(b.seed()).item<int64_t>() == 7);
}

TEST_CASE("session takes states that are made after it") {
  Graph g;
  Session session(g, device("ref"));
  const Value w = g.state("w", ones({3}));
  CHECK(session.read(w).data<float>()[2] == 1);
  CHECK(session.run({sum(w)})[0].item<float>() == 3);
}

TEST_CASE("session works on a frozen graph") {
  HalvingModel m;
  m.graph.freeze();
  Session session(m.graph, device("ref"));
  session.run(m.update, {}, {{m.x, row(0, 0)}});
  CHECK(session.read(m.w).data<float>()[0] == 4);
  CHECK(session.step() == 1);
}

TEST_CASE("session writes states") {
  HalvingModel m;
  Session session(m.graph, device("ref"));
  session.write(m.w, Tensor::of<float>({2}, {2, 4}));
  CHECK(session.run({m.total}, {{m.x, row(0, 0)}})[0].item<float>() == 3);
  CHECK(contains(error_of([&] { session.write(m.w, Tensor(f32, {3})); }),
                 "state 'w': expected f32[2], got f32[3]"));
  CHECK(contains(error_of([&] { session.write(m.x, row(1, 1)); }), "got input 'x'"));
  CHECK(contains(error_of([&] { session.read(Value()); }), "got an empty Value"));
  session.write(m.graph.step(), Tensor::scalar<int64_t>(41));
  session.run(m.update, {}, {{m.x, row(0, 0)}});
  CHECK(session.step() == 42);
}

TEST_CASE("session updates states in parallel") {
  Graph g;
  const Value a = g.state("a", constant({2}, 1));
  const Value b = g.state("b", constant({2}, 2));
  const Update swap{{{a, b}, {b, a}}};
  Session session(g, device("ref"));
  for (int i = 0; i < 3; ++i) session.run(swap, {});
  CHECK(session.read(a).data<float>()[0] == 2);
  CHECK(session.read(b).data<float>()[1] == 1);
}

TEST_CASE("session hash is what its comment says") {
  Graph g;
  g.state("w", constant({2}, 1.5));
  Session session(g, device("ref"), {.seed = 3});
  std::string bytes("keel/seed\ni64[]\n\3\0\0\0\0\0\0\0keel/step\ni64[]\n\0\0\0\0\0\0\0\0", 48);
  bytes += "w\nf32[2]\n";
  const float values[] = {1.5f, 1.5f};
  bytes.append(reinterpret_cast<const char*>(values), sizeof values);
  CHECK(session.state_sha256() == sha256_hex(bytes));
}

TEST_CASE("session saves and loads all states") {
  const ScratchFolder folder;
  const std::string path = folder.file("a.safetensors");
  HalvingModel m;
  Session session(m.graph, device("ref"), {.seed = 5});
  session.run(m.update, {}, {{m.x, row(1, 2)}});
  session.save(path, {{"note", "after one"}});
  const std::string hash = session.state_sha256();

  session.run(m.update, {}, {{m.x, row(1, 2)}});
  CHECK(session.state_sha256() != hash);
  const auto metadata = session.load(path);
  CHECK(metadata.at("note") == "after one");
  CHECK(metadata.at("step") == "1");
  CHECK(metadata.contains("keel_version"));
  CHECK(session.state_sha256() == hash);
  CHECK(session.step() == 1);

  Session fresh(m.graph, device("ref"));
  fresh.load(path);
  CHECK(fresh.state_sha256() == hash);
  CHECK(contains(error_of([&] { session.save(folder.file("none/a")); }), "none/a"));
}

TEST_CASE("session lists all states that a file does not fit and changes nothing") {
  const ScratchFolder folder;
  const std::string path = folder.file("a.safetensors");
  Graph g;
  g.state("a", zeros({2}));
  g.state("b", zeros({2}));
  g.state("c", zeros({2}));
  Session session(g, device("ref"));
  const std::string hash = session.state_sha256();
  write_safetensors(path, {{"a", Tensor::full(f32, {2}, 1)},
                           {"b", Tensor::full(f32, {3}, 1)},
                           {"d", Tensor::full(f32, {2}, 1)},
                           {"keel/step", Tensor::scalar<int32_t>(1)}});
  const std::string error = error_of([&] { session.load(path); });
  CHECK(contains(error, "'b' is f32[3] instead of f32[2]"));
  CHECK(contains(error, "'c' is missing"));
  CHECK(contains(error, "'keel/seed' is missing"));
  CHECK(contains(error, "'keel/step' is i32[] instead of i64[]"));
  CHECK(contains(error, "'d' is not in the graph"));
  CHECK(session.state_sha256() == hash);
  CHECK(contains(error_of([&] { session.load(folder.file("none")); }), "none"));
}

// A program whose steps, when they fail, have begun to write state w.
class LosingProgram : public Program {
 public:
  explicit LosingProgram(std::unique_ptr<Program> program) : program_(std::move(program)) {}
  const ProgramInfo& info() const override { return program_->info(); }
  void launch(Stream& stream, LaunchArgs& args) override {
    program_->launch(stream, args);
    try {
      stream.synchronize();
    } catch (...) {
      for (size_t i = 0; i < args.states.size(); ++i)
        args.states[i].lost = info().states[i].name == "w" && info().states[i].updated;
      dynamic_cast<WorkerStream&>(stream).enqueue(
          [error = std::current_exception()] { std::rethrow_exception(error); });
    }
  }
  std::string describe() const override { return program_->describe(); }

 private:
  std::unique_ptr<Program> program_;
};

class LosingBackend : public keel_test::DecliningBackend {
 public:
  LosingBackend() : DecliningBackend("ref", "sunk_loop") {}
  std::unique_ptr<Program> compile(int index, const Graph& graph,
                                   const CompileOptions& options) override {
    return std::make_unique<LosingProgram>(DecliningBackend::compile(index, graph, options));
  }
};

TEST_CASE("session marks the states that a failed step lost invalid until they are restored") {
  const ScratchFolder folder;
  const std::string path = folder.file("a.safetensors");
  Graph g;
  const Value w = g.state("w", constant({3}, 1));
  const Value other = g.state("other", constant({3}, 1));
  const Value index = g.input("index", i64, {});
  const Value picked = gather(w, index);
  const Update update{{{w, w + picked}}};
  const auto feed = [&](int64_t i) { return Feeds{{index, Tensor::scalar(i)}}; };
  LosingBackend backend;
  Session session(g, backend.device());
  session.save(path);
  session.run(update, {}, feed(2));
  CHECK(session.read(w).data<float>()[0] == 2);

  const std::string error = error_of([&] { session.run(update, {}, feed(3)); });
  CHECK(contains(error, "run on modest:0"));
  CHECK(contains(error, "step 2"));
  const std::string lost = error_of([&] { session.read(w); });
  CHECK(contains(lost, "state 'w'"));
  CHECK(contains(lost, "load()"));
  CHECK(contains(error_of([&] { session.run({w}); }), "state 'w'"));
  CHECK(contains(error_of([&] { session.save(path); }), "lost"));
  CHECK(contains(error_of([&] { session.state_sha256(); }), "lost"));
  CHECK(session.step() == 1);
  CHECK(session.read(other).data<float>()[0] == 1);
  CHECK(session.run({other})[0].data<float>()[0] == 1);

  session.load(path);
  CHECK(session.read(w).data<float>()[0] == 1);
  CHECK(session.step() == 0);
  session.run(update, {}, feed(0));
  CHECK(session.read(w).data<float>()[0] == 2);

  // An evaluation that fails touches no state.
  CHECK(!error_of([&] { session.run({picked}, feed(-9)); }).empty());
  CHECK(session.read(w).data<float>()[0] == 2);
}

// A program that keeps a copy of its state back to front behind it, and fetches what begins there.
class BackwardsProgram : public Program {
 public:
  explicit BackwardsProgram(const Type& type) {
    StateInfo state;
    state.name = "w";
    state.type = type;
    state.layout = "backwards";
    state.bytes = 2 * type.shape.num_bytes(type.dtype);
    info_.states.push_back(state);
    info_.outputs.push_back({f32, {}});
    info_.output_is_metric.push_back(true);
  }
  const ProgramInfo& info() const override { return info_; }
  void launch(Stream&, LaunchArgs& args) override {
    // The stream is idle: a session hands over what it has copied before.
    const auto* buffer = static_cast<const char*>(args.states[0].current->address());
    std::memcpy(args.outputs[0]->address(), buffer + info_.states[0].bytes / 2, sizeof(float));
    args.report.steps = 1;
  }
  std::string describe() const override { return "backwards"; }

 private:
  ProgramInfo info_;
};

class BackwardsBackend : public HostBackend {
 public:
  BackwardsBackend() : HostBackend("backwards", "for tests", nullptr) {}
  Support supports(const Node&, const DeviceOptions*) const override { return {true, ""}; }
  std::unique_ptr<Program> compile(int, const Graph& graph, const CompileOptions&) override {
    return std::make_unique<BackwardsProgram>(graph.states()[0].type());
  }
  std::shared_ptr<Buffer> allocate(int index, size_t bytes, const std::string& holder) override {
    if (bytes > most_) throw Error("no memory for " + holder);
    return HostBackend::allocate(index, bytes, holder);
  }
  void allow(size_t most) { most_ = most; }
  void convert_layout(const Type& type, const Layout& from, const void* source, const Layout& to,
                      void* destination) const override {
    REQUIRE(from != to);
    REQUIRE(to == "backwards");
    const auto* in = static_cast<const float*>(source);
    auto* out = static_cast<float*>(destination);
    const int64_t count = type.shape.num_elements();
    for (int64_t i = 0; i < count; ++i) out[i] = out[2 * count - 1 - i] = in[i];
  }

 private:
  size_t most_ = SIZE_MAX;
};

TEST_CASE("session converts layouts for programs reads and writes") {
  BackwardsBackend backend;
  Graph g;
  const Value w = g.state("w", from_tensor(Tensor::of<float>({3}, {1, 2, 3})));
  Session session(g, Device(&backend, 0));
  CHECK(session.read(w).data<float>()[0] == 1);
  CHECK(session.run({sum(w)})[0].item<float>() == 3);
  CHECK(session.read(w).data<float>()[0] == 1);
  session.write(w, Tensor::of<float>({3}, {4, 5, 6}));
  CHECK(session.read(w).data<float>()[2] == 6);
  CHECK(session.run({sum(w)})[0].item<float>() == 6);
}

TEST_CASE("session loses no state where there is no memory for the layout a program wants") {
  BackwardsBackend backend;
  Graph g;
  const Value w = g.state("w", from_tensor(Tensor::of<float>({3}, {1, 2, 3})));
  Session session(g, Device(&backend, 0));
  backend.allow(16);
  CHECK(contains(error_of([&] { session.run({sum(w)}); }), "no memory for state w"));
  CHECK(session.read(w).data<float>()[2] == 3);
  session.write(w, Tensor::of<float>({3}, {4, 5, 6}));
  CHECK(contains(error_of([&] { session.run({sum(w)}); }), "no memory for state w"));
  backend.allow(SIZE_MAX);
  CHECK(session.run({sum(w)})[0].item<float>() == 6);
  CHECK(session.read(w).data<float>()[2] == 6);
}

TEST_CASE("session refuses wrong options") {
  Graph g;
  CHECK(contains(error_of([&] { Session(g, Device()); }), "no device"));
  CHECK(contains(error_of([&] { Session(g, device("ref"), {.cached_programs = 0}); }),
                 "cached_programs"));
  CHECK(contains(error_of([&] { Session(g, device("ref"), {.loop_size = -1}); }),
                 "expected a loop size of at least 1, got -1"));
}

TEST_CASE("session spec carries device names and types") {
  HalvingModel m;
  Session session(m.graph, device("ref"));
  const FeedSpec spec = session.spec({m.x});
  CHECK(spec.device == device("ref:0"));
  REQUIRE(spec.element.fields.size() == 1);
  CHECK(spec.element.fields[0].name == "x");
  CHECK(spec.element.fields[0].type == Type{f32, {-1, 2}});
  CHECK(contains(error_of([&] { session.spec({m.w}); }), "spec: input 0: expected an input"));
}

TEST_CASE("loop size prefers explicit settings and refuses contradictions") {
  unsetenv(kLoopSizeVariable);
  LoopSize size(3);
  CHECK(size.value() == 3);
  CHECK(size.source() == "default");
  setenv(kLoopSizeVariable, "25", 1);
  CHECK(size.value() == 25);
  CHECK(size.source() == kLoopSizeVariable);
  for (const char* wrong : {"0", "-1", "ten", "1.5", " 2"}) {
    setenv(kLoopSizeVariable, wrong, 1);
    CHECK(contains(error_of([&] { size.value(); }), kLoopSizeVariable));
  }
  // The environment is a default only, but a wrong one is an error all the same.
  size.set(10, "--loop-size");
  CHECK(contains(error_of([&] { size.value(); }), kLoopSizeVariable));
  setenv(kLoopSizeVariable, "25", 1);
  CHECK(size.value() == 10);
  CHECK(size.source() == "--loop-size");
  const std::string conflict = error_of([&] { size.set(5, "TrainOptions::loop_size"); });
  CHECK(contains(conflict, "LOOP_SIZE_MISMATCH: --loop-size says 10"));
  CHECK(contains(conflict, "TrainOptions::loop_size says 5"));
  size.set(10, "TrainOptions::loop_size");
  for (const int64_t wrong : {int64_t{0}, int64_t{-7}}) {
    CHECK(contains(error_of([&] { size.change(wrong); }), "at least 1"));
    CHECK(contains(error_of([&] { size.set(wrong, "--loop-size"); }), "at least 1"));
  }
  CHECK(!error_of([&] { size.set("ten", "--loop-size"); }).empty());
  CHECK(size.value() == 10);
  size.change(7);
  CHECK(size.value() == 7);
  // A change is a setting like others, and the same source is no exception.
  const std::string later = error_of([&] { size.set("8", "--loop-size"); });
  CHECK(contains(later, "LOOP_SIZE_MISMATCH: set_loop_size says 7 and --loop-size says 8"));
  CHECK(size.value() == 7);
  size.set("7", "--loop-size");
  CHECK(contains(error_of([&] { size.set(8, "--loop-size"); }), "--loop-size says 7"));
  CHECK(contains(error_of([&] { size.require_tunable("a tuner"); }),
                 "LOOP_SIZE_MISMATCH: --loop-size says 7 and a tuner is to find the size"));
  LoopSize(3).require_tunable("a tuner");
  unsetenv(kLoopSizeVariable);
}

TEST_CASE("one fetch that is no list gives one tensor") {
  Graph g;
  const Value x = g.input("x", f32, {-1});
  const Value w = g.state("w", constant({}, 2));
  const Value total = sum(x * w);
  const Update update{{{w, w + 1.0f}}};
  Session session(g, device("ref"));
  const Feeds feeds{{x, Tensor::of<float>({2}, {1, 2})}};
  CHECK(session.run(total, feeds).item<float>() == 6);
  CHECK(session.run(update, total, feeds).item<float>() == 6);
  CHECK(session.run(total, feeds).item<float>() == 9);
  CHECK(session.run({total, w}, feeds).size() == 2);
  CHECK(session.run({total}, feeds).size() == 1);
}

}  // namespace

TEST_SUITE_END();
