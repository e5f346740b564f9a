// What tests of refused command lines share: exit codes, a run that ends with one line, and files
// of a few lines.
#ifndef KEEL_TESTS_CLI_REFUSALS_H
#define KEEL_TESTS_CLI_REFUSALS_H

#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "cli/tool.h"

namespace keel_test {

// The exit codes of the tool where it refuses or fails.
inline constexpr int kFailed = 1;         // wrong against data, files or at run time
inline constexpr int kWrongArgument = 2;  // a flag, environment variable or setting wrong in itself
inline constexpr int kUnsupported = 3;    // nothing here does what is asked for

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

// Returns the one line on standard error with which the tool refuses the words.
inline std::string refusal(const Words& words, int exit_code = 2) {
  const ToolResult result = run_tool(words);
  CAPTURE(join(words));
  CHECK(result.exit_code == exit_code);
  CHECK_MESSAGE(lines_of(result.err).size() == 1, result.err);
  return result.err;
}

// Checks how a run that failed has ended, and that its standard error says all of the parts.
inline void check_failed(const ToolResult& result, int exit_code, const Words& parts) {
  CHECK(result.exit_code == exit_code);
  for (const std::string& part : parts)
    CHECK_MESSAGE(result.err.find(part) != std::string::npos, result.err << " lacks " << part);
}

}  // namespace keel_test

#endif  // KEEL_TESTS_CLI_REFUSALS_H
