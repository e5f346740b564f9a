// Errors of the library, told as ones of the flag that they are about.
#ifndef KEEL_EXAMPLES_CLI_BASE_FLAG_ERRORS_H
#define KEEL_EXAMPLES_CLI_BASE_FLAG_ERRORS_H

#include <string>
#include <utility>

#include <keel/core/base/error.h>

namespace keel_cli {

// Throws the error of a flag ("--resume") whose value, or whose place beside others, is wrong.
[[noreturn]] inline void refuse_flag(const std::string& flag, const std::string& message,
                                     const std::string& fix) {
  throw keel::Error(
      {.op = flag, .message = message, .fix = fix, .kind = keel::ErrorKind::kInvalidArgument});
}

// Returns what `action` does. Its errors have the flag ("--resume") in front, in place of the
// library's own word for it, `op`, where they begin with that.
template <class Action>
auto in_flag(const std::string& flag, Action action, const std::string& op = "") {
  try {
    return action();
  } catch (const keel::Error& error) {
    keel::ErrorInfo info = error.info();
    if (op.empty() || info.op != op) throw error.with_context(flag);
    info.op = flag;
    throw keel::Error(std::move(info));
  }
}

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_FLAG_ERRORS_H
