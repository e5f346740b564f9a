// Summaries kept rows of steps that never were, where a training added none behind them, or were no
// JSON; a number called `step` made a second column of that name.
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/backends/registry.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/runtime/trainer.h"

#include "support/temp_folder.h"
#include "unit/runtime_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::TempFolder;
using nlohmann::json;
using Steps = std::vector<int64_t>;

struct SummarisedTraining {
  explicit SummarisedTraining(const char* name = "total")
      : total(named(model.total * 1.0f, name)),
        session(model.graph, device("ref")),
        trainer(session, {.update = model.update,
                          .fetches = {total},
                          .source = halving_feeder(device("ref"), 1 << 30)}) {}

  TrainReport fit(int64_t steps, const std::string& path, int64_t every = 10) {
    return trainer.fit(
        {.steps = steps, .hooks = {SummaryHook{.path = path, .every_n_steps = every}}});
  }

  HalvingModel model;
  Value total;
  Session session;
  Trainer trainer;
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The steps of its rows. A table has a head; an array is one as a whole.
Steps summarised_steps(const std::string& path) {
  Steps steps;
  if (path.ends_with(".json")) {
    for (const json& row : json::parse(text_of(path))) steps.push_back(row.at("step"));
    return steps;
  }
  std::istringstream lines(text_of(path));
  std::string line;
  CHECK(std::getline(lines, line));
  CHECK(line == "step,total");
  while (std::getline(lines, line)) steps.push_back(std::stoll(line));
  return steps;
}

constexpr const char* kNames[] = {"s.csv", "s.json"};

}  // namespace

TEST_CASE("a summary ends where its training does though no row is added") {
  for (const char* name : kNames) {
    CAPTURE(name);
    const TempFolder folder;
    const std::string path = folder.file(name), saved = folder.file("states");
    SummarisedTraining t;
    t.fit(12, path);
    t.trainer.save(saved);
    const std::string until_12 = text_of(path);
    t.fit(13, path);
    CHECK(summarised_steps(path) == Steps{10, 20});

    SummarisedTraining resumed;
    resumed.trainer.resume(saved);
    resumed.fit(5, path);
    CHECK(text_of(path) == until_12);
    resumed.fit(5, path);
    CHECK(summarised_steps(path) == Steps{10, 20});

    // The rows are another training's.
    SummarisedTraining fresh;
    fresh.fit(5, path);
    CHECK(summarised_steps(path).empty());
    fresh.fit(0, path);
    CHECK(summarised_steps(path).empty());
    fresh.fit(5, path);
    CHECK(summarised_steps(path) == Steps{10});
    SummarisedTraining again;
    again.fit(2, path);
    again.fit(28, path);
    CHECK(summarised_steps(path) == Steps{10, 20, 30});
  }
}

TEST_CASE("a new summary without rows is a whole file") {
  for (const char* name : kNames) {
    CAPTURE(name);
    const TempFolder folder;
    SummarisedTraining t;
    t.fit(5, folder.file(name));
    CHECK(summarised_steps(folder.file(name)).empty());
    t.fit(5, folder.file(name));
    CHECK(summarised_steps(folder.file(name)) == Steps{10});
  }
}

TEST_CASE("a training that fails before its first row leaves the summary alone") {
  for (const char* name : kNames) {
    CAPTURE(name);
    const TempFolder folder;
    const std::string path = folder.file(name);
    SummarisedTraining().fit(25, path);
    const std::string before = text_of(path);
    SummarisedTraining t;
    TrainOptions options{
        .steps = 9,
        .hooks = {SummaryHook{.path = path, .every_n_steps = 10}, StopAtStepHook{.last_step = 7}}};
    options.on_step = [](int64_t step, std::span<const double>) {
      if (step == 5) throw Error("the paper is out");
    };
    CHECK(contains(error_of([&] { t.trainer.fit(options); }), "the paper is out"));
    CHECK(text_of(path) == before);
    CHECK(summarised_steps(path) == Steps{10, 20});
  }
}

TEST_CASE("a number called step has a name of its own beside the steps") {
  for (const char* name : kNames) {
    CAPTURE(name);
    const TempFolder folder;
    const std::string path = folder.file(name);
    SummarisedTraining t("step");
    t.fit(2, path, 1);
    t.fit(1, path, 1);  // which is the same summary
    // Halves of 8 and 16 and what steps 0, 1 and 2 bring: 4 + 9, 3 + 5.5, 3.5 + 3.75.
    if (std::string(name) == "s.csv") {
      CHECK(text_of(path) == "step,step_2\n1,13\n2,8.5\n3,7.25\n");
    } else {
      CHECK(json::parse(text_of(path)) == json::parse(R"([{"step": 1, "step_2": 13},
          {"step": 2, "step_2": 8.5}, {"step": 3, "step_2": 7.25}])"));
    }
  }
}

TEST_SUITE_END();
