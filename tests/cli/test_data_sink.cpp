// `keel train --data-sink`: the same training fed by a queue or by the host, what is counted and
// shown of it, and what does not go with it.
#include <string>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "cli/training_run.h"
#include "support/error_of.h"

namespace keel_test {
namespace {

TrainingRun train_without_warnings(const TempFolder& files, const Words& words) {
  const TrainingRun run = training_run(files, words);
  CHECK(run.err == "");
  return run;
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("data sink: off feeds each step from the host with the same bits and says so") {
  const TempFolder data;
  const TempFolder files;
  DataSet(250, 20).write_to(data);
  for (const char* backend : {"ref", "cpu", "npu"}) {
    for (const char* threads : {"1", "2"}) {
      CAPTURE(backend);
      const Words words = {"--data", data.path(), "--batch", "16",        "--backend",
                           backend,  "--steps",   "35",      "--threads", threads};
      const TrainingRun on =
          train_without_warnings(files, with(words, {"--data-sink", "on", "--loop-size", "7"}));
      const TrainingRun off = train_without_warnings(files, with(words, {"--data-sink", "off"}));
      CHECK_MESSAGE(on.metrics == off.metrics, "the losses differ");
      for (const char* key : {"state_sha256", "test_accuracy", "test_loss", "epoch_loss"})
        CHECK(on.summary.at(key) == off.summary.at(key));
      CHECK(on.summary.at("data_sink") == true);
      CHECK(on.summary.at("loop_kind") == "device");
      // Launches end with epochs, of 15 steps: 7 + 7 + 1, 7 + 7 + 1, 5.
      CHECK(on.summary.at("launches") == 7);
      CHECK(on.summary.at("host_syncs") == 7);
      CHECK(on.summary.at("copies_to_host") == 7);
      CHECK(off.summary.at("data_sink") == false);
      CHECK(off.summary.at("loop_size") == 1);
      CHECK(off.summary.at("loop_kind") == "host");
      CHECK(contains(off.summary.at("loop_reason"), "data_sink is off"));
      CHECK(off.summary.at("launches") == 35);
      CHECK(off.summary.at("host_syncs") == 35);
      // A batch is 16 images of 784 bytes and 16 labels; the loss is one f32.
      CHECK(off.summary.at("copies_to_device") == 70);
      CHECK(off.summary.at("bytes_to_device") == 35 * 16 * 785);
      CHECK(off.summary.at("copies_to_host") == 35);
      CHECK(off.summary.at("bytes_to_host") == 35 * 4);
      CHECK(off.summary.at("elements_ahead") == 0);
      CHECK(off.summary.at("feed") == "streamed");
      CHECK(contains(off.out, "feed: streamed (--data-sink off"));
      CHECK(contains(off.out, "loop size 1,"));
    }
  }
}

TEST_CASE("data sink: a loop size is a conflict that names both before anything is written") {
  const TempFolder files;
  struct Case {
    Words words;
    Variables variables;
    const char* named;
  };
  for (const Case& c : {Case{{"--loop-size", "10"}, {}, "--loop-size says 10"},
                        Case{{"--loop-size", "auto"}, {}, "--loop-size auto"},
                        Case{{"--loop-size", "250ms"}, {}, "--loop-size 250ms"},
                        Case{{}, {{"NPU_LOOP_SIZE", "25"}}, "NPU_LOOP_SIZE says 25"}}) {
    CAPTURE(c.named);
    const ToolResult result = run_tool(
        with({"train", "--data-sink", "off", "--steps", "5", "--save", files.file("states")},
             c.words),
        c.variables);
    CHECK(result.exit_code == 2);
    CHECK(result.out == "");
    CHECK(contains(result.err, c.named));
    CHECK(contains(result.err, "--data-sink off"));
    CHECK(contains(result.err, "make the loop size 1, or leave data_sink on"));
    CHECK(files.empty());
  }
  const Words fine = {"train", "--data-sink", "off", "--loop-size", "1", "--steps", "3", "--quiet"};
  CHECK(run_tool(fine, {{"NPU_LOOP_SIZE", "25"}}).exit_code == 0);
  const ToolResult typo = run_tool({"train", "--data-sink", "of"});
  CHECK(typo.exit_code == 2);
  CHECK(contains(typo.err, "--data-sink"));
  CHECK(contains(typo.err, "on, off"));
}

TEST_CASE("data sink: a training that was fed by the host goes on by the queue and the other way") {
  const TempFolder data;
  const TempFolder files;
  DataSet(250, 20).write_to(data);
  const Words base = {"--data", data.path(), "--batch", "16"};
  const TrainingRun whole = train_without_warnings(files, with(base, {"--steps", "40"}));
  const std::string states = files.file("states");
  for (const bool sink_first : {false, true}) {
    const char* first = sink_first ? "on" : "off";
    const char* second = sink_first ? "off" : "on";
    train_without_warnings(files,
                           with(base, {"--steps", "18", "--save", states, "--data-sink", first}));
    const TrainingRun rest = train_without_warnings(
        files, with(base, {"--resume", states, "--steps", "40", "--data-sink", second}));
    CHECK(rest.metrics == whole.metrics);
    CHECK(rest.summary.at("state_sha256") == whole.summary.at("state_sha256"));
  }
  // From a checkpoint in the middle of a launch of the queue's.
  const std::string folder = files.file("checkpoints");
  train_without_warnings(files, with(base, {"--steps", "23", "--data-sink", "off", "--checkpoint",
                                            folder, "--save-every", "10"}));
  const TrainingRun rest =
      train_without_warnings(files, with(base, {"--resume", folder, "--steps", "40"}));
  CHECK(rest.summary.at("state_sha256") == whole.summary.at("state_sha256"));
}

TEST_CASE("data sink: GetNext is the host's in the timeline of a profile without it") {
  const TempFolder files;
  for (const char* sink : {"on", "off"}) {
    const std::string folder = files.file(sink);
    REQUIRE(run_tool({"train", "--steps", "3", "--quiet", "--data-sink", sink, "--profile", folder})
                .exit_code == 0);
    const std::string timeline = read_text(folder + "/timeline.json");
    const bool on = std::string(sink) == "on";
    CHECK(contains(timeline, "GetNext of step 2 on DEVICE") == on);
    CHECK(contains(timeline, "GetNext of step 2 on HOST") == !on);
    CHECK(contains(timeline, "\"name\":\"GETNEXT\"") == !on);
  }
}

TEST_SUITE_END();

}  // namespace keel_test
