#include "keel/core/base/thread.h"

#include <system_error>
#include <utility>

#include "keel/core/base/error.h"

namespace keel {

std::thread start_thread(const std::string& purpose, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw Error({.op = "thread",
                 .message = purpose + " cannot be started: " + error.code().message(),
                 .fix = "end other programs, raise the limit on threads (ulimit -u), or ask for "
                        "fewer threads"});
  }
}

}  // namespace keel
