// Logging: levels and the sink of the program's own.
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/base/error.h"
#include "keel/core/base/log.h"

TEST_SUITE_BEGIN("unit");

TEST_CASE("lines below the level are dropped and others reach the sink") {
  using keel::LogLevel;
  const LogLevel before = keel::log_level();
  std::vector<std::pair<LogLevel, std::string>> lines;
  keel::set_log_sink(
      [&](LogLevel level, const std::string& line) { lines.emplace_back(level, line); });
  keel::set_log_level(LogLevel::kInfo);
  CHECK(keel::log_enabled(LogLevel::kInfo));
  CHECK_FALSE(keel::log_enabled(LogLevel::kDebug));
  keel::log_debug("hidden");
  keel::log_info("seen {} %s");
  keel::log_error("bad");
  keel::log(LogLevel::kOff, "off is no level of a line");
  keel::set_log_level(LogLevel::kOff);
  keel::log_error("hidden");
  keel::set_log_sink({});
  keel::set_log_level(before);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == std::pair(LogLevel::kInfo, std::string("seen {} %s")));
  CHECK(lines[1] == std::pair(LogLevel::kError, std::string("bad")));
}

TEST_CASE("a sink that throws does no harm") {
  const keel::LogLevel before = keel::log_level();
  keel::set_log_level(keel::LogLevel::kError);
  keel::set_log_sink([](keel::LogLevel, const std::string&) { throw keel::Error("full"); });
  CHECK_NOTHROW(keel::log_error("x"));
  keel::set_log_sink({});
  keel::set_log_level(before);
}

TEST_CASE("levels have names") {
  CHECK(keel::parse_log_level("trace") == keel::LogLevel::kTrace);
  CHECK(keel::parse_log_level("warn") == keel::LogLevel::kWarn);
  CHECK(keel::parse_log_level("off") == keel::LogLevel::kOff);
  CHECK_THROWS_WITH(static_cast<void>(keel::parse_log_level("wran")),
                    "log level: expected one of trace, debug, info, warn, error, off, got 'wran'; "
                    "did you mean 'warn'?");
}

TEST_CASE("KEEL_LOG that names no level is an error") {
  const char* old = std::getenv("KEEL_LOG");
  const std::string before = old == nullptr ? "" : old;
  unsetenv("KEEL_LOG");
  CHECK(keel::log_level_in_environment() == keel::LogLevel::kWarn);
  setenv("KEEL_LOG", "debug", 1);
  CHECK(keel::log_level_in_environment() == keel::LogLevel::kDebug);
  setenv("KEEL_LOG", "loud", 1);
  const char* expected =
      "KEEL_LOG: expected one of trace, debug, info, warn, error, off, got 'loud'";
  CHECK_THROWS_WITH(static_cast<void>(keel::log_level_in_environment()), expected);
  CHECK_THROWS_WITH(static_cast<void>(keel::device("ref")), expected);
  if (old == nullptr)
    unsetenv("KEEL_LOG");
  else
    setenv("KEEL_LOG", before.c_str(), 1);
}

TEST_SUITE_END();
