// Arguments as nobody types them: too long for the parser, with control characters.
#include <string>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/error_of.h"

namespace keel_test {

TEST_SUITE_BEGIN("cli");

TEST_CASE("arguments of any length are refused with a message") {
  for (const size_t size : {size_t{5000}, size_t{33000}, size_t{120000}}) {
    const std::string text(size, 'x');
    for (const Words& words :
         {Words{"train", "--data=" + text}, Words{"train", "--data", text},
          Words{"train", "--" + text}, Words{"train", text}, Words{"info", "--" + text + "=1"},
          Words{"profile", "--plugin=" + text}}) {
      const ToolResult result = run_tool(words);
      CAPTURE(size);
      CHECK(result.exit_code == 2);
      CHECK(contains(result.err, "are taken"));
      CHECK(result.err.size() < 1000);
    }
    const ToolResult command = run_tool({text});
    CHECK(command.exit_code == 2);
    CHECK(command.err.size() < 5000);
  }
}

TEST_CASE("control characters of arguments do not reach the terminal") {
  const std::string red = "\x1b[31m\x07";
  for (const Words& words :
       {Words{"train", "--data", "/no/" + red}, Words{"train", "--model", red},
        Words{"train", "--" + red}, Words{red}, Words{"profile", "/no/" + red},
        Words{"train", "--steps", "1", "--save", "/no/" + red}, Words{"bench", red}}) {
    const ToolResult result = run_tool(words);
    CHECK(result.exit_code != 0);
    CHECK_FALSE(contains(result.out + result.err, "\x1b"));
    CHECK_FALSE(contains(result.out + result.err, "\x07"));
    CHECK(contains(result.err, "\\x1b[31m\\x07"));
  }
}

TEST_SUITE_END();

}  // namespace keel_test
