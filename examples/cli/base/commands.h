// The commands of the `keel` tool. Each takes the words behind its name and returns the exit code;
// errors are thrown.
#ifndef KEEL_EXAMPLES_CLI_BASE_COMMANDS_H
#define KEEL_EXAMPLES_CLI_BASE_COMMANDS_H

#include <string>
#include <vector>

namespace keel_cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;         // wrong only against data, files or at run time
inline constexpr int kExitWrongArgument = 2;  // a flag or environment variable wrong in itself
inline constexpr int kExitNotConformant = 3;  // a backend whose results are wrong
inline constexpr int kExitUnsupported = 3;    // what is to come to Keel needs what it has not
inline constexpr int kExitRankLost = 3;     // another rank of the job is gone, stopped, or differs
inline constexpr int kExitSignalled = 128;  // plus the signal's number, where one ended the run

int run_train(const std::vector<std::string>& words);
int run_sample(const std::vector<std::string>& words);
int run_eval(const std::vector<std::string>& words);
int run_predict(const std::vector<std::string>& words);
int run_export(const std::vector<std::string>& words);
int run_freeze(const std::vector<std::string>& words);
int run_inspect(const std::vector<std::string>& words);
int run_config(const std::vector<std::string>& words);
int run_info(const std::vector<std::string>& words);
int run_graph(const std::vector<std::string>& words);
int run_calibrate(const std::vector<std::string>& words);
int run_profile(const std::vector<std::string>& words);
int run_conformance(const std::vector<std::string>& words);
int run_import(const std::vector<std::string>& words);
int run_migrate(const std::vector<std::string>& words);
int run_run(const std::vector<std::string>& words);
int run_bench(const std::vector<std::string>& words);
int run_launch(const std::vector<std::string>& words);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_COMMANDS_H
