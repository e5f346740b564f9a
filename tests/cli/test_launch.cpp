// `keel launch`: ranks that sum together, and what is told and left behind when one of them is
// lost.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <pty.h>
#include <string>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/wait.h>

#include "cli/ranks_of_the_tool.h"
#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

// Two ranks that sum for ever. A line of bash in each does something first, or in the background as
// soon as the ranks sum: `until_begun` waits for rank 0's first row, or for the end of its own
// rank. Should the launcher hang, it is ended with all of its ranks.
ToolResult launch_with(const std::string& line) {
  const TempFolder files;
  const std::string rank = R"(until_begun() {
    while kill -0 $$ 2>/dev/null && ! grep -q '256\|1024' "$1.0" 2>/dev/null; do sleep 0.02; done
  }
  )" + line + R"(
  exec "$0" bench ranks --endless --seconds 0.02 >"$1.$RANK_ID")";
  return run_bash(R"(timeout -k 5 200 "$0" launch -n 2 -- bash -c "$1" "$0" "$2")",
                  {rank, files.file("rows")}, {{"HCCL_EXEC_TIMEOUT", "60"}});
}

// Two ranks have written a file each.
bool both_exist(const std::string& name) {
  return std::filesystem::exists(name + ".0") && std::filesystem::exists(name + ".1");
}

std::string launchers_line(const ToolResult& result) {
  for (const std::string& line : lines_of(result.err)) {
    if (contains(line, "keel: error: rank 1 ")) return line;
  }
  return result.err;
}

}  // namespace

TEST_CASE("launch: ranks sum together and rank 0 tells of it") {
  if (without_gloo()) return;
  const TempFolder files;
  const ToolResult result =
      run_tool({"launch", "-n", "2", "--", "keel", "bench", "ranks", "--seconds", "0.01",
                "--models", "softmax", "--json", files.file("ranks.json")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.err == "");
  const json table = read_json(files.file("ranks.json"));
  CHECK(table["ranks"] == 2);
  CHECK(table.at("rounds") == 5);
  CHECK(table["rank_transport"] == "shared memory");
  REQUIRE(table["all_reduce"].size() == 5);
  CHECK(table["all_reduce"][1]["bytes"] == 31400);
  for (const json& row : table["all_reduce"]) CHECK(row["memcpys"] > 0);
}

TEST_CASE("launch: bench ranks has steps by ranks and the scaling over cards as a page too") {
  if (without_gloo()) return;
  const TempFolder files;
  const ToolResult result = run_tool(
      {"launch", "-n", "2", "--", "keel", "bench", "ranks", "--seconds", "0.01", "--models",
       "softmax", "--json", files.file("ranks.json"), "--html", files.file("ranks.html")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const json table = read_json(files.file("ranks.json"));
  REQUIRE(table["steps"].size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const json& row = table["steps"][i];
    CHECK(row["model"] == "softmax");
    CHECK(row["ranks"] == i + 1);
    CHECK(row["threads"] == 2 - i);
    CHECK(row["batch"] == (i == 0 ? 100 : 50));
    CHECK(row["images_per_second"].get<double>() ==
          doctest::Approx(1e8 / row["step_us"].get<double>()));
  }
  CHECK(table["steps"][1]["speed_up"] > 0);
  CHECK(table["steps"][1]["collective_wait_share"] > 0);
  CHECK(table["steps"][1]["collective_wait_share"] < 1);
  // Two published trainings and softmax, each on 1, 2, 4 ... 1024 cards.
  CHECK(table["modelled_scaling"].size() == 33);
  CHECK(table["modelled_scaling"][22]["training"] == "softmax");
  CHECK(table["modelled_scaling"][22]["gradient_bytes"] == 31400);
  size_t misses = 0;
  for (const json& row : table["published_scaling"]) misses += row["miss"].get<bool>() ? 1 : 0;
  CHECK(table["published_scaling"].size() == 4);
  CHECK(misses == 1);
  CHECK(contains(result.out, "MISS, between no overlap and full overlap"));
  const std::string page = read_text(files.file("ranks.html"));
  for (const char* plot : {"ranks-all-reduce", "ranks-steps", "ranks-scaling"})
    CHECK_MESSAGE(contains(page, std::string("id=\"") + plot), plot);
  CHECK(contains(page, "Misses: BERT-Large on 8 cards"));
  // The table behind the plot has what is modelled, too: it had the published figures alone.
  CHECK(contains(page, "Table (37 rows)"));
  const json& last = table["modelled_scaling"][21];
  CHECK(last["cards"] == 1024);
  CHECK(contains(page, "<td>1024</td><td></td><td>" +
                           fmt::format("{:.1f}", last["efficiency"].get<double>() * 100)));
  CHECK(contains(page, "<td>" + last["algorithm"].get<std::string>() + "</td>"));
  CHECK(contains(page, "<th>speed-up</th>"));
  CHECK(contains(
      page, "<td>" + fmt::format("{:.2f}", table["steps"][1]["speed_up"].get<double>()) + "</td>"));
}

TEST_CASE("launch: the step that bench ranks measures is the one that ranks train by") {
  if (without_gloo()) return;
  const TempFolder files;
  const ToolResult result =
      run_tool({"launch", "-n", "2", "--", "keel", "bench", "ranks", "--seconds", "0.001",
                "--models", "softmax", "--backend", "npu", "--json", files.file("ranks.json")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const json rows = read_json(files.file("ranks.json"))["steps"];
  REQUIRE(rows.size() == 2);
  for (const json& row : rows) {
    const std::string model = row["model"], ranks = std::to_string(row["ranks"].get<int>());
    CAPTURE(model);
    CAPTURE(ranks);
    const ToolResult trained = run_tool(
        {"launch", "-n", ranks, "--", "keel", "train", "--quiet", "--model", model, "--backend",
         "npu", "--steps", "1", "--batch", std::to_string(row["batch"].get<int>()), "--threads",
         std::to_string(row["threads"].get<int>()), "--summary", files.file("summary")});
    REQUIRE_MESSAGE(trained.exit_code == 0, trained.err);
    CHECK(row["step_device_us"] == read_json(files.file("summary"))["step_device_us"]);
  }
}

TEST_CASE("launch: bench ranks takes no turns for which ranks would not wait") {
  if (without_gloo()) return;
  const ToolResult result =
      run_tool({"launch", "-n", "2", "--", "keel", "bench", "ranks", "--seconds", "8"},
               {{"HCCL_EXEC_TIMEOUT", "3"}});
  CHECK(result.exit_code == 2);
  CHECK_MESSAGE(contains(result.err, "--seconds: expected at most 7.5, since ranks wait"),
                result.err);
}

TEST_CASE("launch: one rank needs no others") {
  const ToolResult result = run_tool({"launch", "-n", "1", "--", "keel", "bench", "ranks",
                                      "--seconds", "0.001", "--models", "softmax"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK(contains(result.out, "among 1 ranks"));
}

TEST_CASE("launch: a measurement without an end has no table for a file") {
  const TempFolder files;
  const ToolResult result =
      run_tool({"bench", "ranks", "--endless", "--json", files.file("ranks.json")});
  CHECK(result.exit_code == 2);
  CHECK_MESSAGE(contains(result.err, "--endless: has no last table for --json"), result.err);
  const ToolResult page =
      run_tool({"bench", "ranks", "--endless", "--html", files.file("ranks.html")});
  CHECK(page.exit_code == 2);
  CHECK_MESSAGE(contains(page.err, "--endless: has no last table for --html"), page.err);
}

TEST_CASE("launch: the number of ranks may be a table's") {
  if (without_gloo()) return;
  const std::string tables = std::string(KEEL_SOURCE_DIR) + "/tests/cli/rank_tables/";
  const ToolResult result =
      run_tool({"launch", "--rank-table", tables + "two_ranks.json", "--", "keel", "bench", "ranks",
                "--seconds", "0.001", "--models", "softmax"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK(contains(result.out, "among 2 ranks"));
  const ToolResult other =
      run_tool({"launch", "-n", "3", "--rank-table", tables + "two_ranks.json", "--", "true"});
  CHECK(other.exit_code == 2);
  CHECK(contains(other.err, "-n: expected 2, as many ranks as the table has, got 3"));
}

TEST_CASE("launch: what is typed wrong") {
  struct Rule {
    Words words;
    Variables variables;
    int exit_code;
    std::string told;
  };
  const Rule rules[] = {
      {{}, {}, 2, "-n: expected how many ranks to start, got none"},
      {{"-n", "2"}, {}, 2, "keel launch: expected a command behind --"},
      {{"-n", "2", "--"}, {}, 2, "keel launch: expected a command behind --"},
      {{"-n", "0", "--", "true"}, {}, 2, "expected an integer"},
      {{"--n", "2", "--", "true"}, {}, 2, "--n: there is no such flag; did you mean '-n'?"},
      {{"-n", "1025", "--", "true"}, {}, 2, "keel: error: -n: expected an integer"},
      {{"-n", "1", "-n", "2", "--", "true"}, {}, 2, "keel: error: -n: is given more than once"},
      {{"-n", "2", "keel", "train", "--steps", "3"},
       {},
       2,
       "'keel': is not a flag; the command stands behind --; such as: keel launch -n 2 -- keel"},
      {{"--rank-table", "/nowhere.json", "--", "true"}, {}, 1, "/nowhere.json"},
      {{"-n", "2", "--", "true"},
       {{"RANK_ID", "0"}},
       2,
       "RANK_ID: expected none, since keel launch"},
      {{"-n", "2", "--", "true"}, {{"CM_CHIEF_IP", "::1"}}, 2, "CM_CHIEF_IP: expected none"},
      {{"-n", "1", "--", "true"}, {{"HCCL_EXEC_TIMEOUT", "0"}}, 2, "HCCL_EXEC_TIMEOUT"},
  };
  for (const Rule& rule : rules) {
    Words words = {"launch"};
    words.insert(words.end(), rule.words.begin(), rule.words.end());
    CAPTURE(join(words));
    const ToolResult result = run_tool(words, rule.variables);
    CHECK(result.exit_code == rule.exit_code);
    CHECK_MESSAGE(contains(result.err, rule.told), result.err);
  }
}

TEST_CASE("launch: the number of ranks is shown as it is typed") {
  const ToolResult help = run_tool({"launch", "--help"});
  CHECK(contains(help.out, "  -n N "));
  CHECK_FALSE(contains(help.out, "--n "));
  const ToolResult bare = run_tool({"train", "--", "--steps", "3"});
  CHECK(bare.exit_code == 2);
  CHECK_MESSAGE(contains(bare.err, "--: stands before a command, and keel train starts none"),
                bare.err);
  // A flag may have it as its value.
  const ToolResult value = run_tool({"sample", "--prompt", "--", "--load", "nofile"});
  CHECK_MESSAGE(contains(value.err, "--load: nofile"), value.err);
}

TEST_CASE("launch: commands that end by themselves") {
  if (without_gloo()) return;
  CHECK(run_tool({"launch", "-n", "2", "--", "true"}).exit_code == 0);
  const ToolResult failed =
      run_tool({"launch", "-n", "2", "--", "bash", "-c", "test $RANK_ID = 0 || exit 7"});
  CHECK(failed.exit_code == 7);
  CHECK_MESSAGE(contains(failed.err, "keel: error: rank 1 ended with exit code 7"), failed.err);
  const ToolResult missing = run_tool({"launch", "-n", "2", "--", "/nowhere/program"});
  CHECK(missing.exit_code == 127);
  CHECK(contains(missing.err, "/nowhere/program: cannot be started: No such file"));
}

TEST_CASE("launch: a rank that ends because of another one is not the cause though it ends first") {
  if (without_gloo()) return;
  const TempFolder files;
  const ToolResult result = run_bash(R"(timeout -k 5 100 "$0" launch -n 2 -- bash -c '
                 if [ $RANK_ID = 0 ]; then echo $$ >"$1"; exit 3; fi
                 until [ -s "$1" ] && ! kill -0 $(cat "$1") 2>/dev/null; do sleep 0.02; done
                 exit 7' bash "$1")",
                                     {files.file("first")});
  CHECK(result.exit_code == 7);
  CHECK(result.err == "keel: error: rank 1 ended with exit code 7\n");
  CHECK(run_tool({"launch", "-n", "2", "--", "bash", "-c", "exit 3"}).exit_code == 3);
}

TEST_CASE("launch: ranks of two jobs do not mix") {
  if (without_gloo()) return;
  const std::string tables = std::string(KEEL_SOURCE_DIR) + "/tests/cli/rank_tables/";
  const TempFolder files;
  const ToolResult result = run_bash(
      R"(export RANK_TABLE_FILE="$1" HCCL_IF_BASE_PORT=$((10000 + $$ * 37 % 15000)) HCCL_CONNECT_TIMEOUT=3
      RANK_ID=0 timeout -k 5 60 "$0" bench ranks >"$2" 2>&1 &
      JOB_ID=another RANK_ID=1 timeout -k 5 60 "$0" bench ranks; code=$?
      wait $!; cat "$2" >&2; exit $code)",
      {tables + "two_ranks.json", files.file("rank_0")});
  CHECK(result.exit_code == 3);
  CHECK_MESSAGE(
      contains(result.err, "JOB_ID: the ranks that meet here are of another job than 'another'"),
      result.err);
  CHECK_MESSAGE(contains(result.err, "a process with another JOB_ID has"), result.err);
}

TEST_CASE("launch: commands that know of one rank are refused before they do anything") {
  if (without_gloo()) return;
  const TempFolder files;
  REQUIRE(
      run_tool({"train", "--quiet", "--steps", "1", "--save", files.file("states")}).exit_code ==
      0);
  const ToolResult result = run_tool({"launch", "-n", "2", "--", "keel", "freeze", "--load",
                                      files.file("states"), "--out", files.file("model.keel")});
  CHECK(result.exit_code == 2);
  CHECK_MESSAGE(contains(result.err,
                         "RANK_SIZE: expected one rank, since this process has joined "
                         "no others"),
                result.err);
  CHECK_FALSE(std::filesystem::exists(files.file("model.keel")));
}

TEST_CASE("launch: a rank that is killed ends the others with exit code 3") {
  if (without_gloo()) return;
  SUBCASE("before it comes") {
    const ToolResult result = launch_with("test $RANK_ID = 0 || kill -9 $$");
    CHECK(result.exit_code == 3);
    CHECK_MESSAGE(contains(launchers_line(result),
                           "rank 1 was killed by SIGKILL before its first collective"),
                  result.err);
  }
  SUBCASE("in the middle") {
    const ToolResult result =
        launch_with("test $RANK_ID = 0 || (until_begun \"$1\"; kill -9 $$) &");
    CHECK(result.exit_code == 3);
    CHECK_MESSAGE(contains(launchers_line(result), "rank 1 was killed by SIGKILL at bench of "),
                  result.err);
    CHECK_MESSAGE(contains(launchers_line(result), " (collective "), result.err);
  }
  SUBCASE("or stopped") {
    const ToolResult result =
        launch_with("test $RANK_ID = 0 || (until_begun \"$1\"; kill -STOP $$) &");
    CHECK(result.exit_code == 3);
    CHECK_MESSAGE(contains(launchers_line(result), "rank 1 was stopped by SIGSTOP at bench of "),
                  result.err);
  }
}

// Nobody was told of such a rank, so that the others waited for it until their time was over.
TEST_CASE("launch: a rank that ends with exit code 0 without leaving ends the others") {
  if (without_gloo()) return;
  const auto check_told = [](const ToolResult& result) {
    CHECK(result.exit_code == 3);
    CHECK_MESSAGE(contains(result.err,
                           "rank 1 ended with exit code 0 without leaving the group; this rank "
                           "was "),
                  result.err);
    CHECK_MESSAGE(!contains(result.err, "TIMEOUT"), result.err);
    // The launcher names it, too, and not the rank that lost it.
    const auto lines = lines_of(result.err);
    const std::string own = "keel: error: rank 1 ended with exit code 0 without leaving the group";
    CHECK_MESSAGE(std::find(lines.begin(), lines.end(), own) != lines.end(), result.err);
  };
  SUBCASE("before it comes") { check_told(launch_with("test $RANK_ID = 0 || exit 0")); }
  SUBCASE("where the tool is killed before a pipe") {
    check_told(launch_with(R"(if [ $RANK_ID = 1 ]; then
      (until_begun "$1"; kill -9 $(cat "$1.tool")) &
      (echo $BASHPID >"$1.tool"; exec "$0" bench ranks --endless --seconds 0.02) | cat
      exit 0
    fi)"));
  }
}

TEST_CASE("launch: a signal to the launcher is one to its ranks and no loss") {
  if (without_gloo()) return;
  const TempFolder files;
  const std::string begun = files.file("begun");
  const ToolResult result = run_tool_until(
      {"launch", "-n", "2", "--", "bash", "-c",
       "trap 'echo >" + begun + ".asked.$RANK_ID; exit 143' TERM; echo >" + begun +
           ".$RANK_ID; while true; do sleep 0.01; done"},
      [&] { return both_exist(begun); }, 1, SIGTERM);
  CHECK(result.exit_code == 128 + SIGTERM);
  CHECK(result.err == "");
  CHECK(both_exist(begun + ".asked"));
}

// Such as one whose last save fails.
TEST_CASE("launch: a rank that fails behind a signal has its own exit code") {
  if (without_gloo()) return;
  const TempFolder files;
  const std::string begun = files.file("begun");
  const ToolResult result = run_tool_until(
      {"launch", "-n", "2", "--", "bash", "-c",
       "trap 'exit $((143 - RANK_ID * 134))' TERM; echo >" + begun +
           ".$RANK_ID; while true; do sleep 0.01; done"},
      [&] { return both_exist(begun); }, 1, SIGTERM);
  CHECK(result.exit_code == 9);
  CHECK(result.err == "keel: error: rank 1 ended with exit code 9\n");
}

TEST_CASE("launch: a rank that hangs while another one tells of a loss is killed and named") {
  if (without_gloo()) return;
  const ToolResult result = run_bash(
      R"(timeout -k 5 100 "$0" launch -n 3 -- bash -c 'test $RANK_ID = 0 || exec sleep 90; exit 3')",
      {});
  CHECK(result.exit_code == 3);
  CHECK(result.err ==
        "keel: error: rank 1 did not end within 5 s after rank 0 ended with exit code 3, and was "
        "killed before its first collective, and 1 more with it\n");
}

// It takes the minute that ranks have for their last save.
TEST_CASE("launch: a rank that hangs behind a signal is killed and named") {
  if (without_gloo()) return;
  const TempFolder files;
  const std::string begun = files.file("begun");
  const ToolResult result = run_bash(
      R"(timeout -k 5 120 "$0" launch -n 2 -- bash -c '
           test $RANK_ID = 0 || trap "" TERM
           test $RANK_ID = 1 || trap "exit 3" TERM
           echo >"$1.$RANK_ID"
           for i in $(seq 5000); do sleep 0.02; done' "$0" "$1" &
         until [ -e "$1.0" ] && [ -e "$1.1" ]; do sleep 0.02; done
         kill -TERM $(cat /proc/$!/task/*/children); wait $!)",
      {begun});
  CHECK(result.exit_code == 128 + SIGTERM);
  CHECK(result.err ==
        "keel: error: rank 1 did not end within 60 s after rank 0 ended with exit code 3, and was "
        "killed before its first collective\n");
}

TEST_CASE("launch: a second command in a rank is told that it comes too late") {
  if (without_gloo()) return;
  const ToolResult result = run_tool(
      {"launch", "-n", "2", "--", "bash", "-c",
       "\"$0\" bench ranks --seconds 0.01 --models softmax && \"$0\" bench ranks", KEEL_TOOL});
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(contains(result.err, "of this launch has joined the others already"), result.err);
}

TEST_CASE("launch: a command behind one that failed before it summed is told the same") {
  if (without_gloo()) return;
  const ToolResult result =
      run_tool({"launch", "-n", "2", "--", "bash", "-c",
                "\"$0\" train --data /nowhere --steps 1; \"$0\" train --steps 1", KEEL_TOOL});
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(contains(result.err, "of this launch has joined the others already"), result.err);
  CHECK_MESSAGE(!contains(result.err, "the launcher is gone"), result.err);
}

TEST_CASE("launch: a table with an address of another machine is told by its rank") {
  if (without_gloo()) return;
  const TempFolder files;
  json table = read_json(std::string(KEEL_SOURCE_DIR) + "/tests/cli/rank_tables/two_ranks.json");
  // RFC 5737 keeps this address for documents, so that no machine has it.
  table["server_list"][0]["device"][1]["device_ip"] = "192.0.2.1";
  const std::string file = files.write("hccl.json", table.dump());
  const ToolResult result =
      run_tool({"launch", "--rank-table", file, "--", "keel", "train", "--steps", "1"});
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(contains(result.err, file + ": device_ip of rank 1: expected an address of this "
                                            "machine, got 192.0.2.1"),
                result.err);
  CHECK_MESSAGE(!contains(result.err, "TIMEOUT"), result.err);
}

TEST_CASE("launch: a rank that is killed behind a signal is lost all the same") {
  if (without_gloo()) return;
  const ToolResult result = launch_with(
      "trap '' TERM; test $RANK_ID = 0 || "
      "(until_begun \"$1\"; kill -TERM $PPID; sleep 0.3; kill -9 $$) &");
  CHECK(result.exit_code == 128 + SIGTERM);
  CHECK_MESSAGE(contains(launchers_line(result), "rank 1 was killed by SIGKILL at bench of "),
                result.err);
}

TEST_CASE("launch: a rank that goes by a signal without a farewell ends the others") {
  if (without_gloo()) return;
  const ToolResult result = launch_with(
      "test $RANK_ID = 0 && trap '' TERM; test $RANK_ID = 0 || "
      "(until_begun \"$1\"; kill -TERM $PPID) &");
  CHECK(result.exit_code == 128 + SIGTERM);
  CHECK_MESSAGE(contains(launchers_line(result), "rank 1 was killed by SIGTERM at bench of "),
                result.err);
  CHECK_MESSAGE(contains(launchers_line(result), "; this rank was "), result.err);
  CHECK_MESSAGE(!contains(result.err, "TIMEOUT"), result.err);
}

TEST_CASE("launch: children are waited for where their ends were ignored") {
  const ToolResult result =
      run_bash(R"(timeout -k 5 60 env --ignore-signal=CHLD "$0" launch -n 1 -- true)", {});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
}

TEST_CASE("launch: a hangup of the launcher is one of its ranks unless it was ignored") {
  if (without_gloo()) return;
  const TempFolder files;
  const std::string begun = files.file("begun");
  const ToolResult result = run_tool_until(
      {"launch", "-n", "2", "--", "bash", "-c",
       "trap 'echo >" + begun + ".asked.$RANK_ID; exit 129' HUP; echo >" + begun +
           ".$RANK_ID; while true; do sleep 0.01; done"},
      [&] { return both_exist(begun); }, 1, SIGHUP);
  CHECK(result.exit_code == 128 + SIGHUP);
  CHECK(result.err == "");
  CHECK(both_exist(begun + ".asked"));
  const ToolResult ignored = run_bash(
      R"(trap '' HUP; "$0" launch -n 2 -- sleep 2 & sleep 0.5; kill -HUP $!; wait $!)", {});
  CHECK_MESSAGE(ignored.exit_code == 0, ignored.err);
}

// The system tells the leader of the session alone, as behind `ssh -t` and `docker run -t`.
TEST_CASE("launch: a terminal that hangs up ends the ranks of a launcher that leads its session") {
  if (without_gloo()) return;
  const TempFolder files;
  const std::string begun = files.file("begun");
  const std::string rank = "trap 'echo >" + begun + ".asked.$RANK_ID; exit 129' HUP; echo >" +
                           begun + ".$RANK_ID; while true; do sleep 0.01; done";
  int terminal = -1;
  const pid_t launcher = forkpty(&terminal, nullptr, nullptr, nullptr);
  REQUIRE(launcher != -1);
  if (launcher == 0) {
    execl(KEEL_TOOL, KEEL_TOOL, "launch", "-n", "2", "--", "bash", "-c", rank.c_str(), nullptr);
    _exit(127);
  }
  const auto wait_until = [](const std::function<bool()>& condition) {
    for (int i = 0; i < 3000 && !condition(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  wait_until([&] { return both_exist(begun); });
  close(terminal);
  int status = 0;
  pid_t ended = 0;
  wait_until([&] { return (ended = waitpid(launcher, &status, WNOHANG)) != 0; });
  if (ended == 0) {
    // The ranks end with it.
    kill(launcher, SIGKILL);
    waitpid(launcher, &status, 0);
  }
  CHECK(ended == launcher);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 128 + SIGHUP);
  CHECK(both_exist(begun + ".asked"));
}

TEST_CASE("launch: when the launcher is killed no rank goes on") {
  if (without_gloo()) return;
  const TempFolder files;
  const ToolResult result = run_bash(
      R"("$0" launch -n 2 -- bash -c 'echo $$ >"$1.$RANK_ID"; exec "$0" bench ranks --endless >"$1.rows.$RANK_ID"' "$0" "$1" &
      until grep -q ' 1024 ' "$1.rows.0" 2>/dev/null || ! kill -0 $!; do sleep 0.05; done
      kill -9 $!; wait $!
      for i in $(seq 1000); do
        kill -0 $(cat "$1.0") 2>/dev/null || kill -0 $(cat "$1.1") 2>/dev/null || exit 42
        sleep 0.05
      done
      kill -9 $(cat "$1.0") $(cat "$1.1"))",
      {files.file("rank")});
  CHECK_MESSAGE(result.exit_code == 42, result.err);
}

TEST_SUITE_END();
