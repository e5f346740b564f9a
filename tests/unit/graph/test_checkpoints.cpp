// Checkpoints of a Trainer: when they are written, which files stay, what an error of writing
// leads to, and that going on from one is going on.
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <thread>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "keel/backends/registry.h"
#include "keel/core/base/file.h"
#include "keel/graph/runtime/checkpoint_files.h"
#include "keel/graph/runtime/safetensors.h"
#include "keel/graph/runtime/trainer.h"

#include "runtime_for_tests.h"
#include "support/logged_warnings.h"
#include "support/safetensors_bytes.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::LoggedWarnings;
using keel_test::names_in;
using keel_test::TempFolder;
namespace fs = std::filesystem;

struct CheckpointedTraining {
  HalvingModel model;
  Session session{model.graph, device("ref")};
  std::shared_ptr<NumberFeeder> feeder = halving_feeder(device("ref"), 1 << 30);
  Trainer trainer{session, {.update = model.update, .fetches = {model.total}, .source = feeder}};
};

// Each one is written, so that the files depend on no clock.
CheckpointOptions every(int64_t n, const std::string& folder) {
  return {.folder = folder, .every_n_steps = n, .waits_for_writer = true};
}

std::vector<int64_t> steps_in(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const CheckpointFile& file : checkpoints_in(folder)) steps.push_back(file.step);
  return steps;
}

using Steps = std::vector<int64_t>;

// What a training of so many steps ends with if nothing happens.
std::string sha_after(int64_t steps) {
  CheckpointedTraining t;
  t.trainer.fit({.steps = steps, .loop_size = 7});
  return t.session.state_sha256();
}

}  // namespace

TEST_CASE("checkpoints: the newest stay and are called by their steps") {
  const TempFolder folder;
  const std::string at = folder.file("a/b");
  CheckpointedTraining t;
  const TrainReport report =
      t.trainer.fit({.steps = 47, .loop_size = 100, .checkpoint = every(10, at)});
  CHECK(steps_in(at) == Steps{30, 40, 47});
  CHECK(names_in(at) == std::vector<std::string>{"step-0000000030.safetensors",
                                                 "step-0000000040.safetensors",
                                                 "step-0000000047.safetensors"});
  CHECK(report.steps == 47);
  CHECK(report.launches == 5);
  CHECK_FALSE(report.stopped_early);
  CHECK_FALSE(report.cancelled);
  CHECK(report.checkpoint.saved == 5);
  CHECK(report.checkpoint.failed == 0);
  CHECK(report.checkpoint.last_step == 47);
  CHECK(report.checkpoint.last_file == checkpoint_path(at, 47));
  // The same trainer goes on in its folder; a step that is there is not written again.
  CHECK(t.trainer.fit({.steps = 0, .checkpoint = every(10, at)}).checkpoint.saved == 0);
  CheckpointOptions all = every(2, at);
  all.keep = 0;
  t.trainer.fit({.steps = 6, .checkpoint = all});
  CHECK(steps_in(at) == Steps{30, 40, 47, 48, 50, 52, 53});
  CHECK(t.session.state_sha256() == sha_after(53));
}

TEST_CASE("checkpoints: a file holds all that a training goes on from") {
  const TempFolder folder;
  CheckpointedTraining t;
  CheckpointOptions options = every(5, folder.path());
  options.metadata = [&] {
    return std::map<std::string, std::string>{{"run", R"({"lr":0.5})"},
                                              {"at", std::to_string(t.session.step())}};
  };
  t.trainer.fit({.steps = 5, .checkpoint = options});
  const Safetensors file = read_safetensors(checkpoint_path(folder.path(), 5));
  CHECK(file.has_checksums);
  CHECK(file.metadata.at("run") == R"({"lr":0.5})");
  CHECK(file.metadata.at("at") == "5");
  CHECK(file.metadata.at("step") == "5");
  CHECK(file.metadata.at("updates") == "5");
  CHECK(file.metadata.at("seed") == "0");
  CHECK(file.metadata.at("cursor_epoch") == "0");
  CHECK(file.metadata.at("cursor_position") == "5");
  CHECK(file.metadata.at("cursor_key") == "0");
  CHECK(file.metadata.at("backend") == "ref");
  CHECK(file.metadata.contains("isa"));
  HalvingExpectation expected;
  for (int i = 0; i < 5; ++i) expected.advance();
  CHECK(file.tensors.at("w").at(0) == expected.first);
  CHECK(file.tensors.at("w").at(1) == expected.second);
}

TEST_CASE("checkpoints: going on from each file ends with the same bits") {
  const TempFolder folder;
  CheckpointOptions options = every(3, folder.path());
  options.keep = 0;
  CheckpointedTraining first;
  first.trainer.fit({.steps = 20, .checkpoint = options});
  const std::string whole = sha_after(30);
  for (const CheckpointFile& file : checkpoints_in(folder.path())) {
    CAPTURE(file.step);
    CheckpointedTraining t;
    t.trainer.resume(file.path);
    CHECK(t.session.step() == file.step);
    t.trainer.fit({.steps = 30 - file.step});
    CHECK(t.session.state_sha256() == whole);
  }
  // Of a folder it is the newest.
  CheckpointedTraining t;
  t.trainer.resume(folder.path());
  CHECK(t.session.step() == 20);
}

TEST_CASE("checkpoints: the best stays beside the newest") {
  const TempFolder folder;
  CheckpointOptions options = every(0, folder.path());
  options.keep = 1;
  options.keep_best = true;
  CheckpointedTraining t;
  std::vector<double> values = {1, 5, 4, 6, 2, 3};
  size_t measured = 0;
  ValidationOptions validation{.measure = [&] { return values.at(measured++); },
                               .every_n_steps = 10};
  const TrainReport report =
      t.trainer.fit({.steps = 60, .validation = validation, .checkpoint = options});
  CHECK(report.best->step == 40);
  CHECK(steps_in(folder.path()) == Steps{40, 60});
  CHECK(report.checkpoint.best_file == checkpoint_path(folder.path(), 40));
  CHECK(report.checkpoint.saved == 4);  // steps 10, 20, 40 and the end

  // A resumed training that finds no better one ends with the states of that file.
  values = {1, 1};
  measured = 0;
  validation.keep_best = true;
  validation.best_before = ValidationBest{.value = 6, .step = 40, .since = 2};
  CheckpointedTraining later;
  later.trainer.resume(folder.path());
  const TrainReport kept =
      later.trainer.fit({.steps = 20, .validation = validation, .checkpoint = options});
  CHECK(kept.kept_best);
  CHECK(later.session.step() == 40);
  CHECK(later.session.state_sha256() == sha_after(40));
  CHECK(later.trainer.cursor().position == 40);
  // The last file is of the training's end all the same.
  CHECK(steps_in(folder.path()) == Steps{40, 80});
  CHECK(kept.checkpoint.best_file == checkpoint_path(folder.path(), 40));
}

TEST_CASE("checkpoints: a best whose writing failed is tried again as the best whatever failed") {
  const TempFolder folder;
  std::vector<std::string> errors;
  CheckpointOptions options = every(0, folder.path());
  options.keep_best = true;
  options.on_failure = [&](const Error& error) { errors.emplace_back(error.what()); };
  bool failed = false;
  options.before_write = [&](int64_t step) {
    if (step == 40 && !std::exchange(failed, true)) throw 1;
  };
  CheckpointedTraining t;
  const std::vector<double> values = {1, 5, 4, 6};
  size_t measured = 0;
  const ValidationOptions validation{.measure = [&] { return values.at(measured++); },
                                     .every_n_steps = 10};
  const TrainReport report =
      t.trainer.fit({.steps = 40, .validation = validation, .checkpoint = options});
  REQUIRE(errors.size() == 1);
  CHECK_MESSAGE(contains(errors[0], "threw no std::exception"), errors[0]);
  CHECK(report.checkpoint.failed == 1);
  CHECK(report.checkpoint.best_file == checkpoint_path(folder.path(), 40));
  CHECK(steps_in(folder.path()) == Steps{10, 20, 40});
}

TEST_CASE("checkpoints: by time a launch of any size is cut short and nothing else changes") {
  const TempFolder folder;
  CheckpointOptions options{
      .folder = folder.path(), .every_seconds = 1e-9, .keep = 0, .waits_for_writer = true};
  CheckpointedTraining t;
  std::vector<int64_t> seen;
  const TrainReport report = t.trainer.fit(
      {.steps = 3000,
       .loop_size = 1000000,
       .on_step = [&](int64_t step, std::span<const double>) { seen.push_back(step); },
       .checkpoint = options});
  CHECK(report.steps == 3000);
  CHECK_FALSE(report.cancelled);
  CHECK_FALSE(report.stopped_early);
  CHECK(report.launches > 1);
  CHECK(report.checkpoint.saved == static_cast<int64_t>(steps_in(folder.path()).size()));
  REQUIRE(seen.size() == 3000);
  for (size_t i = 0; i < seen.size(); ++i) REQUIRE(seen[i] == static_cast<int64_t>(i) + 1);
  CHECK(t.session.state_sha256() == sha_after(3000));
}

TEST_CASE("checkpoints: one that falls due during a write is put off and the training goes on") {
  const TempFolder folder;
  std::atomic<bool> free{false};
  std::atomic<int64_t> begun{0};
  CheckpointOptions options{.folder = folder.path(), .every_n_steps = 10, .keep = 0};
  options.before_write = [&](int64_t step) {
    begun = step;
    while (!free) std::this_thread::yield();
  };
  CheckpointedTraining t;
  const TrainReport report =
      t.trainer.fit({.steps = 60,
                     .every_n_steps = {{10,
                                        [&](int64_t step) {
                                          // The first is being written from step 10 to behind
                                          // step 40.
                                          if (step == 40) {
                                            while (begun == 0) std::this_thread::yield();
                                            CHECK(begun == 10);
                                            CHECK(steps_in(folder.path()).empty());
                                            free = true;
                                          }
                                          while (step == 50 && steps_in(folder.path()).empty())
                                            std::this_thread::yield();
                                        }}},
                     .checkpoint = options});
  const Steps steps = steps_in(folder.path());
  CHECK(steps.front() == 10);
  CHECK(steps.back() == 60);
  for (const int64_t never : {20, 30})
    CHECK(std::find(steps.begin(), steps.end(), never) == steps.end());
  CHECK(report.checkpoint.saved == static_cast<int64_t>(steps.size()));
}

TEST_CASE("checkpoints: a folder of another training is refused and the own one is gone on with") {
  const TempFolder folder;
  CheckpointedTraining first;
  CheckpointOptions options = every(10, folder.path());
  options.keep = 0;
  first.trainer.fit({.steps = 40, .checkpoint = options});
  CheckpointedTraining stranger;
  const std::string error =
      error_of([&] { stranger.trainer.fit({.steps = 5, .checkpoint = options}); });
  CHECK_MESSAGE(contains(error, folder.path() + ": holds the checkpoints of another training"),
                error);
  CHECK(contains(error, "up to step 40"));
  CHECK(stranger.session.step() == 0);

  // Files behind the one that is resumed go with the first that is written, and not before.
  CheckpointedTraining back;
  back.trainer.resume(checkpoint_path(folder.path(), 20));
  back.trainer.fit({.steps = 0, .checkpoint = options});
  CHECK(steps_in(folder.path()) == Steps{10, 20, 30, 40});
  back.trainer.fit({.steps = 5, .checkpoint = options});
  CHECK(steps_in(folder.path()) == Steps{10, 20, 25});

  // Two at a time.
  CheckpointedTraining both;
  both.trainer.resume(folder.path());
  options.metadata = [&]() -> std::map<std::string, std::string> {
    const std::string second =
        error_of([&] { back.trainer.fit({.steps = 1, .checkpoint = every(1, folder.path())}); });
    CHECK_MESSAGE(contains(second, "another training writes to it"), second);
    return {};
  };
  both.trainer.fit({.steps = 1, .checkpoint = options});
  CHECK(steps_in(folder.path()) == Steps{10, 20, 25, 26});
}

TEST_CASE("checkpoints: what a killed save left is cleaned and never resumed") {
  const TempFolder folder;
  CheckpointedTraining first;
  first.trainer.fit({.steps = 10, .checkpoint = every(5, folder.path())});
  // No process has the largest number that there can be.
  folder.write(".step-0000000099.safetensors.2147483647.0.keel-tmp", "half a file");
  folder.write("step-99.safetensors", "another's");
  folder.write("step-0000000098.safetensors.part", "another's");
  fs::create_directory(folder.file("step-0000000097.safetensors"));
  CHECK(steps_in(folder.path()) == Steps{5, 10});
  CheckpointedTraining t;
  t.trainer.resume(folder.path());
  CHECK(t.session.step() == 10);
  t.trainer.fit({.steps = 5, .checkpoint = every(5, folder.path())});
  const auto names = names_in(folder.path());
  CHECK(std::find(names.begin(), names.end(),
                  ".step-0000000099.safetensors.2147483647.0.keel-tmp") == names.end());
  CHECK(fs::exists(folder.file("step-99.safetensors")));
  CHECK(t.session.state_sha256() == sha_after(15));
}

TEST_CASE("checkpoints: a damaged newest file is an error that names it and the one before") {
  const TempFolder folder;
  CheckpointedTraining first;
  first.trainer.fit({.steps = 30, .checkpoint = every(10, folder.path())});
  const std::string newest = checkpoint_path(folder.path(), 30);
  const std::string middle = checkpoint_path(folder.path(), 20);
  const auto damage = [](const std::string& path) {
    std::string bytes = read_file(path, 1 << 20);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
  };
  const auto resumed = [&] {
    CheckpointedTraining t;
    const std::string before = t.session.state_sha256();
    const std::string error = error_of([&] { t.trainer.resume(folder.path()); });
    CHECK(t.session.state_sha256() == before);
    return error;
  };
  const std::string bytes = read_file(newest, 1 << 20);
  damage(newest);
  std::string error = resumed();
  CHECK_MESSAGE(contains(error, newest), error);
  CHECK_MESSAGE(contains(error, "checksum"), error);
  CHECK_MESSAGE(contains(error, "is " + middle + ", of step 20"), error);
  damage(middle);
  CHECK_MESSAGE(contains(resumed(), checkpoint_path(folder.path(), 10) + ", of step 10"), error);
  damage(checkpoint_path(folder.path(), 10));
  error = resumed();
  CHECK_MESSAGE(contains(error, "no whole one before it"), error);
  // A file under another step's name.
  std::ofstream(checkpoint_path(folder.path(), 31), std::ios::binary) << bytes;
  error = resumed();
  CHECK_MESSAGE(contains(error, "expected step 31, as its name says, got 30"), error);
  CHECK(contains(error_of([&] { checkpoint_to_resume(folder.file("")); }), folder.path()));
  const TempFolder empty;
  CHECK(contains(error_of([&] { checkpoint_to_resume(empty.path()); }), "no checkpoint"));
  CHECK(checkpoint_to_resume(folder.file("some file")) == folder.file("some file"));
}

TEST_CASE("checkpoints: every flipped bit of one is an error that names the file") {
  const TempFolder folder;
  CheckpointedTraining first;
  first.trainer.fit({.steps = 3, .checkpoint = every(3, folder.path())});
  const std::string path = checkpoint_path(folder.path(), 3);
  const std::string whole = read_file(path, 1 << 20);
  CheckpointedTraining t;
  const std::string before = t.session.state_sha256();
  std::string changed = whole;
  size_t accepted = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(path, std::ios::binary) << changed;
    if (!contains(error_of([&] { t.trainer.resume(folder.path()); }), path)) ++accepted;
    changed[bit / 8] = whole[bit / 8];
  }
  MESSAGE(8 * whole.size() << " bits flipped, " << accepted << " accepted");
  CHECK(accepted == 0);
  CHECK(t.session.state_sha256() == before);
  for (size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, length);
    if (!contains(error_of([&] { t.trainer.resume(path); }), path)) ++accepted;
  }
  CHECK(accepted == 0);
  std::ofstream(path, std::ios::binary) << whole;
  t.trainer.resume(folder.path());
  CHECK(t.session.step() == 3);
}

TEST_CASE("checkpoints: errors of saving are told and the training goes on with its older files") {
  const TempFolder folder;
  std::vector<std::string> errors;
  CheckpointOptions options = every(10, folder.path());
  options.on_failure = [&](const Error& error) { errors.emplace_back(error.what()); };
  const std::string blocked = checkpoint_path(folder.path(), 30);
  fs::create_directories(blocked + "/in the way");
  CheckpointedTraining t;
  const TrainReport report = t.trainer.fit({.steps = 50, .checkpoint = options});
  CHECK(report.steps == 50);
  CHECK(report.checkpoint.saved == 4);
  CHECK(report.checkpoint.failed == 1);
  REQUIRE(errors.size() == 1);
  CHECK_MESSAGE(contains(errors[0], blocked + ": expected a regular file"), errors[0]);
  CHECK(steps_in(folder.path()) == Steps{20, 40, 50});
  CHECK(t.session.state_sha256() == sha_after(50));
}

TEST_CASE("checkpoints: without a callback the log warns") {
  const TempFolder folder;
  fs::create_directory(checkpoint_path(folder.path(), 10));
  const LoggedWarnings warnings;
  CheckpointedTraining t;
  CHECK(t.trainer.fit({.steps = 20, .checkpoint = every(10, folder.path())}).steps == 20);
  CHECK_MESSAGE(contains(warnings.text(), "step-0000000010.safetensors: expected a regular file"),
                warnings.text());
  CHECK(contains(warnings.text(), "the training goes on"));
}

TEST_CASE("checkpoints: an error of saving stops the training where it is asked to") {
  const TempFolder folder;
  fs::create_directory(checkpoint_path(folder.path(), 20));
  for (const bool waits : {true, false}) {
    CAPTURE(waits);
    CheckpointOptions options = every(10, folder.path());
    options.on_error = OnSaveError::kStop;
    options.waits_for_writer = waits;
    options.before_write = [&](int64_t step) {
      if (step > 10) throw std::runtime_error("no room for metrics");
    };
    CheckpointedTraining t;
    const std::string error = error_of(
        [&] { t.trainer.fit({.steps = 1 << 20, .loop_size = 1 << 20, .checkpoint = options}); });
    CHECK_MESSAGE(contains(error, "is not written: no room for metrics"), error);
    const TrainReport& report = t.trainer.failed_report();
    CHECK(report.steps < 1 << 20);
    CHECK(report.checkpoint.saved == 1);
    CHECK(report.checkpoint.failed == 1);
    CHECK(steps_in(folder.path()) == Steps{10});
    // The states are those of a whole step, and can be saved and trained on.
    const int64_t step = t.session.step();
    CHECK(step == report.steps);
    t.trainer.fit({.steps = 3});
    CHECK(t.session.state_sha256() == sha_after(step + 3));
    fs::remove(checkpoint_path(folder.path(), 10));
  }
}

TEST_CASE("checkpoints: a file that may not grow so far is reported and leaves nothing behind") {
  const TempFolder folder;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  std::vector<std::string> errors;
  CheckpointOptions options = every(10, folder.path());
  options.on_failure = [&](const Error& error) { errors.emplace_back(error.what()); };
  // As a disk that is full from step 20 to 40.
  options.before_write = [&](int64_t step) {
    const rlimit limit{step >= 20 && step <= 40 ? 100 : before.rlim_cur, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  CheckpointedTraining t;
  const TrainReport report = t.trainer.fit({.steps = 60, .checkpoint = options});
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(report.checkpoint.saved == 3);
  CHECK(report.checkpoint.failed == 3);
  REQUIRE(errors.size() == 3);
  CHECK_MESSAGE(contains(errors[0], "step-0000000020.safetensors: cannot write: File too large"),
                errors[0]);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"step-0000000010.safetensors",
                                                            "step-0000000050.safetensors",
                                                            "step-0000000060.safetensors"});
  CHECK(t.session.state_sha256() == sha_after(60));
}

TEST_CASE("checkpoints: a folder that goes away and comes back") {
  const TempFolder folder;
  const std::string at = folder.file("runs");
  std::vector<std::string> errors;
  CheckpointOptions options = every(10, at);
  options.on_failure = [&](const Error& error) { errors.emplace_back(error.what()); };
  // On the writing thread, and so behind the file of step 20.
  options.before_write = [&](int64_t step) {
    if (step == 30) fs::create_directory(at);
  };
  CheckpointedTraining t;
  t.trainer.fit({.steps = 10, .checkpoint = options});
  t.trainer.fit({.steps = 30,
                 .every_n_steps = {{10,
                                    [&](int64_t step) {
                                      if (step == 20) fs::remove_all(at);
                                    }}},
                 .checkpoint = options});
  REQUIRE(errors.size() == 1);
  CHECK_MESSAGE(contains(errors[0], "cannot write: No such file or directory"), errors[0]);
  CHECK(steps_in(at) == Steps{30, 40});
}

TEST_CASE("checkpoints: states that are no numbers replace no others") {
  const TempFolder folder;
  std::vector<std::string> errors;
  CheckpointOptions options = every(10, folder.path());
  options.keep = 1;
  options.on_failure = [&](const Error& error) { errors.emplace_back(error.what()); };
  CheckpointedTraining t;
  const auto spoil = [&](int64_t step) {
    if (step == 20) t.session.write(t.model.w, Tensor::of<float>({2}, {1, std::nanf("")}));
  };
  t.trainer.fit({.steps = 30, .every_n_steps = {{10, spoil}}, .checkpoint = options});
  CHECK(steps_in(folder.path()) == Steps{10});
  REQUIRE(errors.size() == 3);  // of steps 20 and 30, and of the end, which tries once more
  CHECK_MESSAGE(contains(errors[0], "step-0000000020.safetensors: state 'w'"), errors[0]);
  CHECK_MESSAGE(contains(errors[0], "element 1 is NaN"), errors[0]);
  options.allow_non_finite = true;
  t.trainer.fit({.steps = 10, .checkpoint = options});
  CHECK(steps_in(folder.path()) == Steps{40});
}

TEST_CASE("checkpoints: a training that fails or is cancelled is saved where it ends") {
  const TempFolder folder;
  CheckpointedTraining t;
  CHECK(contains(error_of([&] {
                   t.trainer.fit({.steps = 100,
                                  .loop_size = 1,
                                  .on_step =
                                      [&](int64_t step, std::span<const double>) {
                                        if (step == 17) throw Error("the user's own");
                                      },
                                  .checkpoint = every(10, folder.path())});
                 }),
                 "the user's own"));
  CHECK(steps_in(folder.path()) == Steps{10, 17});
  CHECK(t.trainer.failed_report().checkpoint.saved == 2);
  CheckpointedTraining again;
  again.trainer.resume(folder.path());
  const TrainReport report = again.trainer.fit({.steps = 100,
                                                .loop_size = 1,
                                                .on_step =
                                                    [&](int64_t step, std::span<const double>) {
                                                      if (step == 23) again.trainer.cancel();
                                                    },
                                                .checkpoint = every(10, folder.path())});
  CHECK(report.cancelled);
  const int64_t end = again.session.step();
  CHECK(steps_in(folder.path()).back() == end);
  CheckpointedTraining last;
  last.trainer.resume(folder.path());
  last.trainer.fit({.steps = 40 - end});
  CHECK(last.session.state_sha256() == sha_after(40));
}

TEST_CASE("checkpoints: wrong options are refused before anything is done") {
  const TempFolder folder;
  CheckpointedTraining t;
  const auto refused = [&](CheckpointOptions options) {
    return error_of([&] { t.trainer.fit({.steps = 3, .checkpoint = std::move(options)}); });
  };
  const std::string at = folder.file("new");
  CHECK(contains(refused({}), "checkpoint.folder"));
  CHECK(contains(refused({.folder = at, .every_n_steps = -1}), "checkpoint.every_n_steps"));
  CHECK(contains(refused({.folder = at, .every_seconds = -1}), "checkpoint.every_seconds"));
  CHECK(contains(refused({.folder = at, .every_seconds = std::nan("")}), "every_seconds"));
  CHECK(contains(refused({.folder = at, .keep = -1}), "checkpoint.keep"));
  CHECK(contains(refused({.folder = at, .keep_best = true}), "checkpoint.keep_best"));
  CHECK_FALSE(fs::exists(at));
  const std::string file = folder.write("file", "x");
  CHECK(contains(refused({.folder = file}), file + ": expected a folder, got a file"));
  CHECK(contains(refused({.folder = file + "/below"}), file));
  CHECK(t.session.step() == 0);
}

TEST_CASE("checkpoints: another machine's file is resumed with a warning") {
  const TempFolder folder;
  CheckpointedTraining first;
  first.trainer.save(folder.file("here"));
  const std::string here = read_file(folder.file("here"), 1 << 20);
  const std::string there =
      keel_test::with_right_checksums(keel_test::replaced(here, "\"ref\"", "\"npu\""));
  folder.write("there", there);
  CheckpointedTraining t;
  {
    const LoggedWarnings warnings;
    t.trainer.resume(folder.file("here"));
    CHECK(warnings.text().empty());
  }
  const LoggedWarnings warnings;
  t.trainer.resume(folder.file("there"));
  CHECK_MESSAGE(contains(warnings.text(), "was trained on npu"), warnings.text());
  CHECK_MESSAGE(contains(warnings.text(), "this is ref"), warnings.text());
}

TEST_SUITE_END();
