// The one line that says what bounds a training, from made-up times.
#include <algorithm>

#include <doctest/doctest.h>

#include "cli/train/feeding_doctor.h"

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
        "bound by the device: it waits for data 2 % of wall; the feed by itself is 5.0 times as "
        "fast");
  CHECK(feeding_verdict({.step_us = 100, .queue_wait_us = 2, .stages = {}}) ==
        "bound by the device: it waits for data 2 % of wall");
}

TEST_CASE("feeding doctor: without stages it says where to look") {
  CHECK(feeding_verdict({.step_us = 100, .queue_wait_us = 30, .stages = {}, .data_sink = false}) ==
        "bound by the host, which feeds each step: device idle 30 %; try --data-sink on");
  CHECK(feeding_verdict({.step_us = 100, .queue_wait_us = 2, .stages = {}, .data_sink = false}) ==
        "bound by the device: it waits for data 2 % of wall");
  CHECK(feeding_verdict({.step_us = 100, .queue_wait_us = 30, .stages = {}}) ==
        "bound by the feed: device idle 30 %; `keel bench feed` names the stage");
}

TEST_CASE("feeding doctor: the verdict contradicts no figure it is made of") {
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  for (const double step : {0.0, 1.0, 50.0, 1000.0}) {
    for (const double waited : {0.0, 0.02, 0.049, 0.051, 0.4, 0.99, 1.0, 1.3}) {
      for (const double fed : {0.0, 0.01, 0.3, 0.59, 0.61, 0.95, 0.96, 1.0, 1.3, 40.0}) {
        const FeedSigns signs{.step_us = step,
                              .queue_wait_us = step * waited,
                              .stages = {stage("shuffle", step * fed / 4, "a"),
                                         stage("map", step * fed * 3 / 4, "b")}};
        const std::string text = feeding_verdict(signs);
        CAPTURE(text);
        CAPTURE(step);
        CAPTURE(waited);
        CAPTURE(fed);
        CHECK(!has(text, "nan"));
        CHECK(!has(text, "inf"));
        // Who waits is what the training measured, whatever the feed takes by itself.
        const bool waits = step > 0 && waited >= 0.05;
        CHECK(has(text, "bound by the device") == !waits);
        // A feed is called faster only where it is, and slow only where it is.
        CHECK(has(text, "times as fast") == (!waits && step > 0 && fed > 0 && fed * 1.05 < 1.0005));
        CHECK(!has(text, " 0."));
        const bool explains = fed >= 1 - std::min(waited, 1.0) / 2;
        CHECK(has(text, "bound by map") == (waits && explains));
        CHECK(has(text, "bound by the processor") == (waits && !explains));
      }
    }
  }
}

TEST_CASE("feeding doctor: what the figures of a loaded machine come to") {
  // Measured once: an empty wait, and a feed that took 1.25 steps by itself.
  const std::string waits =
      "bound by the device: it waits for data 0 % of wall, though the feed by itself takes ";
  CHECK(feeding_verdict({.step_us = 80, .queue_wait_us = 0, .stages = {stage("copy", 100, "a")}}) ==
        waits + "1.2 times as long");
  CHECK(feeding_verdict({.step_us = 10, .queue_wait_us = 0, .stages = {stage("copy", 400, "a")}}) ==
        waits + "40.0 times as long");
  CHECK(
      feeding_verdict({.step_us = 100, .queue_wait_us = 0, .stages = {stage("copy", 98, "a")}}) ==
      "bound by the device, just: it waits for data 0 % of wall; the feed by itself takes as long");
  CHECK(
      feeding_verdict({.step_us = 100, .queue_wait_us = 40, .stages = {stage("copy", 10, "a")}}) ==
      "bound by the processor: device idle 40 %, though the feed by itself takes 10 % of wall; "
      "try fewer --threads");
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
