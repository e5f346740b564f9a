// Notices: what went wrong in a training that goes on all the same. Each error and warning is
// printed at once and kept for the summary, and an error makes the command fail in the end. Any
// thread.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_NOTICES_H
#define KEEL_EXAMPLES_CLI_TRAIN_NOTICES_H

#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "cli/base/errors.h"

namespace keel_cli {

class Notices {
 public:
  // `tells_warnings`: else they are kept only, as on ranks whose warnings are those of the first.
  explicit Notices(bool tells_warnings = true) : tells_warnings_(tells_warnings) {}
  void report(const std::exception& error) {
    print_error(error);
    const std::lock_guard<std::mutex> lock(mutex_);
    errors_.push_back(message_of(error));
  }
  void warn(const std::string& message) {
    if (tells_warnings_) print_warning(message);
    keep(message);
  }
  // A warning that the library's log has told already.
  void keep(const std::string& message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    warnings_.push_back(message);
  }
  // Runs `action`; whether it got by without an error, which is reported.
  template <class Action>
  bool attempt(Action action) {
    try {
      action();
      return true;
    } catch (const std::exception& error) {
      report(error);
      return false;
    }
  }

  std::vector<std::string> errors() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return errors_;
  }
  std::vector<std::string> warnings() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return warnings_;
  }

 private:
  const bool tells_warnings_;
  mutable std::mutex mutex_;
  std::vector<std::string> errors_;
  std::vector<std::string> warnings_;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_NOTICES_H
