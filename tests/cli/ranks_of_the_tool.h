// What tests of several ranks of the tool share.
#ifndef KEEL_TESTS_CLI_RANKS_OF_THE_TOOL_H
#define KEEL_TESTS_CLI_RANKS_OF_THE_TOOL_H

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/error_of.h"

namespace keel_test {

// Says whether the tool cannot start ranks, and tells that the test is skipped then.
inline bool without_gloo() {
  const ToolResult result = run_tool({"launch", "-n", "2", "--", "true"});
  const bool none = contains(result.err, "this build of Keel has no Gloo");
  if (none) MESSAGE("keel test skipped: this build has no Gloo");
  return none;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_CLI_RANKS_OF_THE_TOOL_H
