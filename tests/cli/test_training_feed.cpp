// How the training set reaches the device: kept there or streamed, the training is the same.
#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "cli/training_run.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;

}  // namespace

TEST_CASE("feed: a small set is kept on the device unasked and the training is the same") {
  const TempFolder data;
  const TempFolder files;
  DataSet(250, 20).write_to(data);
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const Words words = {"--data", data.path(), "--batch", "16",          "--backend",
                         backend,  "--steps",   "35",      "--loop-size", "8"};
    Words streaming = words;
    streaming.push_back("--no-cache");
    const TrainingRun cached = training_run(files, words);
    const TrainingRun streamed = training_run(files, streaming);
    // 250 * 785 bytes.
    CHECK(cached.out.find("feed: device cache, 0.2 MB\n") != std::string::npos);
    CHECK(cached.summary.at("feed") == "device cache, 0.2 MB");
    CHECK(streamed.out.find("feed: streamed (--no-cache)\n") != std::string::npos);
    CHECK(streamed.summary.at("feed") == "streamed");
    CHECK_MESSAGE(cached.metrics == streamed.metrics, "the losses differ");
    CHECK(cached.summary.at("state_sha256") == streamed.summary.at("state_sha256"));
    CHECK(cached.summary.at("test_accuracy") == streamed.summary.at("test_accuracy"));
  }
}

TEST_CASE("feed: a training that was cached goes on streamed and the other way round") {
  const TempFolder data;
  const TempFolder files;
  DataSet(250, 20).write_to(data);
  const Words base = {"--data", data.path(), "--batch", "16"};
  const TrainingRun whole = training_run(files, with(base, {"--steps", "40"}));
  const std::string states = files.file("states");
  for (const bool cached_first : {false, true}) {
    const Words first = cached_first ? base : with(base, {"--no-cache"});
    const Words second = cached_first ? Words{"--no-cache"} : Words{};
    training_run(files, with(first, {"--steps", "18", "--save", states}));
    const TrainingRun rest =
        training_run(files, with(second, {"--resume", states, "--steps", "40"}));
    CHECK(rest.metrics == whole.metrics);  // the second part goes on in the file of the first
    CHECK(rest.summary.at("state_sha256") == whole.summary.at("state_sha256"));
  }
}

TEST_SUITE_END();
