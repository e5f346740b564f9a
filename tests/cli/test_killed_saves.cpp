// A training that is killed while it saves, again and again, and resumed each time: in the end it
// is the training that nobody has killed, to the last bit.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/scale.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class KilledTraining {
 public:
  std::string runs() const { return files_.file("runs"); }

  // The words of the next run: from the beginning, or from what the runs before have left.
  Words words(const std::string& steps, const std::string& every) const {
    Words words = {"train",        "--quiet", "--threads",    "1",
                   "--steps",      steps,     "--metrics",    files_.file("metrics"),
                   "--keep-best",  "loss",    "--keep",       "2",
                   "--checkpoint", runs(),    "--save-every", every};
    const Words first = {"--data",       data_.path(), "--batch", "16", "--optimizer", "adam",
                         "--validation", "40",         "--seed",  "8",  "--shift",     "1"};
    if (newest() > 0)
      words.insert(words.end(), {"--resume", runs()});
    else
      words.insert(words.end(), first.begin(), first.end());
    return words;
  }
  // The step of the newest file; 0 without one.
  int64_t newest() const {
    int64_t step = 0;
    if (!fs::exists(runs())) return step;
    for (const auto& entry : fs::directory_iterator(runs())) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-")) step = std::max(step, int64_t{std::stoll(name.substr(5))});
    }
    return step;
  }
  bool was_writing() const {
    if (!fs::exists(runs())) return false;
    for (const auto& entry : fs::directory_iterator(runs())) {
      if (entry.path().extension() == ".keel-tmp") return true;
    }
    return false;
  }

  // Goes on to some steps behind what is there, and compares with a run in one piece.
  void finish() const {
    const std::string steps = std::to_string(newest() + 40);
    Words rest = words(steps, "1h");
    rest.insert(rest.end(), {"--summary", files_.file("rest.json")});
    const ToolResult end = run_tool(rest);
    REQUIRE_MESSAGE(end.exit_code == 0, end.err);
    const ToolResult whole = run_tool({"train",        "--quiet",
                                       "--threads",    "1",
                                       "--data",       data_.path(),
                                       "--batch",      "16",
                                       "--optimizer",  "adam",
                                       "--validation", "40",
                                       "--seed",       "8",
                                       "--shift",      "1",
                                       "--keep-best",  "loss",
                                       "--steps",      steps,
                                       "--metrics",    files_.file("whole.metrics"),
                                       "--summary",    files_.file("whole.json")});
    REQUIRE_MESSAGE(whole.exit_code == 0, whole.err);
    const auto rest_of = read_json(files_.file("rest.json"));
    const auto expected = read_json(files_.file("whole.json"));
    for (const char* field : {"state_sha256", "best_step", "best_value", "kept_best", "test_loss"})
      CHECK_MESSAGE(rest_of.at(field) == expected.at(field), field);
    CHECK((read_text(files_.file("metrics")) == read_text(files_.file("whole.metrics"))));
    CHECK_FALSE(was_writing());
    MESSAGE(steps << " steps");
  }

 private:
  TempFolder files_;
  DataFolder data_{200, 20};
};

// Whether strace is there and may trace a process that it did not start.
bool can_trace() {
  if (!fs::exists("/usr/bin/strace")) return false;
  return run_bash(R"(sleep 60 & traced=$!
                     strace -qq -o /dev/null -p $traced & tracer=$!
                     while kill -0 $tracer 2> /dev/null; do
                       grep -q 'TracerPid:[[:space:]]*[1-9]' /proc/$traced/status && break
                       sleep 0.01
                     done
                     kill $tracer; code=$?; kill $traced; exit $code)",
                  {})
             .exit_code == 0;
}

// Starts the tool, waits for its thread that saves, and lets strace watch that one alone with the
// arguments in $TRACE. Kills the tool where it still runs after so many tenths of a second.
constexpr const char* kTraced = R"(
  "$0" "$@" & tool=$!
  thread=""
  while [ -z "$thread" ] && kill -0 $tool 2> /dev/null; do
    sleep 0.005
    thread=$(grep -l keel-save /proc/$tool/task/*/comm 2> /dev/null | head -1 | cut -d / -f 5)
  done
  strace -qq -p "$thread" $TRACE & tracer=$!
  for i in $(seq $TENTHS); do kill -0 $tool 2> /dev/null || break; sleep 0.1; done
  kill -0 $tool 2> /dev/null && { kill -KILL $tool; echo "was not killed by strace"; }
  wait $tool; code=$?
  kill $tracer 2> /dev/null; wait $tracer
  exit $code)";

// Says whether a call has to do with files. The others change nothing on the disk, and how many
// there are is not the same for each save.
bool is_about_files(const std::string& call) {
  for (const char* other : {"futex", "mmap", "munmap", "mprotect", "madvise", "brk"})
    if (call == other) return false;
  return !call.starts_with("rt_");
}

// The system calls of the thread that saves between two renames, in their order: the end of one
// save and the next up to its rename, for the last that removes a file. Where the best file is no
// longer one of the newest, a save removes none.
Words calls_of_a_save(const std::string& trace) {
  Words calls, since_rename;
  for (const std::string& line : lines_of(trace)) {
    const std::string name = line.substr(0, line.find('('));
    if (name.empty() || name.size() == line.size() || name.find(' ') != std::string::npos) continue;
    since_rename.push_back(name);
    if (!name.starts_with("rename")) continue;
    Words save = std::exchange(since_rename, {});
    if (std::find(save.begin(), save.end(), "unlink") != save.end()) calls = std::move(save);
  }
  return calls;
}

// Those that the order of a save is about, each run of the same one once.
Words order_of(const Words& calls) {
  const Words told = {"write", "fdatasync", "fsync", "rename", "unlink"};
  Words order;
  for (const std::string& name : calls) {
    if (std::find(told.begin(), told.end(), name) == told.end()) continue;
    if (order.empty() || order.back() != name) order.push_back(name);
  }
  return order;
}

}  // namespace

TEST_CASE("killed saves: SIGKILL at random moments changes no bit of the end") {
  const int kills = long_scale() ? 300 : 20;
  const KilledTraining training;
  std::mt19937 random(20261125);
  int while_writing = 0;
  for (int i = 0; i < kills; ++i) {
    const int64_t before = training.newest();
    const auto delay =
        std::chrono::microseconds(std::uniform_int_distribution<int>(0, 30000)(random));
    std::optional<Clock::time_point> at;
    const ToolResult result = run_tool_until(
        training.words("1000000000", "1"),
        [&] {
          // Behind the first save of this run, so that the training gets on.
          if (!at && training.newest() > before) at = Clock::now() + delay;
          return at && Clock::now() >= *at;
        },
        1, SIGKILL);
    REQUIRE_MESSAGE(result.exit_code == 128 + SIGKILL, result.err);
    if (training.was_writing()) ++while_writing;
  }
  MESSAGE(kills << " kills, " << while_writing << " of them with a file half written");
  training.finish();
}

TEST_CASE("killed saves: SIGKILL at each system call of a save changes no bit of the end") {
  if (!can_trace()) {
    MESSAGE("keel test skipped: no strace that may trace the tool");
    return;
  }
  const KilledTraining training;
  const TempFolder temp;
  // A busy machine may not come to a save in the first second.
  std::string trace;
  Words order;
  std::map<std::string, int> calls;
  for (const char* tenths : {"10", "50", "250"}) {
    const Variables watch = {{"TRACE", "-o " + temp.file("trace")}, {"TENTHS", tenths}};
    run_bash(kTraced, training.words("1000000000", "100ms"), watch);
    trace = read_text(temp.file("trace"));
    const Words in_order = calls_of_a_save(trace);
    order = order_of(in_order);
    calls.clear();
    for (const std::string& name : in_order) ++calls[name];
    if (calls.contains("flock")) break;
  }
  // What a save cannot do without.
  for (const char* name : {"openat", "write", "fsync", "rename", "fdatasync", "unlink", "flock"})
    REQUIRE_MESSAGE(calls.contains(name), std::string(name) << " is not in " << trace);
  CHECK(calls.at("fsync") == 2);
  // The folder's new name is on the disk before an old file goes; lines of the metrics are on it
  // before the file is written, and the file is before it has its name.
  CHECK_MESSAGE((order == Words{"fsync", "unlink", "fdatasync", "write", "fsync", "rename"}),
                join(order));
  int kills = 0;
  for (const auto& call : calls) {
    const std::string& name = call.first;
    const int count = call.second;
    if (!is_about_files(name)) continue;
    for (int i = 1; i <= count; ++i) {
      const ToolResult result = run_bash(
          kTraced, training.words("1000000000", "100ms"),
          {{"TRACE", "-o /dev/null -e inject=" + name + ":signal=KILL:when=" + std::to_string(i)},
           {"TENTHS", "200"}});
      CHECK_MESSAGE(result.out.empty(), name << " " << i << ": " << result.out);
      REQUIRE_MESSAGE(result.exit_code == 128 + SIGKILL, name << " " << i << ": " << result.err);
      ++kills;
    }
  }
  MESSAGE(kills << " kills at the system calls of a save");
  training.finish();
}

TEST_SUITE_END();
