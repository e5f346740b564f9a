// `keel bench train` measures the memory of a training in a process of its own. One that was ended
// meanwhile left that training and two files behind.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace keel_test {

TEST_SUITE_BEGIN("cli");

TEST_CASE("bench train: a signal that ends it ends its training and leaves no file") {
  const TempFolder folder;
  // The training is stopped at once, so that it cannot end by itself.
  const ToolResult run = run_bash(R"sh(
      "$0" bench train --models softmax --backends ref --threads 1 --batches 1 --seconds 0.05 \
        > "$1/out" 2>&1 &
      bench=$! child=
      until [ -n "$child" ] || ! kill -0 $bench; do
        child=$(cat /proc/$bench/task/*/children 2> /dev/null)
      done
      child=${child%% *}
      ended() { ! kill -0 $child || [ "$(sed 's/.*) //; s/ .*//' /proc/$child/stat)" = Z ]; }
      until grep -q -- --summary /proc/$child/cmdline || ended; do :; done
      kill -STOP $child && echo "training began"
      kill -TERM $bench
      wait $bench; echo "bench $?"
      for i in $(seq 500); do ended && break; sleep 0.01; done
      ended && echo "training ended" || kill -KILL $child
      ls "$1" | grep -v out)sh",
                                  {folder.path()}, {{"TMPDIR", folder.path()}});
  CHECK_MESSAGE(run.out == "training began\nbench 143\ntraining ended\n", (run.out + run.err));
}

TEST_SUITE_END();

}  // namespace keel_test
