// The warnings of the log while a test runs.
#ifndef KEEL_TESTS_SUPPORT_LOGGED_WARNINGS_H
#define KEEL_TESTS_SUPPORT_LOGGED_WARNINGS_H

#include <string>
#include <vector>

#include "keel/core/base/log.h"

namespace keel_test {

// The warnings of the log while it lives.
class LoggedWarnings {
 public:
  LoggedWarnings() {
    keel::set_log_sink([this](keel::LogLevel level, const std::string& line) {
      if (level == keel::LogLevel::kWarn) lines_.push_back(line);
    });
  }
  ~LoggedWarnings() { keel::set_log_sink({}); }
  LoggedWarnings(const LoggedWarnings&) = delete;
  LoggedWarnings& operator=(const LoggedWarnings&) = delete;

  const std::vector<std::string>& lines() const { return lines_; }
  // The lines one below the other.
  std::string text() const {
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

 private:
  std::vector<std::string> lines_;
};

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_LOGGED_WARNINGS_H
