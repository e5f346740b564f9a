// The hooks that TensorFlow 1 had, by name: each at exactly its step for every loop size, on a
// model whose numbers are known beforehand.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/backends/registry.h"
#include "keel/core/base/log.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/runtime/checkpoint_files.h"
#include "keel/graph/runtime/trainer.h"

#include "runtime_for_tests.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::TempFolder;
using Lines = std::vector<std::string>;

struct HookedTraining {
  explicit HookedTraining(const std::string& where = "ref") : session(model.graph, device(where)) {
    named(model.total, "total");
    twice = named(model.total * 2.0f, "twice");
    trainer.emplace(session, SinkOptions{.update = model.update,
                                         .fetches = {model.total, model.next, twice},
                                         .source = halving_feeder(device(where), 1 << 30)});
  }
  HalvingModel model;
  Value twice;
  Session session;
  std::optional<Trainer> trainer;
};

// The totals of steps 1 to n.
std::vector<double> totals(int64_t steps) {
  HalvingExpectation expected;
  std::vector<double> values;
  for (int64_t i = 0; i < steps; ++i)
    values.push_back(static_cast<double>(static_cast<float>(expected.advance())));
  return values;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Lines lines_of(const std::string& path) {
  Lines lines;
  std::istringstream text(text_of(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::string fit_refusal(const TrainOptions& options) {
  HookedTraining t;
  const std::string error = error_of([&] { t.trainer->fit(options); });
  CHECK(t.session.step() == 0);
  return error;
}

constexpr int64_t kLoopSizes[] = {1, 3, 7, 100};

TEST_CASE("StopAtStepHook ends the training behind its step for every loop size") {
  for (const int64_t size : kLoopSizes) {
    CAPTURE(size);
    HookedTraining t("npu");
    const TrainReport report =
        t.trainer->fit({.steps = 50, .loop_size = size, .hooks = {StopAtStepHook{.last_step = 7}}});
    CHECK(report.steps == 7);
    CHECK(report.launches == (7 + size - 1) / size);
    CHECK(report.stopped_early);
    CHECK(t.session.step() == 7);
    // It is behind it already.
    const TrainReport none =
        t.trainer->fit({.steps = 5, .hooks = {StopAtStepHook{.last_step = 6}}});
    CHECK(none.steps == 0);
    CHECK(none.stopped_early);
    // The first of two counts; one behind the end does nothing.
    const TrainReport two = t.trainer->fit(
        {.steps = 3, .hooks = {StopAtStepHook{.last_step = 100}, StopAtStepHook{.last_step = 9}}});
    CHECK(two.steps == 2);
    const TrainReport all =
        t.trainer->fit({.steps = 3, .hooks = {StopAtStepHook{.last_step = 100}}});
    CHECK(all.steps == 3);
    CHECK_FALSE(all.stopped_early);
  }
}

TEST_CASE("LoggingHook writes the numbers of its steps and cuts no launch") {
  const std::vector<double> expected = totals(20);
  for (const int64_t size : kLoopSizes) {
    CAPTURE(size);
    HookedTraining t;
    Lines all, some;
    const TrainReport report = t.trainer->fit(
        {.steps = 20,
         .loop_size = size,
         .hooks = {LoggingHook{.every_n_steps = 7,
                               .write = [&](const std::string& line) { all.push_back(line); }},
                   LoggingHook{.values = {t.twice},
                               .every_n_steps = 10,
                               .write = [&](const std::string& line) { some.push_back(line); }}}});
    CHECK(report.launches == (20 + size - 1) / size);
    REQUIRE(all.size() == 2);
    REQUIRE(some.size() == 2);
    std::ostringstream line;
    line << "step 7: total " << expected[6] << ", twice " << 2 * expected[6];
    CHECK(all[0] == line.str());
    CHECK(all[1].starts_with("step 14: total "));
    CHECK(some[0].starts_with("step 10: twice "));
    CHECK(some[1].starts_with("step 20: twice "));
  }
}

TEST_CASE("LoggingHook by time begins with the first step and goes to the log without a writer") {
  HookedTraining t;
  Lines lines;
  const LogLevel level = log_level();
  set_log_level(LogLevel::kInfo);
  set_log_sink([&](LogLevel of, const std::string& line) {
    if (of == LogLevel::kInfo && line.starts_with("step ")) lines.push_back(line);
  });
  t.trainer->fit({.steps = 30, .loop_size = 10, .hooks = {LoggingHook{.every_seconds = 3600}}});
  set_log_sink({});
  set_log_level(level);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("step 1: total "));
}

TEST_CASE("StepCounterHook writes steps a second") {
  HookedTraining t;
  Lines lines;
  t.trainer->fit(
      {.steps = 25,
       .loop_size = 100,
       .hooks = {StepCounterHook{.every_n_steps = 10, .write = [&](const std::string& line) {
                                   lines.push_back(line);
                                 }}}});
  REQUIRE(lines.size() == 2);
  for (const std::string& line : lines) {
    CAPTURE(line);
    CHECK(line.ends_with(" steps/s"));
    CHECK(std::stod(line.substr(line.find(": ") + 2)) > 0);
  }
  CHECK(lines[1].starts_with("step 20: "));
}

TEST_CASE("CheckpointSaverHook saves at its steps inside of a longer launch") {
  const TempFolder folder;
  HookedTraining t;
  const TrainReport report =
      t.trainer->fit({.steps = 20,
                      .loop_size = 100,
                      .hooks = {CheckpointSaverHook{
                          .folder = folder.file("runs"), .every_n_steps = 7, .keep = 0}}});
  CHECK(report.launches == 3);  // 7, 14, 20
  CHECK(report.checkpoint.last_step == 20);
  std::vector<int64_t> steps;
  for (const CheckpointFile& file : checkpoints_in(folder.file("runs"))) steps.push_back(file.step);
  // One that falls due while another is written is put off to a later launch.
  CHECK(steps.front() == 7);
  CHECK(steps.back() == 20);
  HookedTraining again;
  again.trainer->resume(folder.file("runs"));
  CHECK(again.session.state_sha256() == t.session.state_sha256());
}

TEST_CASE("NanGuardHook ends a training at the first number that is none") {
  for (const int64_t size : kLoopSizes) {
    CAPTURE(size);
    HookedTraining t;
    t.trainer->fit({.steps = 2, .loop_size = size, .hooks = {NanGuardHook{}}});
    t.session.write(t.model.w,
                    Tensor::of<float>({2}, {std::numeric_limits<float>::quiet_NaN(), 1}));
    const std::string error = error_of(
        [&] { t.trainer->fit({.steps = 50, .hooks = {NanGuardHook{.values = {t.twice}}}}); });
    CHECK(contains(error, "NanGuardHook: twice is nan in step 3"));
    CHECK(t.trainer->failed_report().steps >= 1);

    const int64_t step = t.session.step();
    std::string warning;
    set_log_sink([&](LogLevel, const std::string& line) { warning += line + "\n"; });
    const TrainReport stopped =
        t.trainer->fit({.steps = 1000000, .hooks = {NanGuardHook{.fail = false}}});
    set_log_sink({});
    CHECK(stopped.stopped_early);
    CHECK(contains(warning, "total is nan in step " + std::to_string(step + 1)));
  }
}

TEST_CASE("SummaryHook writes a table for every loop size") {
  const std::vector<double> expected = totals(9);
  const TempFolder folder;
  for (const int64_t size : kLoopSizes) {
    CAPTURE(size);
    HookedTraining t;
    const std::string path = folder.file("scalars" + std::to_string(size) + ".csv");
    t.trainer->fit(
        {.steps = 9, .loop_size = size, .hooks = {SummaryHook{.path = path, .every_n_steps = 3}}});
    const Lines lines = lines_of(path);
    REQUIRE(lines.size() == 4);
    CHECK(lines[0] == "step,total,twice");
    for (size_t row = 1; row < 4; ++row) {
      std::istringstream cells(lines[row]);
      double step = 0, total = 0, twice = 0;
      char comma = 0;
      cells >> step >> comma >> total >> comma >> twice;
      CHECK(step == static_cast<double>(row * 3));
      CHECK(total == expected[row * 3 - 1]);
      CHECK(twice == 2 * expected[row * 3 - 1]);
    }
  }
}

TEST_CASE("SummaryHook writes JSON that is whole at any time") {
  const std::vector<double> expected = totals(6);
  const TempFolder folder;
  const std::string path = folder.file("scalars.json");
  HookedTraining t;
  // At each step the rows of those before are there.
  std::vector<size_t> sizes;
  const auto look = [&](int64_t) { sizes.push_back(nlohmann::json::parse(text_of(path)).size()); };
  const SummaryHook summary{.path = path, .values = {t.model.total}};
  t.trainer->fit({.steps = 4, .loop_size = 2, .every_n_steps = {{1, look}}, .hooks = {summary}});
  CHECK(sizes == std::vector<size_t>{1, 2, 3, 4});
  t.trainer->fit({.steps = 2, .hooks = {summary}});
  const nlohmann::json rows = nlohmann::json::parse(text_of(path));
  REQUIRE(rows.size() == 6);
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].at("step") == i + 1);
    CHECK(rows[i].at("total").get<double>() == expected[i]);
    CHECK(rows[i].size() == 2);
  }
}

TEST_CASE("SummaryHook keeps the rows up to the step that a training begins behind") {
  const TempFolder folder;
  for (const std::string ending : {".csv", ".json"}) {
    CAPTURE(ending);
    const std::string path = folder.file("scalars" + ending),
                      saved = folder.file("states" + ending);
    HookedTraining t;
    t.trainer->fit({.steps = 5, .hooks = {SummaryHook{.path = path}}});
    t.trainer->save(saved);
    t.trainer->fit({.steps = 4, .hooks = {SummaryHook{.path = path}}});
    const std::string whole = text_of(path);

    HookedTraining again;
    again.trainer->resume(saved);
    again.trainer->fit({.steps = 4, .hooks = {SummaryHook{.path = path}}});
    CHECK(text_of(path) == whole);
    // A last line that is cut short goes, too.
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 6);
    HookedTraining torn;
    torn.trainer->resume(saved);
    torn.trainer->fit({.steps = 4, .hooks = {SummaryHook{.path = path}}});
    CHECK(text_of(path) == whole);
    // From the beginning: anew.
    HookedTraining fresh;
    fresh.trainer->fit({.steps = 9, .hooks = {SummaryHook{.path = path}}});
    CHECK(text_of(path) == whole);

    const std::string error = error_of([&] {
      fresh.trainer->fit(
          {.steps = 1, .hooks = {SummaryHook{.path = path, .values = {fresh.twice}}}});
    });
    CAPTURE(error);
    CHECK(contains(error, "SummaryHook"));
    CHECK(text_of(path) == whole);
  }
  const std::string other = folder.write("other.csv", "a,b\n1,2\n");
  HookedTraining t;
  CHECK(contains(
      error_of([&] { t.trainer->fit({.steps = 1, .hooks = {SummaryHook{.path = other}}}); }),
      "a new file, or a summary of an earlier run"));
  t.trainer->fit({.steps = 1});
  CHECK(contains(
      error_of([&] { t.trainer->fit({.steps = 1, .hooks = {SummaryHook{.path = other}}}); }),
      "a new file, or a summary of an earlier run"));
  CHECK(text_of(other) == "a,b\n1,2\n");
}

TEST_CASE("two summaries in one file are refused however the file is named") {
  const TempFolder folder;
  const std::string path = folder.file("s.csv");
  std::filesystem::create_symlink(path, folder.file("link.csv"));
  for (const std::string& other : {path, folder.path() + "/./s.csv", folder.file("link.csv")}) {
    CAPTURE(other);
    HookedTraining t;
    CHECK(contains(error_of([&] {
                     t.trainer->fit(
                         {.steps = 1,
                          .hooks = {SummaryHook{.path = path}, SummaryHook{.path = other}}});
                   }),
                   "SummaryHook::path: expected a file of its own"));
  }
}

TEST_CASE("summaries hold numbers that are none") {
  const TempFolder folder;
  const std::string table = folder.file("s.csv"), objects = folder.file("s.json");
  HookedTraining t;
  t.session.write(t.model.w, Tensor::of<float>({2}, {std::numeric_limits<float>::infinity(), 1}));
  t.trainer->fit({.steps = 1, .hooks = {SummaryHook{.path = table}, SummaryHook{.path = objects}}});
  CHECK(lines_of(table).at(1) == "1,inf,inf");
  CHECK(nlohmann::json::parse(text_of(objects)).at(0).at("total").is_null());
}

TEST_CASE("what a hook throws ends the training and is thrown by fit") {
  for (const int64_t size : kLoopSizes) {
    CAPTURE(size);
    HookedTraining t;
    const auto full = [](const std::string&) { throw Error("the paper is out"); };
    CHECK(contains(error_of([&] {
                     t.trainer->fit({.steps = 100000,
                                     .loop_size = size,
                                     .hooks = {LoggingHook{.every_n_steps = 5, .write = full}}});
                   }),
                   "the paper is out"));
    CHECK(t.trainer->failed_report().steps >= 5);
    CHECK(t.trainer->failed_report().steps < 100000);
    CHECK(t.trainer->fit({.steps = 2}).steps == 2);
  }
}

TEST_CASE("hooks run beside the plain ones which come first") {
  HookedTraining t;
  Lines order;
  t.trainer->fit({.steps = 2,
                  .loop_size = 1,
                  .on_step = [&](int64_t, std::span<const double>) { order.push_back("own"); },
                  .hooks = {LoggingHook{.every_n_steps = 1, .write = [&](const std::string&) {
                                          order.push_back("named");
                                        }}}});
  CHECK(order == Lines{"own", "named", "own", "named"});
}

TEST_CASE("hooks that are wrong are refused before the first step") {
  const TempFolder folder;
  const CheckpointSaverHook saver{.folder = folder.file("runs"), .every_n_steps = 2};
  CHECK(contains(fit_refusal({.steps = 1, .hooks = {saver, saver}}), "one that saves checkpoints"));
  CHECK(contains(fit_refusal({.steps = 1,
                              .hooks = {saver},
                              .checkpoint = CheckpointOptions{.folder = folder.file("runs")}}),
                 "TrainOptions::checkpoint"));
  CHECK(contains(fit_refusal({.steps = 1, .hooks = {CheckpointSaverHook{.folder = "runs"}}}),
                 "every_n_steps or every_seconds"));
  CHECK(contains(fit_refusal({.steps = 1, .hooks = {CheckpointSaverHook{.every_n_steps = 1}}}),
                 "folder"));
  CHECK(contains(fit_refusal({.steps = 1, .hooks = {LoggingHook{}}}),
                 "every_n_steps or every_seconds"));
  CHECK(contains(
      fit_refusal({.steps = 1, .hooks = {LoggingHook{.every_n_steps = 1, .every_seconds = 1}}}),
      "LoggingHook"));
  CHECK(contains(fit_refusal({.steps = 1, .hooks = {LoggingHook{.every_n_steps = -1}}}),
                 "LoggingHook"));
  CHECK(contains(fit_refusal({.steps = 1, .hooks = {StepCounterHook{.every_n_steps = 0}}}),
                 "StepCounterHook::every_n_steps"));
  CHECK(contains(fit_refusal({.steps = 1, .hooks = {StopAtStepHook{.last_step = -1}}}),
                 "StopAtStepHook::last_step"));
  CHECK(contains(fit_refusal({.steps = 1, .hooks = {SummaryHook{.path = folder.file("a.txt")}}}),
                 "ends in .csv or .json"));
  CHECK(contains(fit_refusal({.steps = 1, .hooks = {SummaryHook{.path = folder.file("no/a.csv")}}}),
                 "cannot be written"));
  CHECK(contains(
      fit_refusal(
          {.steps = 1, .hooks = {SummaryHook{.path = folder.file("b.csv"), .every_n_steps = 0}}}),
      "SummaryHook::every_n_steps"));
  const TempFolder two;
  const SummaryHook summary{.path = two.file("a.csv")};
  CHECK(contains(fit_refusal({.steps = 1, .hooks = {summary, summary}}), "a file of its own"));
  const HookedTraining other;
  CHECK(contains(fit_refusal({.steps = 1, .hooks = {NanGuardHook{.values = {other.twice}}}}),
                 "NanGuardHook::values"));
  CHECK(contains(fit_refusal({.steps = 1, .last_step = -1}), "last_step"));
  CHECK(folder.empty());
}

}  // namespace

TEST_SUITE_END();
