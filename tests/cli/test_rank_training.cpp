// `keel launch -- keel train`: ranks that train one model, with the bits of one rank.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/ranks_of_the_tool.h"
#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

// Steps of 40 items of a small set, whatever the number of ranks.
ToolResult train_on_ranks(int ranks, Words more, const Variables& variables = {}) {
  Words words = {
      "launch",           "-n",      std::to_string(ranks),      "--",        "keel", "train",
      "--quiet",          "--batch", std::to_string(40 / ranks), "--threads", "1",    "--data",
      small_data().path()};
  words.insert(words.end(), more.begin(), more.end());
  return run_tool(words, variables);
}

json summary_of(int ranks, Words more, const Variables& variables = {}) {
  const TempFolder files;
  more.insert(more.end(), {"--summary", files.file("summary")});
  const ToolResult result = train_on_ranks(ranks, more, variables);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.err == "");
  return read_json(files.file("summary"));
}

}  // namespace

TEST_CASE("ranks: with 4 micro-shards one two and four ranks give the same bits") {
  if (without_gloo()) return;
  for (const char* backend : {"cpu", "npu"}) {
    CAPTURE(backend);
    const Words words = {"--model", "softmax", "--backend",      backend,
                         "--steps", "9",       "--micro-shards", "4"};
    const json alone = summary_of(1, words);
    CHECK(alone["ranks"] == 1);
    CHECK(alone["micro_shards"] == 4);
    for (const int ranks : {2, 4}) {
      for (const char* loop_size : {"1", "7"}) {
        CAPTURE(ranks);
        CAPTURE(loop_size);
        Words with = words;
        with.insert(with.end(), {"--loop-size", loop_size});
        const json together = summary_of(ranks, with);
        CHECK(together["state_sha256"] == alone["state_sha256"]);
        CHECK(together["train_loss"] == alone["train_loss"]);
        CHECK(together["test_accuracy"] == alone["test_accuracy"]);
        CHECK(together["test_loss"] == alone["test_loss"]);
        CHECK(together["ranks"] == ranks);
        CHECK(together["micro_shards"] == 4);
        CHECK(together["bit_equal_across_ranks"] == "yes");
        CHECK(together["batch"] == 40 / ranks);
        CHECK(together["steps"] == 9);
      }
    }
  }
}

TEST_CASE("ranks: sums have the same bits in shared memory and over sockets") {
  if (without_gloo()) return;
  const Words words = {"--model", "mlp", "--steps", "5", "--micro-shards", "4"};
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    const json memory = summary_of(ranks, words);
    const json sockets = summary_of(ranks, words, {{"KEEL_RANK_TRANSPORT", "sockets"}});
    CHECK(memory["rank_transport"] == "shared memory");
    CHECK(sockets["rank_transport"] == "sockets (rank 0: KEEL_RANK_TRANSPORT=sockets)");
    CHECK(memory["state_sha256"] == sockets["state_sha256"]);
    CHECK(memory["train_loss"] == sockets["train_loss"]);
  }
  CHECK(!summary_of(1, {"--steps", "1"}).contains("rank_transport"));
  const ToolResult wrong = train_on_ranks(2, {"--steps", "1"}, {{"KEEL_RANK_TRANSPORT", "socket"}});
  CHECK(wrong.exit_code != 0);
  CHECK_MESSAGE(contains(wrong.err, "KEEL_RANK_TRANSPORT: expected one of memory, sockets"),
                wrong.err);
}

TEST_CASE("ranks: three of them train and say that the bits are theirs") {
  if (without_gloo()) return;
  const TempFolder files;
  const ToolResult result = train_on_ranks(3, {"--steps", "4", "--summary", files.file("summary")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(contains(result.err, "another number of ranks would give other bits"));
  CHECK(lines_of(result.err).size() == 1);
  const json summary = read_json(files.file("summary"));
  CHECK(summary["micro_shards"] == 4);
  CHECK(summary["bit_equal_across_ranks"] == "no");
}

TEST_CASE("ranks: a training goes on with another number of them") {
  if (without_gloo()) return;
  const TempFolder files;
  const Words words = {"--model", "mlp", "--micro-shards", "4"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  const std::string whole = summary_of(1, with({"--steps", "12"}))["state_sha256"];
  const std::string folder = files.file("checkpoints");
  REQUIRE(train_on_ranks(2, with({"--steps", "7", "--checkpoint", folder, "--save-every", "3"}))
              .exit_code == 0);
  CHECK(std::filesystem::exists(folder + "/step-0000000007.safetensors"));
  for (const int ranks : {1, 4}) {
    CAPTURE(ranks);
    const json summary = summary_of(ranks, with({"--steps", "12", "--resume", folder}));
    CHECK(summary["state_sha256"] == whole);
    CHECK(summary["resumed_at_step"] == 7);
  }
  const ToolResult odd = run_tool(
      {"launch", "-n", "3", "--", "keel", "train", "--quiet", "--steps", "12", "--resume", folder});
  CHECK(odd.exit_code == 1);
  CHECK_MESSAGE(contains(odd.err, "a number of ranks that divides the 40 items of its steps"),
                odd.err);
}

TEST_CASE("ranks: what differs between them is told with both sides before the first step") {
  if (without_gloo()) return;
  const TempFolder files;
  const auto each = [&](const std::string& line) {
    return run_bash(R"("$0" launch -n 2 -- bash -c "$1" "$0")", {line});
  };
  const std::string train = "exec \"$0\" train --quiet --batch 20 --steps 3 --data " +
                            small_data().path() + " --save " + files.file("states") + " ";
  const ToolResult models =
      each(train + "--model $(test $RANK_ID = 0 && echo softmax || echo mlp)");
  CHECK(models.exit_code == 3);
  CHECK_MESSAGE(contains(models.err, "GRAPH_DIVERGED(rank 0 "), models.err);
  const ToolResult seeds = each(train + "--seed $RANK_ID");
  CHECK(seeds.exit_code == 3);
  CHECK_MESSAGE(contains(seeds.err, "SEED_DIVERGED(rank 0 0, rank 1 1)"), seeds.err);
  const ToolResult rates = each(train + "--lr 0.$((RANK_ID + 1))");
  CHECK(rates.exit_code == 3);
  CHECK_MESSAGE(contains(rates.err, "UPDATE_DIVERGED(rank 0 "), rates.err);
  CHECK(files.empty());
}

// Each of these would make one rank wait for a collective that the other one does not come to.
TEST_CASE("ranks: a flag of one rank alone is named before the first step") {
  if (without_gloo()) return;
  const TempFolder files;
  const std::pair<std::string, std::string> rules[] = {
      {"--checkpoint $1/checkpoints", "CHECKPOINT_DIVERGED(rank 0 off, rank 1 on)"},
      {"--save $1/states", "SAVE_DIVERGED(rank 0 off, rank 1 on)"},
      {"--metrics $1/metrics", "METRICS_DIVERGED(rank 0 off, rank 1 on)"},
      {"--summary $1/summary", "SUMMARY_DIVERGED(rank 0 off, rank 1 on)"},
      {"--loop-size 7", "LOOP_SIZE_DIVERGED(rank 0 100, rank 1 7)"},
      {"--save-best $1/best", "SAVE_BEST_DIVERGED(rank 0 off, rank 1 on)"},
      {"--keep-best", "KEEP_BEST_DIVERGED(rank 0 off, rank 1 on)"},
      {"--patience 1", "PATIENCE_DIVERGED(rank 0 0, rank 1 1)"},
      {"--stop-at 0.25", "STOP_AT_DIVERGED(rank 0 none, rank 1 0.25)"},
      {"--stop-at 0.25 --metric loss", "METRIC_DIVERGED(rank 0 accuracy, rank 1 loss)"},
      {"--validation 20", "VALIDATION_DIVERGED(rank 0 0, rank 1 20)"},
      {"--eval-every 2", "EVAL_EVERY_DIVERGED(rank 0 0, rank 1 2)"},
      {"--fail-on-nan", "FAIL_ON_NAN_DIVERGED(rank 0 off, rank 1 on)"},
      {"--data-sink off --loop-size 1", "DATA_SINK_DIVERGED(rank 0 on, rank 1 off)"},
  };
  const auto refused = [&](const std::string& both, const std::string& flag,
                           const std::string& told) {
    CAPTURE(flag);
    const ToolResult result = run_bash(
        R"(timeout -k 5 100 "$0" launch -n 2 -- bash -c '
             test $RANK_ID = 1 && more="'"$3"'"
             exec "$0" train --quiet --steps 3 --batch 20 --threads 1 --data "$2" '"$4"' $more' \
             "$0" "$1" "$2")",
        {files.path(), small_data().path(), flag, both});
    CHECK(result.exit_code == 3);
    CHECK_MESSAGE(contains(result.err, told), result.err);
    CHECK_FALSE(contains(result.err, "TIMEOUT"));
  };
  for (const auto& [flag, told] : rules) refused("", flag, told);
  for (const auto& [every, told] : {std::pair("5", "5"), std::pair("10s", "10s")})
    refused("--checkpoint $1/checkpoints", "--save-every " + std::string(every),
            "SAVE_EVERY_DIVERGED(rank 0 epoch, rank 1 " + std::string(told) + ")");
  refused("--profile $1/profile",
          R"(--profiling-options {\"task_trace\":\"off\",\"training_trace\":\"off\"})",
          "PROFILE_DIVERGED(rank 0 1-3, rank 1 1-3 without task_trace)");
}

TEST_CASE("ranks: other test images on one rank end the training before it begins") {
  if (without_gloo()) return;
  const TempFolder files;
  for (const char* rank : {"/0", "/1"})
    std::filesystem::copy(small_data().path(), files.path() + rank);
  {
    std::fstream labels(files.path() + "/1/t10k-labels-idx1-ubyte",
                        std::ios::in | std::ios::out | std::ios::binary);
    labels.seekp(-1, std::ios::end);
    labels.put(3);
    labels.close();
    REQUIRE(labels.good());
  }
  const ToolResult result = run_bash(
      R"("$0" launch -n 2 -- bash -c 'exec "$0" train --quiet --steps 2 --data "$1/$RANK_ID"' "$0" "$1")",
      {files.path()});
  CHECK(result.exit_code != 0);
  CHECK_MESSAGE(contains(result.err, "TEST_DATA_DIVERGED(rank 0 "), result.err);
  CHECK_MESSAGE(!contains(result.err, ", DATA_DIVERGED"), result.err);
}

TEST_CASE("ranks: one that dies in a training ends the others and names step and bucket") {
  if (without_gloo()) return;
  const TempFolder files;
  const std::string folder = files.file("checkpoints");
  const ToolResult result = run_bash(
      // Should it fail, no process is left: each ends with the launcher, which ends in time.
      R"(timeout -k 5 200 "$0" launch -n 2 -- bash -c '
        test $RANK_ID = 0 || (until ls "$1" 2>/dev/null | grep -c ^step- | grep -qv "^[01]$"; do
                                kill -0 $$ 2>/dev/null || exit; sleep 0.02
                              done
                              kill -9 $$) &
        exec "$0" train --quiet --data "$2" --batch 20 --steps 100000000 --loop-size 10 --checkpoint "$1" \
          --save-every 50 --keep 0' "$0" "$1" "$2")",
      {folder, small_data().path()}, {{"HCCL_EXEC_TIMEOUT", "60"}});
  CHECK(result.exit_code == 3);
  std::string launchers;
  for (const std::string& line : lines_of(result.err))
    if (contains(line, "the last checkpoint is")) launchers = line;
  CHECK_MESSAGE(contains(launchers, "rank 1 was killed by SIGKILL in step "), result.err);
  CHECK_MESSAGE(contains(launchers, "(collective "), result.err);
  CHECK_MESSAGE(contains(launchers, "; the last checkpoint is " + folder + "/step-"), result.err);
}

TEST_CASE("ranks: a signal to the launcher ends the training behind one step on all") {
  if (without_gloo()) return;
  const TempFolder files;
  const std::string folder = files.file("checkpoints");
  const ToolResult result = run_tool_until(
      {"launch", "-n", "2", "--", "keel", "train", "--quiet", "--data", small_data().path(),
       "--batch", "20", "--steps", "100000000", "--checkpoint", folder, "--save-every", "50",
       "--summary", files.file("summary")},
      [&] { return std::filesystem::exists(folder + "/step-0000000050.safetensors"); }, 1, SIGTERM);
  CHECK_MESSAGE(result.exit_code == 128 + SIGTERM, result.err);
  CHECK(result.err == "");
  CHECK(read_json(files.file("summary"))["steps"] >= 50);
}

// As systemd and timeout(1) send it: each rank has it from there and from the launcher.
TEST_CASE("ranks: a signal to the group of the launcher ends the training behind one step") {
  if (without_gloo()) return;
  const TempFolder files;
  for (const std::string signal : {"TERM", "INT"}) {
    CAPTURE(signal);
    const std::string metrics = files.file("metrics " + signal);
    const std::string states = files.file("states " + signal);
    const ToolResult result = run_bash(
        R"(set -m
        timeout -k 60 200 "$0" launch -n 2 -- keel train --quiet --data "$1" --batch 20 \
          --steps 100000000 --metrics "$2" --save "$3" &
        until [ -s "$2" ] || ! kill -0 $!; do sleep 0.01; done
        kill -$4 -- -$!; wait $!)",
        {small_data().path(), metrics, states, signal}, {{"HCCL_EXEC_TIMEOUT", "60"}});
    CHECK_MESSAGE(result.exit_code == 128 + (signal == "TERM" ? SIGTERM : SIGINT), result.err);
    CHECK_MESSAGE(!contains(result.err, "keel: "), result.err);
    CHECK(std::filesystem::exists(states));
  }
}

// A shell whose terminal goes away sends the hangup to each process of the job, so that ranks get
// it from there and from the launcher.
TEST_CASE("ranks: a hangup ends the training behind one step and saves it") {
  if (without_gloo()) return;
  const TempFolder files;
  const std::string metrics = files.file("metrics"), states = files.file("states");
  const ToolResult result = run_tool_until(
      {"launch", "-n", "2", "--", "keel", "train", "--quiet", "--data", small_data().path(),
       "--batch", "20", "--steps", "100000000", "--metrics", metrics, "--save", states},
      [&] { return std::filesystem::exists(metrics) && std::filesystem::file_size(metrics) > 0; },
      3, SIGHUP);
  CHECK_MESSAGE(result.exit_code == 128 + SIGHUP, result.err);
  CHECK(result.err == "");
  CHECK(std::filesystem::exists(states));
}

TEST_CASE("ranks: the slowest one is named and each has its part of the summary") {
  if (without_gloo()) return;
  const TempFolder files;
  // Strict runs have the same bits and take several times as long.
  const ToolResult result = run_bash(
      R"("$0" launch -n 3 -- bash -c 'test $RANK_ID = 1 && export KEEL_NPU_STRICT=1
           exec "$0" train --model mlp --backend npu --batch 10 --steps 30 --threads 1 --data "$1" --summary "$2"' \
           "$0" "$1" "$2")",
      {small_data().path(), files.file("summary")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK_MESSAGE(contains(result.out, "ranks: 1 is the slowest, waited for "), result.out);
  const json summary = read_json(files.file("summary"));
  CHECK(summary["slowest_rank"]["rank"] == 1);
  REQUIRE(summary["rank_metrics"].size() == 3);
  double least = 1e9, most = 0;
  for (size_t i = 0; i < 3; ++i) {
    const json& rank = summary["rank_metrics"][i];
    CAPTURE(rank.dump());
    CHECK(rank["rank"] == i);
    CHECK(rank["steps"] == 30);
    CHECK(rank["threads"] == 1);
    CHECK(rank["peak_rss_bytes"] > 0);
    double parts = 0;
    for (const char* part : {"queue_wait_seconds", "collective_wait_seconds", "collective_seconds",
                             "compute_seconds"}) {
      CHECK(rank[part] >= 0);
      parts += rank[part].get<double>();
    }
    CHECK(rank["collective_seconds"] > 0);
    const double seconds = rank["train_seconds"];
    CHECK(parts >= seconds * (1 - 1e-9));
    CHECK(rank["images_per_second"].get<double>() == doctest::Approx(300 / seconds));
    const double wait = rank["collective_wait_seconds"];
    least = std::min(least, wait);
    most = std::max(most, wait);
    if (i != 1) CHECK(wait > summary["rank_metrics"][1]["collective_wait_seconds"]);
  }
  CHECK(summary["slowest_rank"]["waited_for_seconds"].get<double>() ==
        doctest::Approx(most - least));
  CHECK(summary["images_per_second"].get<double>() ==
        doctest::Approx(900 / summary["train_seconds"].get<double>()));
  CHECK_FALSE(summary_of(1, {"--steps", "1"}).contains("rank_metrics"));
}

TEST_CASE("ranks: each writes its profile and there is one timeline of all") {
  if (without_gloo()) return;
  const TempFolder files;
  const std::string folder = files.file("profile");
  const Words words = {"--model",   "mlp",  "--backend",       "npu", "--steps", "5",
                       "--profile", folder, "--profile-steps", "2-3"};
  const ToolResult result = train_on_ranks(2, words);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.err == "");
  for (const char* rank : {"/rank_0", "/rank_1"}) {
    CAPTURE(rank);
    for (const char* file : {"/op_summary.csv", "/timeline.json", "/advice.txt"})
      CHECK(std::filesystem::exists(folder + rank + file));
    const std::vector<std::string> trace = lines_of(read_text(folder + rank + "/step_trace.csv"));
    REQUIRE(trace.size() == 3);
    CHECK(contains(trace[0], "Reduce 1 Start(us)"));
  }
  const json timeline = read_json(folder + "/timeline.json");
  CHECK(timeline["otherData"]["ranks"] == 2);
  CHECK(timeline["otherData"]["device_clock_skew_us"] == 0);
  CHECK(timeline["otherData"]["wall_clock_error_us"] > 0);
  CHECK(timeline["otherData"]["complete"] == true);
  // By process: the collectives of two steps on the device clock; on the wall clock each has a wait
  // and a sum, and there are the votes besides.
  std::map<std::string, int> hccl, sums;
  std::map<std::string, double> met;  // when the ranks had met for the bucket of step 2
  std::map<int, std::string> processes;
  for (const json& event : timeline["traceEvents"])
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
  for (const json& event : timeline["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::string name = event["name"], process = processes[event["pid"]];
    if (contains(name, "all_reduce")) ++hccl[process];
    if (contains(name, "sum: bucket ")) ++sums[process];
    if (contains(name, "sum: bucket 1 of ") && contains(name, " of step 2"))
      met[process] = event["ts"];
  }
  CHECK(hccl["rank 0 (device clock)"] > 0);
  CHECK(hccl["rank 0 (device clock)"] == hccl["rank 1 (device clock)"]);
  CHECK(sums["rank 0 (wall clock)"] == hccl["rank 0 (device clock)"]);
  CHECK(sums["rank 1 (wall clock)"] == hccl["rank 1 (device clock)"]);
  REQUIRE(met.size() == 2);
  CHECK(met["rank 0 (wall clock)"] > 0);
  const ToolResult shown = run_tool({"profile", folder});
  CHECK(shown.exit_code == 0);
  CHECK(contains(shown.out, "== rank 0"));
  CHECK(contains(shown.out, "== rank 1"));
  CHECK_MESSAGE(contains(shown.out, " collectives "), shown.out);

  SUBCASE("a folder is of as many ranks as wrote it") {
    const ToolResult alone = train_on_ranks(1, words);
    CHECK(alone.exit_code == 1);
    CHECK_MESSAGE(contains(alone.err, "is of a profile of several ranks"), alone.err);
    CHECK(train_on_ranks(2, words).exit_code == 0);
    const std::string other = files.file("of_one");
    Words elsewhere = words;
    elsewhere[7] = other;
    REQUIRE(train_on_ranks(1, elsewhere).exit_code == 0);
    const ToolResult both = train_on_ranks(2, elsewhere);
    CHECK(both.exit_code == 1);
    CHECK_MESSAGE(contains(both.err, "is of a profile of one rank"), both.err);
  }
  SUBCASE("a profile of one rank alone is named before the first step") {
    const ToolResult one = run_bash(
        R"("$0" launch -n 2 -- bash -c 'test $RANK_ID = 1 && more="--profile $2"
             exec "$0" train --quiet --steps 3 --batch 20 --threads 1 --data "$1" $more' "$0" "$1" "$2")",
        {small_data().path(), files.file("one")});
    CHECK(one.exit_code == 3);
    CHECK_MESSAGE(contains(one.err, "PROFILE_DIVERGED(rank 0 off, rank 1 1-3)"), one.err);
  }
}

// A folder of a rank that was left over was shown by `keel profile` as if it were of this profile.
TEST_CASE("ranks: a profile goes into no folder with one of a rank that it does not have") {
  const TempFolder files;
  const std::string folder = files.file("p");
  const Words words = {"--model", "softmax", "--steps", "2", "--profile", folder};
  const auto check_refused = [&](const ToolResult& result, const char* rank, const char* of) {
    CHECK(result.exit_code == 1);
    CHECK_MESSAGE(contains(result.err, folder + rank + ": is of a profile of " + of), result.err);
    CHECK(!std::filesystem::exists(folder + "/op_summary.csv"));
    CHECK(!std::filesystem::exists(folder + "/rank_0"));
  };
  std::filesystem::create_directories(folder + "/rank_3");
  Words alone = {"train", "--quiet", "--threads", "1", "--data", small_data().path()};
  alone.insert(alone.end(), words.begin(), words.end());
  check_refused(run_tool(alone), "/rank_3", "several ranks");
  if (without_gloo()) return;
  check_refused(train_on_ranks(2, words), "/rank_3", "more ranks");
  std::filesystem::remove(folder + "/rank_3");
  std::filesystem::create_directories(folder + "/rank_1");
  CHECK(train_on_ranks(2, words).exit_code == 0);
}

// The spans of the wall clock had the training's steps, and those of the device this run's.
TEST_CASE("ranks: steps of a resumed training's timeline have one number on both clocks") {
  if (without_gloo()) return;
  const TempFolder files;
  const std::string states = files.file("states"), folder = files.file("profile");
  const Words words = {"--model", "mlp", "--backend", "npu"};
  const auto run = [&](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    const ToolResult result = train_on_ranks(2, all);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  };
  run({"--steps", "10", "--save", states});
  run({"--steps", "15", "--resume", states, "--profile", folder, "--profile-steps", "2-3"});
  const json timeline = read_json(folder + "/timeline.json");
  std::map<int, std::string> processes;
  for (const json& event : timeline["traceEvents"])
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
  // By clock, the numbers of steps that names have.
  std::map<std::string, std::set<std::string>> steps;
  for (const json& event : timeline["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::string name = event["name"];
    const size_t at = name.rfind("step ");
    if (at == std::string::npos || name.starts_with("training")) continue;
    const std::string process = processes[event["pid"]];
    const std::string number = name.substr(at + 5);
    steps[process.substr(process.find('('))].insert(number.substr(0, number.find(' ')));
  }
  CHECK(steps["(device clock)"] == std::set<std::string>{"2", "3"});
  CHECK(steps["(wall clock)"] == steps["(device clock)"]);
}

TEST_CASE("ranks: what one rank would do by itself is refused") {
  if (without_gloo()) return;
  const std::pair<Words, const char*> rules[] = {
      {{"--loop-size", "auto"}, "--loop-size auto"},
      {{"--check-numerics", "first"}, "--check-numerics"},
      {{"--accelerate-train-mode", "fast|step|0.5"}, "--accelerate-train-mode"},
      {{"--micro-shards", "3"}, "--micro-shards: expected a power of two, got 3"},
      {{"--micro-shards", "16"}, "--micro-shards: expected so many that a rank's part"},
  };
  for (const auto& rule : rules) {
    CAPTURE(rule.second);
    const ToolResult result = train_on_ranks(2, rule.first);
    CHECK(result.exit_code == 2);
    CHECK_MESSAGE(contains(result.err, rule.second), result.err);
  }
}

TEST_SUITE_END();
