// Figures of profiles that were wrong: aicpu.csv had negative times, since a task was called one of
// the AI CPU and priced as one of the vector cores; a step of more tasks than a profile lists was
// as short as those that it lists; collectives were on the stream of the launches that they run
// beside; the backward pass ended in the middle of a task; advice said that all cores were in use
// where one of 48 was. What the host computes and copies over its link were called bound by their
// start, and advice gave them roofs and cores.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "keel/backends/npu/options.h"
#include "keel/backends/npu/profile/profile.h"
#include "keel/backends/registry.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/data_parallel.h"
#include "keel/ops/ops.h"

#include "unit/npu_profile_for_tests.h"
#include "unit/ranks_for_tests.h"

namespace keel {
namespace {

using keel_test::contains;
using npu::ProfileOptions;
using npu::write_profile;
using npu_profile_test::Folder;
using npu_profile_test::Table;

// A training of two layers with dropout between them, whose keys are folded on the device.
struct DropoutTraining {
  DropoutTraining() {
    const Value x = graph.input("x", f32, {64, 256});
    const Value label = graph.input("label", u8, {64});
    const Value hidden = dropout(relu(dense(x, 512, {.name = "hidden"})), 0.5);
    const Value loss = mean(softmax_cross_entropy(dense(hidden, 10, {.name = "logits"}), label));
    const Update update = sgd(0.1).minimize(loss);
    session.emplace(graph, device("npu:0"),
                    SessionOptions{.device_options = npu::options("ascend910b1")});
    const ElementSpec element{{{"x", {f32, {64, 256}}}, {"label", {u8, {64}}}}};
    auto queue = std::make_shared<DeviceQueue>(session->device(), element);
    loop.emplace(session->sink({.update = update, .fetches = {loss}, .source = queue}));
  }
  Graph graph;
  std::optional<Session> session;
  std::optional<Loop> loop;
};

bool is_negative(const std::string& cell) {
  return cell.size() > 1 && cell[0] == '-' &&
         std::isdigit(static_cast<unsigned char>(cell[1])) != 0;
}

double start_of(const Table& tasks, size_t row) { return tasks.number(row, "Task Start Time"); }
double end_of(const Table& tasks, size_t row) {
  return start_of(tasks, row) + tasks.number(row, "Task Duration(us)");
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("no cell of a profile is negative") {
  const DropoutTraining training;
  const Folder folder("profile_negative");
  ProfileOptions options{.directory = folder.path()};
  options.profiling.aicpu = options.profiling.runtime_api = true;
  write_profile(training.loop->program(), options);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".csv") continue;
    ++files;
    const Table table(folder.read(entry.path().filename().string()));
    for (const CsvRow& row : table.rows) {
      for (const std::string& cell : row)
        CHECK_MESSAGE(!is_negative(cell), entry.path() << ": " << cell);
    }
  }
  CHECK(files == 5);
  // Its keys are folded by a vector core, as they are priced.
  CHECK(contains(folder.read("op_summary.csv"), "fold_key"));
  CHECK_FALSE(contains(folder.read("aicpu.csv"), "fold_key"));
}

TEST_CASE("the backward pass ends where the last task with gradients does") {
  const DropoutTraining training;
  const Folder folder("profile_backward");
  write_profile(training.loop->program(), {.directory = folder.path()});
  const Table steps(folder.read("step_trace.csv")), tasks(folder.read("op_summary.csv"));
  for (size_t step = 1; step < steps.rows.size(); ++step) {
    double last = 0;
    for (size_t row = 1; row < tasks.rows.size(); ++row) {
      if (start_of(tasks, row) >= steps.number(step, "Iteration End(us)")) break;
      if (contains(";" + tasks.rows[row][tasks.column("Members")], ";gradient/"))
        last = end_of(tasks, row);
    }
    CHECK(steps.number(step, "BP End(us)") == doctest::Approx(last).epsilon(1e-9));
    CHECK(steps.number(step, "Iteration Refresh(us)") >= 0);
    CHECK(steps.number(step, "FP to BP Time(us)") + steps.number(step, "Iteration Refresh(us)") ==
          doctest::Approx(steps.number(step, "Iteration Time(us)")));
  }
}

TEST_CASE("a step of more tasks than are listed is as long as all of them") {
  Graph graph;
  const Value w = graph.state("w", zeros({64, 64}, f32));
  const Value next = while_loop(
      {w}, [](const Values& v) { return greater(sum(v[0]), 0.0f); },
      [](const Values& v) { return Values{matmul(v[0], v[0])}; }, {.trip_count = 60'000})[0];
  Session session(graph, device("npu:0"));
  const Loop loop = session.sink({.update = Update{{{w, next}}}});
  const auto step_ns = loop.program().info().step_device_ns;
  REQUIRE(step_ns.has_value());
  const Folder folder("profile_long_step");
  write_profile(loop.program(), {.directory = folder.path(), .first_step = 2, .last_step = 3});
  const Table steps(folder.read("step_trace.csv"));
  const double step_us = static_cast<double>(*step_ns) * 1e-3;
  for (const size_t row : {size_t{1}, size_t{2}}) {
    CHECK(steps.number(row, "Iteration Time(us)") == doctest::Approx(step_us));
    // The second step and the third, each with a launch of 25 us.
    CHECK(steps.number(row, "Iteration End(us)") ==
          doctest::Approx(static_cast<double>(row + 1) * (25 + step_us)));
  }
  CHECK(contains(folder.read("advice.txt"), "the step runs more tasks than the 100000"));
  const std::string shown = npu::profile_table(folder.path());
  CHECK(contains(shown, "the step runs more tasks than the 100000 that are listed"));
}

TEST_CASE("tasks of one stream of a profile never overlap") {
  const Folder folder("profile_streams");
  const auto errors = testing::run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Graph g;
    Value h = g.input("x", f32, {-1, 512});
    for (const char* name : {"a", "b", "c"}) h = relu(dense(h, 512, {.name = name}));
    const Update update = data_parallel(sgd(0.1), group, {.bucket_bytes = 1}).minimize(mean(h));
    Session session(g, device("npu"), {.device_options = npu::options("ascend910b1")});
    const ElementSpec element{{{"x", {f32, {64, 512}}}}};
    const Loop loop = session.sink(
        {.update = update, .source = std::make_shared<DeviceQueue>(session.device(), element)});
    if (group->rank() == 0) write_profile(loop.program(), {.directory = folder.path()});
  });
  REQUIRE(errors == testing::no_errors(2));
  const Table tasks(folder.read("op_summary.csv"));
  std::map<std::string, std::vector<std::pair<double, double>>> streams;
  for (size_t row = 1; row < tasks.rows.size(); ++row) {
    const CsvRow& cells = tasks.rows[row];
    const std::string stream = cells[tasks.column("Stream ID")];
    CHECK((cells[tasks.column("Task Type")] == "HCCL") == (stream == "1"));
    streams[stream].emplace_back(start_of(tasks, row), end_of(tasks, row));
  }
  REQUIRE(streams.size() == 2);
  for (auto& entry : streams) {
    auto& spans = entry.second;
    CAPTURE(entry.first);
    std::sort(spans.begin(), spans.end());
    for (size_t i = 1; i < spans.size(); ++i) CHECK(spans[i].first >= spans[i - 1].second - 1e-6);
  }
  // What runs beside the launches is not a part of their sum, which the step is no shorter than.
  const Table steps(folder.read("step_trace.csv"));
  double launches_us = 0, beside_us = 0;
  for (size_t row = 1; row < tasks.rows.size(); ++row) {
    if (start_of(tasks, row) >= steps.number(1, "Iteration End(us)")) break;
    const bool beside = tasks.rows[row][tasks.column("Stream ID")] == "1";
    (beside ? beside_us : launches_us) += tasks.number(row, "Task Duration(us)");
  }
  CHECK(launches_us <= steps.number(1, "Iteration Time(us)"));
  const std::string shown = npu::profile_table(folder.path());
  CAPTURE(shown);
  CHECK(contains(shown, fmt::format("launches of a step ({:.3f} us in ", launches_us)));
  CHECK(contains(shown, fmt::format("; collectives beside them {:.3f} us in 6):", beside_us)));
  CHECK(contains(shown, "links\n"));
}

TEST_CASE("advice says that all cores are in use only where they are") {
  Graph graph;
  const Value table = graph.state("table", zeros({5000, 1024}, f32));
  const Value i = graph.state("i", zeros({}, i64));
  const Value w = graph.state("w", zeros({1024}, f32));
  const Value row = gather(table, i);  // a view of the row, which lies in whole lines of memory
  Session session(graph, device("npu:0"), {.device_options = npu::options("ascend910b1")});
  const Loop loop = session.sink({.update = Update{{{w, w + row}, {i, i + 1}}}});
  const Folder folder("profile_all_cores");
  write_profile(loop.program(), {.directory = folder.path()});
  const std::string advice = folder.read("advice.txt");
  CAPTURE(advice);
  CHECK(contains(advice, "block_dim 1 of 48"));
  CHECK_FALSE(contains(advice, "block_dim 1 of 48\n   reason: all cores"));
}

TEST_CASE("what the host does is bound by the host and its link and has no roofs") {
  Graph graph;
  const Value w = graph.state("w", zeros({256, 256}, f32));
  Value host;
  {
    const HostScope on(graph);
    host = sin(w);
  }
  const Value wide = named(cast(exp(cast(w, f64)), f32), "wide");
  Session session(
      graph, device("npu:0"),
      {.placement = PlacementPolicy::kMixed, .device_options = npu::options("ascend910b1")});
  const Loop loop = session.sink({.update = Update{{{w, matmul(w, host) + wide}}}});
  const Folder folder("profile_of_the_host");
  ProfileOptions options{.directory = folder.path(), .last_step = 1};
  options.profiling.aicpu = true;
  write_profile(loop.program(), options);
  // By the table of launches: what the host does, by how it is bound.
  const std::string shown = npu::profile_table(folder.path());
  CAPTURE(shown);
  std::map<std::string, int> on;
  const std::string launches = shown.substr(shown.find("launches of a step"));
  for (size_t begin = 0; begin < launches.size();) {
    const size_t end = std::min(launches.size(), launches.find('\n', begin));
    const std::string line = launches.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) break;  // the advice comes behind
    for (const auto& [kind, bound] : {std::pair{" AI_CPU ", "  host"}, {" MEMCPY ", "  link"}}) {
      if (!contains(line, kind)) continue;
      ++on[kind];
      CHECK_MESSAGE(line.ends_with(bound), line);
    }
  }
  CHECK(on[" AI_CPU "] >= 2);
  CHECK(on[" MEMCPY "] >= 1);
  // Each paragraph of the advice whose reason is the host.
  const std::string advice = folder.read("advice.txt");
  int of_host = 0;
  for (size_t at = advice.find("reason: host"); at != std::string::npos;
       at = advice.find("reason: host", at + 1)) {
    ++of_host;
    const size_t begin = advice.rfind("\n\n", at);
    const std::string paragraph = advice.substr(begin, at - begin);
    CHECK_MESSAGE(contains(paragraph, "in which the device's cores have no part"), paragraph);
    CHECK_FALSE(contains(paragraph, "roofs"));
    CHECK_FALSE(contains(paragraph, "block_dim"));
  }
  CHECK(of_host >= 2);
}

TEST_SUITE_END();

}  // namespace keel
