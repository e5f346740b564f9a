// The framework's own time: sunk steps whose kernels have next to nothing to do, with few and many
// tasks, with and without a queue. What a step costs beyond its kernels is the first number; what a
// task costs is the slope.
#include <chrono>
#include <cstdio>
#include <vector>

#include <keel/keel.h>

namespace {

using Clock = std::chrono::steady_clock;

// Wall time of a step with `tasks` tiny products after each other, in ns; the best of five
// launches.
double step_ns(const char* backend, int tasks, bool fed, int64_t* task_count) {
  keel::Graph graph;
  const keel::Value w = graph.state("w", keel::zeros({1, 1}));
  const keel::Value x = fed ? graph.input("x", keel::f32, {1, 1}) : w;
  keel::Value y = x;
  for (int i = 0; i < tasks; ++i) y = matmul(y, w);
  keel::Update update;
  update.assignments.push_back({w, y});
  keel::Session session(graph, keel::device(backend));
  std::shared_ptr<keel::Feeder> feeder;
  if (fed) {
    const keel::Tensor rows(keel::f32, {1000, 1});
    feeder =
        keel::feed(keel::Dataset::from_tensors({{"x", rows}}).batch(1).repeat(), session.spec({x}));
  }
  keel::Loop loop =
      fed ? session.sink({.update = update, .source = feeder}) : session.sink({.update = update});
  *task_count = loop.program().info().task_count;
  constexpr int64_t kSteps = 20000;
  loop.run(kSteps);
  double best = 1e18;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    loop.run(kSteps);
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count() /
                              static_cast<double>(kSteps));
  }
  return best;
}

}  // namespace

int main() {
  for (const char* backend : {"npu:0", "cpu:0"}) {
    for (const bool fed : {false, true}) {
      int64_t few_tasks = 0, many_tasks = 0;
      const double few = step_ns(backend, 1, fed, &few_tasks);
      const double many = step_ns(backend, 41, fed, &many_tasks);
      std::printf(
          "%s %-12s %3d tasks %8.3f us a step, %3d tasks %8.3f us: %.3f us a task, tiny kernel "
          "included\n",
          backend, fed ? "with a queue" : "without", static_cast<int>(few_tasks), few * 1e-3,
          static_cast<int>(many_tasks), many * 1e-3,
          (many - few) / static_cast<double>(many_tasks - few_tasks) * 1e-3);
    }
  }
  return 0;
}
