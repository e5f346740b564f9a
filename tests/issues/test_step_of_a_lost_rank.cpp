// The place of a rank that had begun a step, and no sum of it yet, was that step with the sum and
// the number of the step before: "in step 466, at bucket 4 of 4 (collective 2000)".
#include <string>

#include <doctest/doctest.h>

#include "keel/core/group/rank_progress.h"

TEST_SUITE_BEGIN("loop");

TEST_CASE("the place of a rank between two steps names the step of its last sum") {
  keel::RankProgress progress;
  CHECK(to_string(progress) == "before its first collective");
  // The states, which ranks compare before their first step, belong to none.
  progress.begin("states");
  CHECK(to_string(progress) == "at states (collective 1)");
  progress.step = 1;
  CHECK(to_string(progress) == "in step 1, behind states (collective 1)");
  for (const char* bucket : {"bucket 1 of 2", "bucket 2 of 2"}) progress.begin(bucket);
  CHECK(to_string(progress) == "in step 1, at bucket 2 of 2 (collective 3)");
  progress.step = 2;
  CHECK(to_string(progress) == "in step 2, behind bucket 2 of 2 (collective 3) of step 1");
  progress.begin("bucket 1 of 2");
  CHECK(to_string(progress) == "in step 2, at bucket 1 of 2 (collective 4)");
  // Steps that sum nothing lie between.
  progress.step = 7;
  CHECK(to_string(progress) == "in step 7, behind bucket 1 of 2 (collective 4) of step 2");
}

TEST_SUITE_END();
