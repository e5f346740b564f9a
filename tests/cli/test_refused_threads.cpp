// A training on a system that refuses threads: it ends with an error or goes on with fewer, never
// in another way.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "issues/refused_threads.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

#ifdef KEEL_REFUSED_THREADS

namespace keel_test {

TEST_CASE("a training survives each thread that the system refuses") {
  const DataFolder data(300, 100);
  for (const std::string and_later : {"", "-"}) {
    int refused = 0;
    for (int call = 1; call < 40; ++call) {
      const TempFolder temp;
      const std::string mark = temp.file("mark");
      const ToolResult result =
          run_tool({"train", "--data", data.path(), "--model", "mlp", "--steps", "20", "--batch",
                    "100", "--threads", "5", "--no-cache", "--save", temp.file("saved")},
                   {{"LD_PRELOAD", KEEL_REFUSED_THREADS},
                    {kRefuseThread, std::to_string(call) + and_later},
                    {kRefusedMark, mark}});
      CAPTURE(call);
      CAPTURE(result.err);
      const bool done = result.exit_code == 0;
      if (done) CHECK(std::filesystem::exists(temp.file("saved")));
      if (!std::filesystem::exists(mark)) {
        CHECK(done);
        break;
      }
      ++refused;
      if (!done) CHECK(result.exit_code == 1);
      CHECK(contains(result.err, done ? "fewer" : "keel: error:"));
    }
    CHECK(refused >= 3);
  }
}

}  // namespace keel_test

#endif

TEST_SUITE_END();
