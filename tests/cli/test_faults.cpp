// Ranks that fail in many ways: a small part of the plan that tests/faults/run.sh carries out.
#include <string>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

using namespace keel_test;

TEST_CASE("faults: ranks that are lost do not come or differ end the others as they should") {
  const ToolResult result =
      run_bash(R"("$1" "$0" --small)", {std::string(KEEL_SOURCE_DIR) + "/tests/faults/run.sh"});
  if (contains(result.out, "skipped: this build has no Gloo")) {
    MESSAGE("keel test skipped: this build has no Gloo");
    return;
  }
  CHECK_MESSAGE(result.exit_code == 0, (result.out + result.err));
  CHECK(contains(result.out, "launcher killed"));
}

TEST_SUITE_END();
