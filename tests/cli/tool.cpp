#include "cli/tool.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>
#include <sys/wait.h>

#include "support/temp_folder.h"

extern char** environ;

namespace keel_test {
namespace {

std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if (name != "NPU_LOOP_SIZE" && variables.count(name) == 0) entries.emplace_back(*entry);
  }
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A program's process, begun.
pid_t start(const std::string& program, const Words& words, const Variables& variables,
            const std::string& out, const std::string& err) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), kWrite, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err.c_str(), kWrite, 0600);

  std::vector<std::string> arguments = {program};
  arguments.insert(arguments.end(), words.begin(), words.end());
  std::vector<std::string> entries = environment_with(variables);
  pid_t process = 0;
  const int failure = posix_spawn(&process, program.c_str(), &files, nullptr,
                                  pointers_to(arguments).data(), pointers_to(entries).data());
  posix_spawn_file_actions_destroy(&files);
  if (failure != 0) throw std::runtime_error(program + ": " + strerror(failure));
  return process;
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ToolResult run_tool(const Words& words, const Variables& variables) {
  return run_program(KEEL_TOOL, words, variables);
}

ToolResult done(const Words& words) {
  ToolResult result = run_tool(words);
  REQUIRE_MESSAGE(result.exit_code == 0, join(words) << ": " << result.err);
  return result;
}

ToolResult run_program(const std::string& program, const Words& words, const Variables& variables) {
  const TempFolder temp;
  const std::string out = temp.file("out");
  const std::string err = temp.file("err");
  const pid_t process = start(program, words, variables, out, err);
  int status = 0;
  if (waitpid(process, &status, 0) != process) throw std::runtime_error("waitpid failed");
  return {exit_code_of(status), read_text(out), read_text(err)};
}

ToolResult run_tool_until(const Words& words, const std::function<bool()>& when, int signals,
                          int signal) {
  const TempFolder temp;
  const std::string out = temp.file("out");
  const std::string err = temp.file("err");
  const pid_t process = start(KEEL_TOOL, words, {}, out, err);
  int status = 0;
  int sent = 0;
  while (waitpid(process, &status, WNOHANG) != process) {
    if (sent < signals && when()) {
      kill(process, signal);
      ++sent;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {exit_code_of(status), read_text(out), read_text(err)};
}

ToolResult run_bash(const std::string& line, const Words& words, const Variables& variables) {
  Words all = {"-c", line, KEEL_TOOL};
  all.insert(all.end(), words.begin(), words.end());
  return run_program("/bin/bash", all, variables);
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + " cannot be read");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(read_text(path)); }

std::vector<nlohmann::json> read_json_lines(const std::string& path) {
  std::vector<nlohmann::json> values;
  for (const std::string& line : lines_of(read_text(path))) {
    values.push_back(nlohmann::json::parse(line));
  }
  return values;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string join(const Words& words) {
  std::string text = "keel";
  for (const std::string& word : words) text += " " + word;
  return text;
}

}  // namespace keel_test
