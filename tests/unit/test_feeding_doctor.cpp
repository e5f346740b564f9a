// The one line that says what bounds a training, from made-up times.
#include <doctest/doctest.h>

#include "cli/feeding_doctor.h"

namespace keel_cli {
namespace {

FeedStage stage(const char* name, double own_us, const char* advice) {
  return {.name = name, .own_us = own_us, .images_per_second = 0, .advice = advice};
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("feeding doctor: names the slowest stage while the device waits") {
  const FeedSigns signs{
      .step_us = 100,
      .queue_wait_us = 40,
      .stages = {stage("shuffle", 8, "a"), stage("map(normalise)", 71, "--map-threads 2"),
                 stage("copy to the device", 5, "c")}};
  CHECK(feeding_verdict(signs) ==
        "bound by map(normalise): 71 % of wall; device idle 40 %; try --map-threads 2");
}

TEST_CASE("feeding doctor: a device that hardly waits bounds itself") {
  const FeedSigns signs{.step_us = 100, .queue_wait_us = 2, .stages = {stage("shuffle", 20, "a")}};
  CHECK(feeding_verdict(signs) ==
        "bound by the device: it waits for data 2 % of wall; the feed could go 5.0 times as fast");
  CHECK(feeding_verdict({.step_us = 100, .queue_wait_us = 2, .stages = {}}) ==
        "bound by the device: it waits for data 2 % of wall");
}

TEST_CASE("feeding doctor: without stages it says where to look") {
  CHECK(feeding_verdict({.step_us = 100, .queue_wait_us = 30, .stages = {}}) ==
        "bound by the feed: device idle 30 %; `keel bench feed` names the stage");
}

TEST_CASE("feeding doctor: occupancy in quarters") {
  // A queue of 8 that was found empty once, with 1 2 3 ... 8 waiting once each, and full once more.
  const std::string text = occupancy_histogram({1, 1, 1, 1, 1, 1, 1, 1, 2});
  CHECK(text.find("empty       10.0 %") != std::string::npos);
  CHECK(text.find("to 25 %     20.0 %") != std::string::npos);
  CHECK(text.find("to 50 %     20.0 %") != std::string::npos);
  CHECK(text.find("to 75 %     20.0 %") != std::string::npos);
  CHECK(text.find("below full  10.0 %") != std::string::npos);
  CHECK(text.find("full        20.0 %") != std::string::npos);
  CHECK(occupancy_histogram({0, 0}).find("empty        0.0 %") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace keel_cli
