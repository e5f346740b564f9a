// Arguments as nobody types them: too long for the parser, with control characters.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "cli/data_set.h"
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

TEST_CASE("control characters of files that are read do not reach the terminal") {
  const TempFolder files;
  const std::string red = "\x1b[31m\x07\nbest";
  const std::string data = files.file(red), states = files.file("states" + red);
  std::filesystem::create_directory(data);
  const DataFolder set(40, 10);
  std::filesystem::copy(set.path(), data);
  std::string preset =
      read_text(std::string(KEEL_SOURCE_DIR) + "/backends/npu/presets/ascend910b1.json");
  const std::string key = "\"description\": \"";
  preset.insert(preset.find(key) + key.size(), "\\u001b[31m\\u0007");
  // A saved file may have such a name, but not name such data.
  REQUIRE(
      run_tool({"train", "--data", set.path(), "--batch", "20", "--steps", "2", "--save", states})
          .exit_code == 0);
  for (const Words& words :
       {Words{"train", "--data", data, "--batch", "20", "--steps", "2"},
        Words{"train", "--resume", states, "--steps", "3"},
        Words{"train", "--data", data, "--init", states, "--batch", "20", "--steps", "1"},
        Words{"eval", "--load", states, "--data", data},
        Words{"predict", "--load", states, "--data", data, "--index", "1"},
        Words{"inspect", states},
        Words{"bench", "train", "--data", data, "--models", "softmax", "--backends", "cpu",
              "--threads", "1", "--batches", "20", "--loop-sizes", "2", "--seconds", "0.001"},
        Words{"info", "--preset", files.write("p.json", preset)}}) {
    CAPTURE(words[0]);
    const ToolResult result = run_tool(words);
    CHECK_MESSAGE(result.exit_code == 0, result.err);
    CHECK_FALSE(contains(result.out + result.err, "\x1b"));
    CHECK_FALSE(contains(result.out + result.err, "\x07"));
    CHECK_FALSE(contains(result.out, "\nbest"));
    CHECK(contains(result.out, "\\x1b[31m\\x07"));
  }
}

TEST_SUITE_END();

}  // namespace keel_test
