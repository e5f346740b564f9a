// `keel launch`: the ranks of a job on this machine, each a process that runs the same command.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include <keel/core/base/environment.h>
#include <keel/core/group/coordinator.h>
#include <keel/core/group/gloo_engine.h>
#include <keel/core/group/join_group.h>
#include <keel/core/group/rank_table.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/errors.h"
#include "cli/launch/rank_processes.h"

namespace keel_cli {
namespace {

constexpr int64_t kMostProcesses = 1024;

[[noreturn]] void refuse(const std::string& op, const std::string& expected, const std::string& got,
                         const std::string& fix = "") {
  throw keel::Error({.op = op,
                     .expected = expected,
                     .got = got,
                     .fix = fix,
                     .kind = keel::ErrorKind::kInvalidArgument});
}

// The launcher says these to each rank itself.
void require_no_job() {
  for (const char* variable :
       {"RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE", "CM_CHIEF_IP", "CM_CHIEF_PORT",
        "CM_CHIEF_DEVICE", "CM_WORKER_SIZE", "CM_WORKER_IP"}) {
    if (const auto value = keel::environment_text(variable))
      refuse(variable, "none, since keel launch says which rank each process is",
             "'" + *value + "'", "unset it");
  }
}

RankCommand read_command(const CommandLine& line) {
  RankCommand command{.words = line.command()};
  const auto size = line.integer("n", 1, kMostProcesses);
  if (const auto file = line.text("rank-table")) {
    const keel::RankTable table = keel::read_rank_table(*file);
    if (table.servers > 1)
      refuse("--rank-table",
             "a table of one server, since keel launch starts ranks on this machine",
             std::to_string(table.servers),
             "start those of several servers with RANK_TABLE_FILE and RANK_ID");
    if (size && *size != table.size())
      refuse("-n", std::to_string(table.size()) + ", as many ranks as the table has",
             std::to_string(*size));
    command.rank_table = *file;
    command.size = table.size();
  } else if (size) {
    command.size = static_cast<int>(*size);
  } else {
    refuse("-n", "how many ranks to start", "none", "or a --rank-table");
  }
  if (command.words.empty())
    refuse("keel launch", "a command behind --", "none", "such as: " + line.command_example());
  return command;
}

// So that a signal waits for the launcher to ask.
void block_signals() {
  // Where it is ignored, as some supervisors leave it, the system keeps no child's end for waitpid.
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int signal : end_signals()) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

int launch(const RankCommand& command) {
  block_signals();
  const SharedProgress progress(command.size);
  const keel::RankPatience patience = keel::read_rank_patience();
  std::vector<RankProcess> ranks = start_ranks(command, progress);
  std::vector<int> sockets;
  for (const RankProcess& rank : ranks) sockets.push_back(rank.socket);
  keel::Coordinator coordinator({.size = command.size,
                                 .job = keel::environment_text("JOB_ID").value_or(""),
                                 .patience = patience.connect,
                                 .watches_sockets = false},
                                sockets);
  std::vector<std::string> ended_well;
  const LossListener listener{
      // A command that never joined ends like that, and so does a pipeline whose tool was killed.
      .well =
          [&](int rank) {
            ended_well.push_back("rank " + std::to_string(rank) +
                                 " ended with exit code 0 without leaving the group");
            coordinator.note_end(rank, ended_well.back());
          },
      // The second of two signals ends a rank at once, while the others wait for it.
      .as_asked = [&](const RankEnd& end) { coordinator.note_end(end.rank, end.how); },
      .first = [&](const RankEnd& end) { coordinator.abort(end.how); },
      .cause =
          [&](const RankEnd& end) {
            std::string how = end.how;
            // Where those that were lost were so because of another one, it may have ended well.
            const auto early =
                std::find(ended_well.begin(), ended_well.end(), coordinator.why_ended());
            if (!end.cause && early != ended_well.end()) how = *early;
            // Rank 0 writes them.
            const std::string checkpoint = progress.of(0).saved();
            const std::string rest =
                checkpoint.empty() ? "" : "; the last checkpoint is " + checkpoint;
            print_error(keel::Error({.message = how + rest}));
          }};
  return wait_for_ranks(ranks, progress, listener).exit_code;
}

}  // namespace

int run_launch(const std::vector<std::string>& words) {
  CommandLine line("launch",
                   "start the ranks of a job on this machine; the command stands behind --");
  line.add("n", "N", "ranks to start (as many as the rank table has)");
  line.add("rank-table", "FILE", "JSON: the ranks and their devices, as in RANK_TABLE_FILE");
  line.add_command("keel launch -n 2 -- keel bench ranks");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  require_no_job();
  const RankCommand command = read_command(line);
  if (command.size > 1) keel::require_gloo();
  return launch(command);
}

}  // namespace keel_cli
