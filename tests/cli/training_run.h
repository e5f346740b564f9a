// A run of `keel train` that goes well, with all that it says and writes.
#ifndef KEEL_TESTS_CLI_TRAINING_RUN_H
#define KEEL_TESTS_CLI_TRAINING_RUN_H

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/tool.h"
#include "support/temp_folder.h"

namespace keel_test {

struct TrainingRun {
  std::string out, err, metrics;
  nlohmann::json summary;
};

// Trains with the words behind flags that let the metrics and the summary go to the folder.
inline TrainingRun training_run(const TempFolder& files, const Words& words,
                                const Variables& variables = {}) {
  const Words all = with(
      {"train", "--summary", files.file("summary"), "--metrics", files.file("metrics")}, words);
  CAPTURE(join(all));
  const ToolResult result = run_tool(all, variables);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  return {result.out, result.err, read_text(files.file("metrics")),
          read_json(files.file("summary"))};
}

}  // namespace keel_test

#endif  // KEEL_TESTS_CLI_TRAINING_RUN_H
