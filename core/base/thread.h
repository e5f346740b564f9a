// Plain threads. The system may refuse one: a limit of the process or the machine is reached, or
// there is no memory for a stack. Whoever starts a thread through here gets an Error then. Any
// thread.
#ifndef KEEL_CORE_BASE_THREAD_H
#define KEEL_CORE_BASE_THREAD_H

#include <functional>
#include <string>
#include <thread>

#include "keel/core/base/export.h"

namespace keel {

// Starts a thread that runs `body`, which must not throw. `purpose` stands in the Error ("the
// thread that feeds the queue").
KEEL_API std::thread start_thread(const std::string& purpose, std::function<void()> body);

}  // namespace keel

#endif  // KEEL_CORE_BASE_THREAD_H
