#include "keel/core/base/log.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "keel/core/base/environment.h"
#include "keel/core/base/printable.h"

namespace keel {
namespace {

const std::vector<std::string>& level_names() {
  static const std::vector<std::string> names = {"trace", "debug", "info", "warn", "error", "off"};
  return names;
}

constexpr size_t kMostOfLine = 8000;

constexpr std::array kSpdlogLevels = {spdlog::level::trace, spdlog::level::debug,
                                      spdlog::level::info,  spdlog::level::warn,
                                      spdlog::level::err,   spdlog::level::off};

// Leaked, so that destructors of static objects may still log.
struct Logging {
  spdlog::logger logger{"keel", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  std::mutex mutex;
  LogSink sink;
  std::atomic<LogLevel> level{LogLevel::kWarn};

  void write(LogLevel at, const std::string& line) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (sink)
      sink(at, line);
    else
      logger.log(kSpdlogLevels[static_cast<size_t>(at)], spdlog::string_view_t(line));
  }
};

Logging& logging() {
  static Logging* instance = [] {
    auto made = std::make_unique<Logging>();
    made->logger.set_level(spdlog::level::trace);
    made->logger.set_pattern("[%H:%M:%S.%e] [%n] [%l] %v");
    try {
      made->level = log_level_in_environment();
    } catch (const Error&) {
      made->level = LogLevel::kWarn;  // whoever asks for a device gets the error
    }
    return made.release();
  }();
  return *instance;
}

}  // namespace

LogLevel log_level() noexcept {
  try {
    return logging().level.load(std::memory_order_relaxed);
  } catch (...) {
    return LogLevel::kOff;  // no memory for the logger
  }
}

void set_log_level(LogLevel level) noexcept {
  try {
    logging().level.store(level, std::memory_order_relaxed);
  } catch (...) {
    return;
  }
}

LogLevel parse_log_level(std::string_view name) {
  const std::string chosen = parse_choice(name, "log level", level_names());
  size_t i = 0;
  while (level_names()[i] != chosen) ++i;
  return static_cast<LogLevel>(i);
}

LogLevel log_level_in_environment() {
  const auto name = environment_choice("KEEL_LOG", level_names());
  return name ? parse_log_level(*name) : LogLevel::kWarn;
}

void set_log_sink(LogSink sink) {
  const std::lock_guard<std::mutex> lock(logging().mutex);
  logging().sink = std::move(sink);
}

void log(LogLevel level, const std::string& line) noexcept {
  if (level >= LogLevel::kOff || !log_enabled(level)) return;
  try {
    logging().write(level, printable(line, kMostOfLine));
  } catch (...) {
    return;  // logging must not become the failure
  }
}

}  // namespace keel
