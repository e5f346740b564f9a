// The real `keel` binary, run as a user would: words, environment, exit code, both outputs.
#ifndef KEEL_TESTS_CLI_TOOL_H
#define KEEL_TESTS_CLI_TOOL_H

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace keel_test {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

struct ToolResult {
  int exit_code = 0;  // 128 + signal where one ended it
  std::string out;
  std::string err;
};

// NPU_LOOP_SIZE of the caller is not handed on; `variables` are added to the rest.
ToolResult run_tool(const Words& words, const Variables& variables = {});

// The same where it must go well: the test case ends where it does not.
ToolResult done(const Words& words);

// Another program, by its path, in the same way.
ToolResult run_program(const std::string& program, const Words& words,
                       const Variables& variables = {});

// The tool, sent a signal once, or a few times in turn, as soon as `when` says so (asked every
// millisecond).
ToolResult run_tool_until(const Words& words, const std::function<bool()>& when, int signals = 1,
                          int signal = SIGINT);

// A line of bash, with the tool as $0 and `words` as "$@".
ToolResult run_bash(const std::string& line, const Words& words, const Variables& variables = {});

std::string read_text(const std::string& path);
std::vector<std::string> lines_of(const std::string& text);
nlohmann::json read_json(const std::string& path);
// One value a line.
std::vector<nlohmann::json> read_json_lines(const std::string& path);

// The words and more behind them.
Words with(Words words, const Words& more);

// For messages of checks that fail.
std::string join(const Words& words);

}  // namespace keel_test

#endif  // KEEL_TESTS_CLI_TOOL_H
