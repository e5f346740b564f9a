#include <cstdlib>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/trainer.h"

#include "runtime_for_tests.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;

struct HalvingTraining {
  explicit HalvingTraining(int64_t elements = 100000) {
    unsetenv(kLoopSizeVariable);
    feeder = halving_feeder(device("ref"), elements);
  }
  HalvingModel model;
  Session session{model.graph, device("ref")};
  std::shared_ptr<NumberFeeder> feeder;
};

TEST_CASE("trainer runs the steps asked for in launches of the loop size") {
  HalvingTraining f;
  Trainer trainer(
      f.session,
      {.update = f.model.update, .fetches = {f.model.total, f.model.next}, .source = f.feeder});
  std::vector<double> totals;
  TrainReport report = trainer.fit(
      {.steps = 100, .loop_size = 30, .on_step = [&](int64_t step, std::span<const double> m) {
         CHECK(step == static_cast<int64_t>(totals.size()) + 1);
         totals.push_back(m[0]);
       }});
  CHECK(report.steps == 100);
  CHECK(report.launches == 4);
  CHECK(report.seconds > 0);
  CHECK(report.cursor.position == 100);
  HalvingExpectation expected;
  for (const double total : totals) CHECK(total == doctest::Approx(expected.advance()));
  REQUIRE(report.last_metrics.size() == 1);
  CHECK(report.last_metrics[0] == totals.back());
  CHECK(f.session.compiles() == 1);

  report = trainer.fit({.steps = 5});
  CHECK(report.steps == 5);
  CHECK(report.launches == 1);
  CHECK(f.session.step() == 105);
  report = trainer.fit({.steps = 0});
  CHECK(report.launches == 0);
  CHECK(report.last_metrics.empty());
}

TEST_CASE("trainer splits launches at epochs and at every n steps") {
  HalvingTraining f;
  Trainer trainer(f.session,
                  {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
  std::vector<int64_t> epochs;
  std::vector<int64_t> fives;
  std::vector<int64_t> sevens;
  const TrainReport report = trainer.fit({
      .epochs = 2,
      .steps_per_epoch = 12,
      .loop_size = 100,
      .on_epoch_end =
          [&](int64_t epoch) {
            epochs.push_back(epoch);
            CHECK(f.session.step() == epoch * 12);  // the session may be used
            f.session.run({f.model.w});
          },
      .every_n_steps = {{5, [&](int64_t step) { fives.push_back(step); }},
                        {7, [&](int64_t step) { sevens.push_back(step); }}},
  });
  CHECK(epochs == std::vector<int64_t>{1, 2});
  CHECK(fives == std::vector<int64_t>{5, 10, 15, 20});
  CHECK(sevens == std::vector<int64_t>{7, 14, 21});
  CHECK(report.steps == 24);
  CHECK(report.epochs == 2);
  CHECK(report.launches == 9);  // 5 7 10 12 14 15 20 21 24
}

TEST_CASE("trainer counts epochs from the first step") {
  HalvingTraining f;
  Trainer trainer(f.session,
                  {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
  trainer.fit({.steps = 5, .steps_per_epoch = 4, .loop_size = 10});
  std::vector<int64_t> epochs;
  const TrainReport report = trainer.fit(
      {.epochs = 3, .steps_per_epoch = 4, .on_epoch_end = [&](int64_t e) { epochs.push_back(e); }});
  CHECK(report.steps == 7);
  CHECK(epochs == std::vector<int64_t>{2, 3});
  CHECK(trainer.fit({.epochs = 3, .steps_per_epoch = 4}).steps == 0);
}

TEST_CASE("trainer stops early when a hook asks for it") {
  HalvingTraining f;
  Trainer trainer(f.session,
                  {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
  TrainReport report = trainer.fit(
      {.steps = 100, .loop_size = 10, .every_n_steps = {{25, [](int64_t step) {
                                                           return step == 50
                                                                      ? LoopControl::kStop
                                                                      : LoopControl::kContinue;
                                                         }}}});
  CHECK(report.steps == 50);
  CHECK(report.stopped_early);
  CHECK(!report.cancelled);
  report = trainer.fit({.epochs = 100, .steps_per_epoch = 10, .on_epoch_end = [](int64_t epoch) {
                          return epoch == 7 ? LoopControl::kStop : LoopControl::kContinue;
                        }});
  CHECK(f.session.step() == 70);
  report = trainer.fit({.steps = 50000, .on_step = [](int64_t, std::span<const double>) {
                          return LoopControl::kStop;
                        }});
  CHECK(report.stopped_early);
  CHECK(report.steps < 50000);
}

TEST_CASE("trainer stops where the data ends") {
  HalvingTraining f(23);
  Trainer trainer(f.session,
                  {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
  int64_t last = 0;
  const TrainReport report = trainer.fit(
      {.steps = 100, .loop_size = 10, .every_n_steps = {{1, [&](int64_t step) { last = step; }}}});
  CHECK(report.steps == 23);
  CHECK(report.end_of_data);
  CHECK(last == 23);
  CHECK(report.cursor.position == 23);
}

TEST_CASE("trainer can be cancelled at any time") {
  HalvingTraining f;
  Trainer trainer(f.session,
                  {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
  trainer.cancel();
  TrainReport report = trainer.fit({.steps = 10});
  CHECK(report.cancelled);
  CHECK(report.steps == 0);
  report = trainer.fit({.steps = 10, .loop_size = 4});
  CHECK(!report.cancelled);
  CHECK(report.steps == 10);
  report = trainer.fit({.steps = 40, .every_n_steps = {{20, [&](int64_t) { trainer.cancel(); }}}});
  CHECK(report.cancelled);
  CHECK(f.session.step() == 20);
  std::thread other;
  trainer.set_loop_size(70000);
  report = trainer.fit({.steps = 70000, .on_step = [&](int64_t, std::span<const double>) {
                          if (!other.joinable()) other = std::thread([&] { trainer.cancel(); });
                        }});
  other.join();
  CHECK(report.cancelled);
  CHECK(report.steps == f.session.step() - 20);
  CHECK(!trainer.fit({.steps = 3}).cancelled);
}

TEST_CASE("trainer resumes behind a cursor with the same losses") {
  HalvingTraining whole(40);
  std::vector<double> expected;
  Trainer all(
      whole.session,
      {.update = whole.model.update, .fetches = {whole.model.total}, .source = whole.feeder});
  const auto note = [](std::vector<double>& into) {
    return [&into](int64_t, std::span<const double> m) { into.push_back(m[0]); };
  };
  all.fit({.steps = 40, .loop_size = 7, .on_step = note(expected)});

  HalvingTraining f(40);
  std::vector<double> losses;
  Trainer trainer(f.session,
                  {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
  const TrainReport first = trainer.fit({.steps = 17, .loop_size = 5, .on_step = note(losses)});
  CHECK(first.cursor.position == 17);
  const TrainReport second =
      trainer.fit({.steps = 23, .resume_from = first.cursor, .on_step = note(losses)});
  CHECK(second.steps == 23);
  CHECK(f.feeder->opened == 2);
  CHECK(losses == expected);
  CHECK(f.session.state_sha256() == whole.session.state_sha256());
}

TEST_CASE("trainer saves its place and goes on from it") {
  const auto note = [](std::vector<double>& into) {
    return [&into](int64_t, std::span<const double> m) { into.push_back(m[0]); };
  };
  HalvingTraining whole(40);
  std::vector<double> expected;
  Trainer all(
      whole.session,
      {.update = whole.model.update, .fetches = {whole.model.total}, .source = whole.feeder});
  all.fit({.steps = 40, .loop_size = 7, .on_step = note(expected)});

  const keel_test::TempFolder folder;
  const std::string file = folder.file("states");
  for (const int64_t stop : {0, 1, 16, 17, 39, 40}) {
    CAPTURE(stop);
    std::vector<double> losses;
    {
      HalvingTraining f(40);
      Trainer trainer(f.session,
                      {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
      trainer.fit({.steps = stop, .loop_size = 5, .on_step = note(losses)});
      CHECK(trainer.cursor().position == stop);
      trainer.save(file, {{"mine", "kept"}});
    }
    HalvingTraining f(40);
    Trainer trainer(f.session,
                    {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
    trainer.fit({.steps = 3, .loop_size = 5});  // forgotten by the resume
    const auto metadata = trainer.resume(file);
    CHECK(metadata.at("mine") == "kept");
    CHECK(metadata.at("step") == std::to_string(stop));
    CHECK(metadata.at("seed") == "0");
    CHECK(f.session.step() == stop);
    CHECK(trainer.cursor().position == stop);
    trainer.fit({.steps = 40 - stop, .on_step = note(losses)});
    CHECK(losses == expected);
    CHECK(f.session.state_sha256() == whole.session.state_sha256());
  }
}

TEST_CASE("trainer stays as it was where a file cannot be resumed") {
  const keel_test::TempFolder folder;
  HalvingTraining f;
  Trainer trainer(f.session,
                  {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
  trainer.fit({.steps = 4, .loop_size = 2});
  const std::string before = f.session.state_sha256();
  const auto refused = [&](const std::string& file, const std::string& part) {
    CHECK_MESSAGE(contains(error_of([&] { trainer.resume(file); }), part), part);
    CHECK(f.session.state_sha256() == before);
    CHECK(trainer.cursor().position == 4);
  };
  refused(folder.file("nowhere"), "nowhere");
  f.session.save(folder.file("plain"));
  refused(folder.file("plain"), "cursor_epoch");
  f.session.save(folder.file("cursor"),
                 {{"cursor_epoch", "0"}, {"cursor_position", "-3"}, {"cursor_key", "0"}});
  refused(folder.file("cursor"), "-3");

  Graph other;
  const Value x = other.input("x", f32, {1, 2});
  const Value w = other.state("v", zeros({2}));
  Update update;
  update.assignments.push_back({w, w + sum(x, {0})});
  Session session(other, device("ref"));
  Trainer stranger(session, {.update = update, .source = halving_feeder(device("ref"), 10)});
  stranger.save(folder.file("other"));
  refused(folder.file("other"), "'v' is not in the graph");

  // And goes on with the next element.
  const TrainReport report = trainer.fit({.steps = 1});
  CHECK(report.cursor.position == 5);
}

TEST_CASE("trainer opens a feeder that is not open") {
  HalvingModel m;
  Session session(m.graph, device("ref"));
  auto feeder = std::make_shared<NumberFeeder>(
      device("ref"), halving_element(), [](int64_t, const std::vector<void*>&) { return true; });
  CHECK(contains(error_of([&] { session.sink({.update = m.update, .source = feeder}); }),
                 "not open"));
  Trainer trainer(session, {.update = m.update, .source = feeder});
  CHECK(feeder->opened == 1);
  CHECK(trainer.fit({.steps = 3}).steps == 3);
}

TEST_CASE("trainer refuses wrong options and stays as it was") {
  HalvingTraining f;
  Trainer trainer(f.session,
                  {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
  const auto refused = [&](const TrainOptions& options) {
    std::string text;
    try {
      trainer.fit(options);
    } catch (const Error& error) {
      CHECK(error.info().kind == ErrorKind::kInvalidArgument);
      text = error.what();
    }
    CHECK(f.session.step() == 0);
    return text;
  };
  CHECK(contains(refused({}), "got neither"));
  CHECK(contains(refused({.steps = 1, .epochs = 1, .steps_per_epoch = 1}), "got both"));
  CHECK(contains(refused({.steps = -1}), "steps: expected at least 0"));
  CHECK(contains(refused({.epochs = 1}), "steps_per_epoch: expected at least 1"));
  CHECK(contains(refused({.steps = 1, .on_epoch_end = [](int64_t) {}}), "steps_per_epoch"));
  CHECK(contains(refused({.steps = 1, .every_n_steps = {{0, {}}}}), "every_n_steps"));
  CHECK(contains(refused({.steps = 1, .loop_size = 0}), "at least 1, got 0"));
  setenv(kLoopSizeVariable, "ten", 1);
  CHECK(contains(refused({.steps = 1}), kLoopSizeVariable));
  unsetenv(kLoopSizeVariable);
  CHECK(contains(error_of([&] { Trainer(f.session, {.update = f.model.update}); }), "feeder"));
  CHECK(contains(
      error_of([&] { Trainer(f.session, {.fetches = {f.model.total}, .source = f.feeder}); }),
      "update"));
}

TEST_CASE("trainer refuses a loop size that contradicts the session's") {
  HalvingModel m;
  Session session(m.graph, device("ref"), {.loop_size = 10});
  Trainer trainer(
      session,
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(device("ref"), 1000)});
  const std::string error = error_of([&] { trainer.fit({.steps = 20, .loop_size = 5}); });
  CHECK(contains(error, "LOOP_SIZE_MISMATCH: SessionOptions::loop_size says 10"));
  CHECK(contains(error, "TrainOptions::loop_size says 5"));
  CHECK(trainer.fit({.steps = 20}).launches == 2);
  trainer.set_loop_size(4);
  CHECK(trainer.fit({.steps = 20}).launches == 5);
  CHECK(!error_of([&] { trainer.set_loop_size(0); }).empty());
  CHECK(trainer.fit({.steps = 20}).launches == 5);
  // From the next launch on, also in the middle of a fit.
  const TrainReport report = trainer.fit(
      {.steps = 20, .every_n_steps = {{8, [&](int64_t) { trainer.set_loop_size(20); }}}});
  CHECK(report.steps == 20);
  CHECK(session.compiles() == 1);
}

// Every way to say the loop size twice, and none of them wins in silence.
TEST_CASE("trainer refuses two loop sizes and a loop size beside a tuner") {
  const std::string mismatch = "LOOP_SIZE_MISMATCH: ";
  struct Row {
    const char* what;
    std::optional<int64_t> session;  // SessionOptions::loop_size
    TrainOptions first, second;      // of two fits
    std::string error;               // of the second
  };
  const std::optional<LoopTuner> tuner = LoopTuner::plateau();
  const Row rows[] = {
      {"a second fit with another size",
       {},
       {.steps = 10, .loop_size = 5},
       {.steps = 10, .loop_size = 2},
       mismatch + "TrainOptions::loop_size says 5 and TrainOptions::loop_size says 2"},
      {"a fit with another size than the session's",
       4,
       {.steps = 10},
       {.steps = 10, .loop_size = 2},
       mismatch + "SessionOptions::loop_size says 4 and TrainOptions::loop_size says 2"},
      {"a size and a tuner in one fit",
       {},
       {.steps = 10},
       {.steps = 10, .loop_size = 2, .loop_tuner = tuner},
       mismatch + "TrainOptions::loop_size says 2 and TrainOptions::loop_tuner"},
      {"a tuner behind a fit with a size",
       {},
       {.steps = 10, .loop_size = 5},
       {.steps = 10, .loop_tuner = tuner},
       mismatch + "TrainOptions::loop_size says 5 and TrainOptions::loop_tuner"},
      {"a tuner in a session with a size",
       4,
       {.steps = 10},
       {.steps = 10, .loop_tuner = tuner},
       mismatch + "SessionOptions::loop_size says 4 and TrainOptions::loop_tuner"},
      {"a size below 1",
       {},
       {.steps = 10},
       {.steps = 10, .loop_size = 0},
       "expected a loop size of at least 1, got 0"},
      {"the same size twice", 5, {.steps = 10, .loop_size = 5}, {.steps = 10, .loop_size = 5}, ""},
      {"a tuner twice",
       {},
       {.steps = 10, .loop_tuner = tuner},
       {.steps = 10, .loop_tuner = tuner},
       ""},
  };
  unsetenv(kLoopSizeVariable);
  for (const Row& row : rows) {
    CAPTURE(row.what);
    HalvingModel m;
    Session session(m.graph, device("ref"), {.loop_size = row.session});
    Trainer trainer(
        session,
        {.update = m.update, .fetches = {m.total}, .source = halving_feeder(device("ref"), 1000)});
    trainer.fit(row.first);
    const int64_t size = session.loop_size().value();
    const std::string error = error_of([&] { trainer.fit(row.second); });
    CHECK_MESSAGE(contains(error, row.error), error);
    CHECK(error.empty() == row.error.empty());
    CHECK(session.step() == (row.error.empty() ? 20 : 10));
    CHECK(session.loop_size().value() == size);
  }
}

TEST_CASE("trainer: a hook that sets the loop size of a tuned fit ends it") {
  HalvingTraining f;
  Trainer trainer(f.session,
                  {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
  const std::string error = error_of([&] {
    trainer.fit({.steps = 20,
                 .loop_tuner = LoopTuner::plateau(),
                 .every_n_steps = {{8, [&](int64_t) { trainer.set_loop_size(3); }}}});
  });
  CHECK(contains(error, "LOOP_SIZE_MISMATCH: set_loop_size says 3"));
  CHECK(f.session.step() == 8);
}

// The real system may miss such steps; here a launch is cut short at each of them.
TEST_CASE("trainer: steps that are no multiples of the loop size are no conflict") {
  for (const int64_t loop_size : {1, 4, 10, 100}) {
    CAPTURE(loop_size);
    HalvingTraining f;
    Trainer trainer(f.session,
                    {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
    std::vector<int64_t> seen;
    const TrainReport report =
        trainer.fit({.steps = 25, .loop_size = loop_size, .every_n_steps = {{7, [&](int64_t step) {
                                                                               seen.push_back(step);
                                                                             }}}});
    CHECK(seen == std::vector<int64_t>{7, 14, 21});
    CHECK(report.steps == 25);
    CHECK(report.loop_size == loop_size);
  }
}

TEST_CASE("trainer passes on what hooks throw and says how far it came") {
  HalvingTraining f;
  Trainer trainer(f.session,
                  {.update = f.model.update, .fetches = {f.model.total}, .source = f.feeder});
  struct Mine {};
  CHECK_THROWS_AS(
      trainer.fit(
          {.steps = 50, .loop_size = 10, .every_n_steps = {{20, [](int64_t) { throw Mine{}; }}}}),
      Mine);
  CHECK(trainer.failed_report().steps == 20);
  CHECK_THROWS_AS(trainer.fit({.steps = 50,
                               .on_step =
                                   [](int64_t step, std::span<const double>) {
                                     if (step == 33) throw Mine{};
                                   }}),
                  Mine);
  CHECK(f.session.step() == 20 + trainer.failed_report().steps);
  CHECK(trainer.fit({.steps = 2}).steps == 2);
}

}  // namespace

TEST_SUITE_END();
