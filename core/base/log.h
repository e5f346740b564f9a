// Logging, off the hot path: lines of the logger "keel" on stderr, at the level that the
// environment variable KEEL_LOG names (trace, debug, info, warn, error, off; default warn).
// Programs may set the level or take the lines themselves. Any thread.
//
// Logging itself never fails, so a KEEL_LOG that names no level shows when the first device is
// asked for (keel::device), and where a program calls log_level_in_environment().
#ifndef KEEL_CORE_BASE_LOG_H
#define KEEL_CORE_BASE_LOG_H

#include <functional>
#include <string>
#include <string_view>

#include "keel/core/base/export.h"

namespace keel {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

KEEL_API LogLevel log_level() noexcept;
KEEL_API void set_log_level(LogLevel level) noexcept;
// Throws Error (kInvalidArgument) naming the choices.
KEEL_API LogLevel parse_log_level(std::string_view name);
// Returns what KEEL_LOG names, warn where it is unset. Throws Error (kInvalidArgument) naming the
// choices.
KEEL_API LogLevel log_level_in_environment();

// Takes the lines instead of stderr; an empty function brings stderr back. Called under a lock:
// must not log.
using LogSink = std::function<void(LogLevel, const std::string&)>;
KEEL_API void set_log_sink(LogSink sink);

// Writes the line if its level is enabled. Never throws: a line that cannot be written is lost.
KEEL_API void log(LogLevel level, const std::string& line) noexcept;

// Ask first where building the line costs something.
inline bool log_enabled(LogLevel level) noexcept { return level >= log_level(); }
inline void log_debug(const std::string& line) noexcept { log(LogLevel::kDebug, line); }
inline void log_info(const std::string& line) noexcept { log(LogLevel::kInfo, line); }
inline void log_warn(const std::string& line) noexcept { log(LogLevel::kWarn, line); }
inline void log_error(const std::string& line) noexcept { log(LogLevel::kError, line); }

}  // namespace keel

#endif  // KEEL_CORE_BASE_LOG_H
