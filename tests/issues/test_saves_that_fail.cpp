// A save that failed had already removed the files that the training had left behind when an older
// one of it was resumed; and nothing saw that files go only when the new one is there.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/checkpoint_files.h"
#include "keel/graph/runtime/trainer.h"

#include "support/error_of.h"
#include "support/temp_folder.h"
#include "unit/runtime_for_tests.h"

TEST_SUITE_BEGIN("issues");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::names_in;
using keel_test::TempFolder;

using Steps = std::vector<int64_t>;

struct SavedTraining {
  HalvingModel model;
  Session session{model.graph, device("ref")};
  std::shared_ptr<NumberFeeder> feeder = halving_feeder(device("ref"), 1 << 30);
  Trainer trainer{session, {.update = model.update, .fetches = {model.total}, .source = feeder}};
};

CheckpointOptions checkpoints(int64_t every, int64_t keep, const TempFolder& folder) {
  return {.folder = folder.path(), .every_n_steps = every, .keep = keep, .waits_for_writer = true};
}

Steps saved_steps(const TempFolder& folder) {
  Steps steps;
  for (const CheckpointFile& file : checkpoints_in(folder.path())) steps.push_back(file.step);
  return steps;
}

// While it lives no file may grow over 100 bytes from one step on and before another, as on a disk
// that is full.
class FullDisk {
 public:
  FullDisk(CheckpointOptions& options, int64_t from, int64_t before) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &usual_) == 0);
    options.before_write = [=, this](int64_t step) {
      const rlimit limit{step >= from && step < before ? 100 : usual_.rlim_cur, usual_.rlim_max};
      setrlimit(RLIMIT_FSIZE, &limit);
    };
    options.on_failure = [this](const Error& error) { errors.emplace_back(error.what()); };
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &usual_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

  std::vector<std::string> errors;

 private:
  rlimit usual_{};
};

}  // namespace

TEST_CASE("a save that fails behind an older file leaves the later ones in place") {
  const TempFolder folder;
  CheckpointOptions options = checkpoints(10, 0, folder);
  SavedTraining first;
  first.trainer.fit({.steps = 40, .checkpoint = options});
  REQUIRE(saved_steps(folder) == Steps{10, 20, 30, 40});

  SavedTraining back;
  back.trainer.resume(checkpoint_path(folder.path(), 20));
  {
    FullDisk full(options, 0, 1000);
    CHECK(back.trainer.fit({.steps = 5, .checkpoint = options}).checkpoint.saved == 0);
    REQUIRE_FALSE(full.errors.empty());
    CHECK_MESSAGE(contains(full.errors[0], "step-0000000025.safetensors: cannot write"),
                  full.errors[0]);
  }
  CHECK(saved_steps(folder) == Steps{10, 20, 30, 40});
  CHECK(names_in(folder.path()).size() == 4);

  // They go with the first one that can be written, also where it has the name of one of them.
  SavedTraining again;
  again.trainer.resume(checkpoint_path(folder.path(), 20));
  FullDisk full(options, 0, 30);
  options.every_n_steps = 5;
  again.trainer.fit({.steps = 10, .checkpoint = options});
  CHECK(full.errors.size() == 1);
  CHECK(saved_steps(folder) == Steps{10, 20, 30});
  SavedTraining last;
  last.trainer.resume(folder.path());
  CHECK(last.session.state_sha256() == again.session.state_sha256());
}

TEST_CASE("the file of the best stays until that of a better one is written") {
  const TempFolder folder;
  CheckpointOptions options = checkpoints(10, 1, folder);
  options.keep_best = true;
  FullDisk full(options, 30, 40);
  std::vector<double> values = {5, 1, 6, 1};
  size_t measured = 0;
  std::vector<Steps> seen;
  const ValidationOptions validation{.measure =
                                         [&] {
                                           seen.push_back(saved_steps(folder));
                                           return values.at(measured++);
                                         },
                                     .every_n_steps = 10};
  SavedTraining t;
  const TrainReport report =
      t.trainer.fit({.steps = 40, .validation = validation, .checkpoint = options});
  CHECK(report.best->step == 30);
  REQUIRE(full.errors.size() == 1);
  REQUIRE(seen.size() == 4);
  // Step 10 was the best and 20 the newest when the file of step 30 could not be written.
  CHECK(seen[3] == Steps{10, 20});
}

TEST_SUITE_END();
