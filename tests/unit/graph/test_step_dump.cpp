// Dumps of a training: what lies where, that it is what was computed, and that the training is as
// it would be without.
#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/backends/npu/options.h"
#include "keel/core/base/csv.h"
#include "keel/core/base/file.h"
#include "keel/core/tensor/npy.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/keel.h"

#include "runtime_for_tests.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::names_in;
using keel_test::TempFolder;
namespace fs = std::filesystem;

constexpr size_t kNumbers = 6;
using Numbers = std::vector<float>;

Numbers x_of(int64_t step) {
  Numbers x(kNumbers);
  for (size_t k = 0; k < kNumbers; ++k)
    x[k] = static_cast<float>(step) + 0.3f * static_cast<float>(k);
  return x;
}

// The state that the step finds: w becomes w / 2 + x.
Numbers w_before(int64_t step) {
  Numbers w(kNumbers, 8);
  for (int64_t done = 1; done < step; ++done) {
    const Numbers x = x_of(done);
    for (size_t k = 0; k < kNumbers; ++k) w[k] = w[k] * 0.5f + x[k];
  }
  return w;
}

// To 8 bits, nearest, ties to even.
float as_bf16(float value) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(mantissa * 256), exponent - 8));
}

std::shared_ptr<NumberFeeder> numbered_rows(const Device& on) {
  auto feeder = std::make_shared<NumberFeeder>(
      on, ElementSpec{{{"x", {f32, {2, 3}}}}}, [](int64_t i, const std::vector<void*>& fields) {
        const Numbers x = x_of(i + 1);
        std::copy(x.begin(), x.end(), static_cast<float*>(fields[0]));
        return true;
      });
  feeder->open({});
  return feeder;
}

struct RoundedModel {
  RoundedModel() {
    const NameScope net(graph, "net");
    product = named(x * w, "product");
    rounded = named(cast(product, bf16), "rounded");
    next = named(w * 0.5f + x, "next");
    loss = sum(cast(rounded, f32));
  }
  Graph graph;
  Value x = graph.input("x", f32, {2, 3});
  Value w = graph.state("w", from_tensor(Tensor::full(f32, {2, 3}, 8)));
  Value product, rounded, next, loss;
};

struct DumpedRun {
  TrainReport report;
  std::string sha;
  std::vector<double> losses;
};

DumpedRun train_dumped(const char* backend, int64_t loop_size, const DumpOptions& dump,
                       int64_t steps = 7) {
  RoundedModel m;
  Session session(m.graph, device(backend));
  Trainer trainer(session, {.update = Update{{{m.w, m.next}}},
                            .fetches = {m.loss},
                            .source = numbered_rows(session.device())});
  DumpedRun run;
  run.report = trainer.fit({.steps = steps,
                            .loop_size = loop_size,
                            .on_step = [&](int64_t, std::span<const double> values,
                                           uint32_t) { run.losses.push_back(values[0]); },
                            .dump = dump});
  run.sha = session.state_sha256();
  return run;
}

// A step's files by their names without the task's number, which comes first and grows.
std::map<std::string, std::string> files_of(const std::string& step_folder) {
  std::map<std::string, std::string> files;
  for (const std::string& name : names_in(step_folder)) {
    REQUIRE(name.size() > 7);
    for (size_t i = 0; i < 6; ++i) CHECK(std::isdigit(static_cast<unsigned char>(name[i])) != 0);
    CHECK(name[6] == '.');
    files[name.substr(7)] = step_folder + "/" + name;
  }
  return files;
}

std::vector<std::string> keys_of(const std::map<std::string, std::string>& files) {
  std::vector<std::string> keys;
  for (const auto& [key, path] : files) keys.push_back(key);
  return keys;
}

void check_file(const std::string& path, const Numbers& expected) {
  CAPTURE(path);
  const Tensor tensor = read_npy(path);
  CHECK(tensor.type() == Type{f32, {2, 3}});
  const auto values = tensor.data<float>();
  CHECK(Numbers(values.begin(), values.end()) == expected);
}

template <class F>
Numbers each(const Numbers& a, const Numbers& b, F f) {
  Numbers result;
  for (size_t k = 0; k < a.size(); ++k) result.push_back(f(a[k], b[k]));
  return result;
}

}  // namespace

TEST_CASE("dump: the listed steps of the listed nodes and the training is as without") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const DumpedRun plain = train_dumped(backend, 100, {});
    CHECK(plain.report.dumped_steps == 0);
    CHECK(plain.report.dump_folder.empty());
    for (const int64_t loop_size : {1, 3, 100}) {
      CAPTURE(loop_size);
      const TempFolder folder;
      const DumpedRun run = train_dumped(backend, loop_size,
                                         {.enable_dump = true,
                                          .path = folder.path(),
                                          .steps = parse_dump_step("2|4-5|90", "steps"),
                                          .mode = DumpMode::kAll,
                                          .layers = {"net/product", "net/rounded", "net/next"},
                                          .model_name = "two/rows"});
      CHECK(run.sha == plain.sha);
      CHECK(run.losses == plain.losses);
      CHECK(run.report.steps == 7);
      CHECK(run.report.dumped_steps == 3);
      if (loop_size == 100) CHECK(run.report.launches == 6);  // 1, 2, 3, 4, 5, 6-7

      REQUIRE(names_in(folder.path()).size() == 1);
      CHECK(run.report.dump_folder == folder.file(names_in(folder.path())[0]));
      const std::string steps = run.report.dump_folder + "/0/two_rows/0";
      CHECK(names_in(steps) == std::vector<std::string>{"2", "4", "5"});
      for (const int64_t step : {2, 4, 5}) {
        CAPTURE(step);
        auto files = files_of(steps + "/" + std::to_string(step));
        CHECK(keys_of(files) == std::vector<std::string>{
                                    "add.net_next.input.0.npy", "add.net_next.input.1.npy",
                                    "add.net_next.output.0.npy", "cast.net_rounded.input.0.npy",
                                    "cast.net_rounded.output.0.npy", "mul.net_product.input.0.npy",
                                    "mul.net_product.input.1.npy", "mul.net_product.output.0.npy"});
        const Numbers x = x_of(step), w = w_before(step);
        const Numbers product = each(x, w, [](float a, float b) { return a * b; });
        check_file(files["mul.net_product.input.0.npy"], x);
        check_file(files["mul.net_product.input.1.npy"], w);
        check_file(files["mul.net_product.output.0.npy"], product);
        check_file(files["cast.net_rounded.input.0.npy"], product);
        check_file(files["cast.net_rounded.output.0.npy"],
                   each(product, product, [](float a, float) { return as_bf16(a); }));
        // It may be overwritten by the sum.
        check_file(files["add.net_next.input.0.npy"],
                   each(w, w, [](float a, float) { return a * 0.5f; }));
        check_file(files["add.net_next.output.0.npy"], w_before(step + 1));
      }
    }
  }
}

TEST_CASE("dump: outputs of every node in every step are what is dumped without more words") {
  const TempFolder folder;
  const DumpedRun run = train_dumped("npu", 4, {.enable_dump = true, .path = folder.path()}, 3);
  CHECK(run.report.dumped_steps == 3);
  const std::string steps = run.report.dump_folder + "/0/model/0";
  CHECK(names_in(steps) == std::vector<std::string>{"1", "2", "3"});
  auto files = files_of(steps + "/3");
  for (const std::string& name : keys_of(files)) CHECK(contains(name, ".output.0.npy"));
  CHECK(files.count("mul.net_product.output.0.npy") == 1);
  CHECK(files.count("sum.net_sum.output.0.npy") == 1);
  check_file(files["add.net_next.output.0.npy"], w_before(4));
}

TEST_CASE("dump: inputs alone where they are asked for") {
  const TempFolder folder;
  const DumpedRun run = train_dumped("cpu", 7,
                                     {.enable_dump = true,
                                      .path = folder.path(),
                                      .steps = parse_dump_step("7", "steps"),
                                      .mode = DumpMode::kInput,
                                      .layers = {"net/product"}});
  CHECK(keys_of(files_of(run.report.dump_folder + "/0/model/0/7")) ==
        std::vector<std::string>{"mul.net_product.input.0.npy", "mul.net_product.input.1.npy"});
}

TEST_CASE("dump: a step that waits for its element is cancelled as any other") {
  const TempFolder folder;
  RoundedModel m;
  Session session(m.graph, device("npu"));
  std::atomic<bool> arrived{false}, released{false};
  const auto feeder = std::make_shared<NumberFeeder>(
      session.device(), ElementSpec{{{"x", {f32, {2, 3}}}}},
      [&](int64_t i, const std::vector<void*>& fields) {
        const Numbers x = x_of(i + 1);
        std::copy(x.begin(), x.end(), static_cast<float*>(fields[0]));
        if (i < 2) return true;
        arrived = true;
        arrived.notify_all();
        released.wait(false);
        return false;
      });
  feeder->open({});
  Trainer trainer(session,
                  {.update = Update{{{m.w, m.next}}}, .fetches = {m.loss}, .source = feeder});
  std::thread other([&] {
    arrived.wait(false);
    trainer.cancel();
  });
  const TrainReport report = trainer.fit(
      {.steps = 5,
       .dump = {
           .enable_dump = true, .path = folder.path(), .steps = parse_dump_step("2-3", "steps")}});
  other.join();
  released = true;
  released.notify_all();
  CHECK(report.cancelled);
  CHECK(report.steps <= 2);
  CHECK(report.dumped_steps <= 1);
  CHECK(session.step() == report.steps);
}

TEST_CASE("dump: statistics are one table of a step") {
  const TempFolder folder;
  const DumpedRun run = train_dumped("npu", 7,
                                     {.enable_dump = true,
                                      .path = folder.path(),
                                      .steps = parse_dump_step("3", "steps"),
                                      .mode = DumpMode::kAll,
                                      .layers = {"net/rounded"},
                                      .data = DumpData::kStats});
  const std::string step = run.report.dump_folder + "/0/model/0/3";
  CHECK(names_in(step) == std::vector<std::string>{"stats.csv"});
  const auto table = parse_csv(read_file(step + "/stats.csv", 1 << 20), "stats.csv");
  REQUIRE(table.size() == 3);
  const auto cell = [&](size_t row, const std::string& column) {
    const auto at = std::find(table[0].begin(), table[0].end(), column);
    REQUIRE(at != table[0].end());
    return table[row][static_cast<size_t>(at - table[0].begin())];
  };
  const Numbers product = each(x_of(3), w_before(3), [](float a, float b) { return a * b; });
  for (const size_t row : {size_t{1}, size_t{2}}) {
    Numbers values = product;
    if (row == 2) {
      for (float& value : values) value = as_bf16(value);
    }
    double mean = 0;
    for (const float value : values) mean += static_cast<double>(value) / kNumbers;
    CHECK(cell(row, "node") == "net/rounded");
    CHECK(cell(row, "op") == "cast");
    CHECK(cell(row, "io") == (row == 1 ? "input" : "output"));
    CHECK(cell(row, "index") == "0");
    CHECK(cell(row, "dtype") == (row == 1 ? "f32" : "bf16"));
    CHECK(cell(row, "shape") == "[2, 3]");
    CHECK(cell(row, "elements") == "6");
    CHECK(std::stod(cell(row, "min")) == *std::min_element(values.begin(), values.end()));
    CHECK(std::stod(cell(row, "max")) == *std::max_element(values.begin(), values.end()));
    CHECK(std::stod(cell(row, "mean")) == doctest::Approx(mean).epsilon(1e-12));
    CHECK(cell(row, "infinite") == "0");
    CHECK(cell(row, "nan") == "0");
    CHECK(contains(cell(row, "line"), "test_step_dump.cpp:"));
  }
}

TEST_CASE("dump: numbers near the largest one have a finite mean") {
  constexpr double kMost = std::numeric_limits<double>::max();
  struct Row {
    std::array<double, 3> numbers;
    double mean;
  };
  for (const auto& [numbers, mean] :
       {Row{{1.7e308, 1.7e308, 1.4e308}, 1.6e308}, Row{{kMost, kMost, kMost}, kMost},
        Row{{-kMost, -kMost, -1}, -kMost / 3 * 2}, Row{{kMost, -kMost, 3}, 1}}) {
    const TempFolder folder;
    Graph g;
    const Value x = g.input("x", f64, {3});
    const Value w = g.state("w", zeros({}));
    const Value below = named(less(x, 0.0), "below");
    Session session(g, device("cpu"));
    const auto feeder = std::make_shared<NumberFeeder>(
        session.device(), ElementSpec{{{"x", {f64, {3}}}}},
        [&numbers = numbers](int64_t, const std::vector<void*>& fields) {
          std::copy(numbers.begin(), numbers.end(), static_cast<double*>(fields[0]));
          return true;
        });
    feeder->open({});
    Trainer trainer(
        session,
        {.update = Update{{{w, w + sum(cast(below, f32))}}}, .fetches = {}, .source = feeder});
    const TrainReport report = trainer.fit({.steps = 1,
                                            .dump = {.enable_dump = true,
                                                     .path = folder.path(),
                                                     .mode = DumpMode::kInput,
                                                     .layers = {"below"},
                                                     .data = DumpData::kStats}});
    const auto table =
        parse_csv(read_file(report.dump_folder + "/0/model/0/1/stats.csv", 1 << 20), "stats.csv");
    REQUIRE(table.size() >= 2);
    const auto at = std::find(table[0].begin(), table[0].end(), "mean");
    REQUIRE(at != table[0].end());
    const double got = std::stod(table[1][static_cast<size_t>(at - table[0].begin())]);
    CHECK(std::fabs(got - mean) <= 1e-15 * std::fabs(mean));
  }
}

TEST_CASE("dump: a name that no node has is refused with near ones before anything is done") {
  const TempFolder folder;
  const auto text = [&](const std::string& layer) {
    return error_of([&] {
      train_dumped("npu", 4, {.enable_dump = true, .path = folder.path(), .layers = {layer}});
    });
  };
  CHECK(contains(text("net/prodct"),
                 "dump_layer: expected names of nodes that are computed, got "
                 "net/prodct; did you mean 'net/product'?"));
  CHECK(contains(text("product"), "it may be net/product"));
  CHECK(contains(text("net"), "it may be net/product, net/rounded"));
  CHECK(contains(text("zzz"), "without dump_layer all are dumped"));
  // An input is no op.
  CHECK(contains(text("x"), "got x"));
  CHECK(contains(text("net/prodct"), "test_step_dump.cpp:"));
  CHECK(folder.empty());
}

TEST_CASE("dump: what cannot be written ends the dump and the training where nobody is told") {
  const DumpOptions base{.enable_dump = true, .steps = parse_dump_step("2-6", "steps")};
  const DumpedRun plain = train_dumped("npu", 3, {});
  const auto run = [&](std::function<void(const Error&)> on_failure) {
    RoundedModel m;
    const TempFolder folder;
    DumpOptions dump = base;
    dump.path = folder.file("here");
    fs::create_directory(dump.path);
    dump.on_failure = std::move(on_failure);
    Session session(m.graph, device("npu"));
    Trainer trainer(session, {.update = Update{{{m.w, m.next}}},
                              .fetches = {m.loss},
                              .source = numbered_rows(session.device())});
    const auto remove = [&](int64_t step) {
      if (step == 3) {
        fs::remove_all(dump.path);
        folder.write("here", "a file");
      }
      return LoopControl::kContinue;
    };
    DumpedRun result;
    result.report =
        trainer.fit({.steps = 7, .loop_size = 3, .every_n_steps = {{1, remove}}, .dump = dump});
    result.sha = session.state_sha256();
    CHECK(fs::is_regular_file(dump.path));
    return result;
  };
  std::vector<std::string> told;
  const DumpedRun going_on = run([&](const Error& error) { told.emplace_back(error.what()); });
  REQUIRE(told.size() == 1);
  CHECK(contains(told[0], "dump: "));
  CHECK(going_on.report.steps == 7);
  CHECK(going_on.report.dumped_steps == 2);
  CHECK(going_on.sha == plain.sha);
  CHECK(contains(error_of([&] { run({}); }), "dump: "));
}

TEST_CASE("dump: a training that goes on dumps by the step's number") {
  const TempFolder folder;
  RoundedModel m;
  Session session(m.graph, device("npu"));
  Trainer trainer(session, {.update = Update{{{m.w, m.next}}},
                            .fetches = {m.loss},
                            .source = numbered_rows(session.device())});
  trainer.fit({.steps = 4, .loop_size = 3});
  const TrainReport report = trainer.fit({.steps = 4,
                                          .loop_size = 3,
                                          .dump = {.enable_dump = true,
                                                   .path = folder.path(),
                                                   .steps = parse_dump_step("2|6", "steps"),
                                                   .layers = {"net/next"}}});
  const std::string steps = report.dump_folder + "/0/model/0";
  CHECK(names_in(steps) == std::vector<std::string>{"6"});
  check_file(files_of(steps + "/6")["add.net_next.output.0.npy"], w_before(7));
}

TEST_CASE("dump: a training that ends before a listed step leaves no half of it") {
  const TempFolder folder;
  RoundedModel m;
  Session session(m.graph, device("npu"));
  auto feeder =
      std::make_shared<NumberFeeder>(session.device(), ElementSpec{{{"x", {f32, {2, 3}}}}},
                                     [](int64_t i, const std::vector<void*>& fields) {
                                       std::fill_n(static_cast<float*>(fields[0]), kNumbers, 1.0f);
                                       return i < 3;
                                     });
  feeder->open({});
  Trainer trainer(session,
                  {.update = Update{{{m.w, m.next}}}, .fetches = {m.loss}, .source = feeder});
  const TrainReport report = trainer.fit(
      {.steps = 7,
       .loop_size = 2,
       .dump = {
           .enable_dump = true, .path = folder.path(), .steps = parse_dump_step("4", "steps")}});
  CHECK(report.end_of_data);
  CHECK(report.steps == 3);
  CHECK(report.dumped_steps == 0);
  CHECK(report.dump_folder.empty());
  CHECK(folder.empty());
}

namespace {

// y = x squared, of x = 2 but in the planted steps, whose fifth number is so large that its square
// is infinite in f32.
DumpedRun train_debug(const char* backend, int64_t loop_size, const std::vector<int64_t>& planted,
                      const DumpOptions& dump) {
  Graph g;
  const Value x = g.input("x", f32, {8});
  const Value w = g.state("w", zeros({}));
  Value y;
  {
    const NameScope head(g, "head");
    y = square(x);
  }
  const Value loss = mean(y);
  Session session(g, device(backend));
  auto feeder = std::make_shared<NumberFeeder>(
      session.device(), ElementSpec{{{"x", {f32, {8}}}}},
      [planted](int64_t i, const std::vector<void*>& fields) {
        auto* numbers = static_cast<float*>(fields[0]);
        std::fill_n(numbers, 8, 2.0f);
        if (std::find(planted.begin(), planted.end(), i + 1) != planted.end()) numbers[4] = 1e30f;
        return true;
      });
  feeder->open({});
  Trainer trainer(session,
                  {.update = Update{{{w, w + 1.0f}}}, .fetches = {loss}, .source = feeder});
  DumpedRun run;
  run.report = trainer.fit({.steps = 20, .loop_size = loop_size, .dump = dump});
  run.sha = session.state_sha256();
  return run;
}

}  // namespace

TEST_CASE("dump debug: each step with overflow has the op its operands and its results") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const std::vector<int64_t> planted = {5, 6, 13};
    const DumpedRun plain = train_debug(backend, 20, planted, {});
    for (const int64_t loop_size : {1, 7, 20}) {
      CAPTURE(loop_size);
      const TempFolder folder;
      const DumpedRun run = train_debug(backend, loop_size, planted,
                                        {.enable_dump_debug = true, .path = folder.path()});
      CHECK(run.sha == plain.sha);
      CHECK(run.report.numerics.size() == 3);
      CHECK(run.report.dumped_steps == 3);
      const std::string steps = run.report.dump_folder + "/0/model/0";
      CHECK(names_in(steps) == std::vector<std::string>{"13", "5", "6"});
      for (const std::string step : {"5", "6", "13"}) {
        const std::string at = steps + "/" + step + "/";
        CHECK(names_in(at) == std::vector<std::string>{"overflow.json",
                                                       "square.head_square.input.0.npy",
                                                       "square.head_square.output.0.npy"});
        const auto report = nlohmann::json::parse(read_file(at + "overflow.json", 1 << 20));
        CHECK(report.at("step") == std::stoi(step));
        CHECK(report.at("name") == "head/square");
        CHECK(report.at("op") == "square");
        CHECK(report.at("kind") == "infinite");
        CHECK(contains(report.at("line"), "test_step_dump.cpp:"));
        CHECK(contains(report.at("text"), "step " + step + ": head/square: 1 infinite numbers"));
        const auto& input = report.at("inputs").at(0);
        CHECK(input.at("file") == "square.head_square.input.0.npy");
        CHECK(input.at("dtype") == "f32");
        CHECK(input.at("shape") == std::vector<int64_t>{8});
        CHECK(input.at("min") == 2);
        CHECK(input.at("max").get<float>() == 1e30f);
        CHECK(input.at("infinite") == 0);
        const auto& output = report.at("outputs").at(0);
        CHECK(output.at("infinite") == 1);
        CHECK(output.at("min") == 4);
        CHECK(output.at("max") == 4);
        const Tensor x = read_npy(at + "square.head_square.input.0.npy");
        const Tensor y = read_npy(at + "square.head_square.output.0.npy");
        for (size_t k = 0; k < 8; ++k) {
          CHECK(x.data<float>()[k] == (k == 4 ? 1e30f : 2.0f));
          if (k == 4) CHECK(std::isinf(y.data<float>()[k]));
          if (k != 4) CHECK(y.data<float>()[k] == 4);
        }
      }
    }
  }
}

TEST_CASE("dump debug: a training without overflow makes no folder") {
  const TempFolder folder;
  const DumpedRun run =
      train_debug("npu", 7, {}, {.enable_dump_debug = true, .path = folder.path()});
  CHECK(run.report.dumped_steps == 0);
  CHECK(run.report.dump_folder.empty());
  CHECK(folder.empty());
}

TEST_CASE("dump debug: numbers that the device stopped at the largest f16 are overflow too") {
  const TempFolder folder;
  Graph g;
  const Value x = g.input("x", f32, {2, 3});
  const Value w = g.state("w", zeros({}));
  // Beyond 65504 from step 10 on.
  const Value loss = sum(cast(cast(x * 6000.0f, f16), f32)) * 1e-10f;
  Session session(g, device("npu"),
                  {.precision = "fp32", .device_options = npu::options("ascend910")});
  Trainer trainer(session, {.update = Update{{{w, w + loss}}},
                            .fetches = {loss},
                            .source = numbered_rows(session.device())});
  const TrainReport report = trainer.fit(
      {.steps = 10, .loop_size = 4, .dump = {.enable_dump_debug = true, .path = folder.path()}});
  REQUIRE(report.numerics.size() == 1);
  CHECK(report.numerics[0].step == 10);
  CHECK(report.dumped_steps == 1);
  const std::string step = report.dump_folder + "/0/model/0/10";
  const auto finding = nlohmann::json::parse(read_file(step + "/overflow.json", 1 << 20));
  CHECK(finding.at("op") == "cast");
  CHECK(finding.at("kind") == "f16 results were stopped at +-65504");
  CHECK(finding.at("outputs").at(0).at("max") == 65504);
  CHECK(read_npy(step + "/cast.cast.output.0.npy").dtype() == f16);
}

TEST_SUITE_END();
