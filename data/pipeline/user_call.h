// call_user: runs a function that the user gave; what it throws comes out as an Error that names
// the stage, the item and the line where the stage was made. Internal to data.
#ifndef KEEL_DATA_PIPELINE_USER_CALL_H
#define KEEL_DATA_PIPELINE_USER_CALL_H

#include <cstdint>
#include <exception>
#include <string>

#include "keel/core/base/error.h"

namespace keel {

[[noreturn]] inline void throw_user_error(const std::string& stage, int64_t item, CallSite site,
                                          const std::string& message) {
  throw Error(
      {.op = stage, .argument = "item " + std::to_string(item), .message = message, .site = site});
}

template <class F>
auto call_user(const std::string& stage, int64_t item, CallSite site, F&& f) {
  try {
    return f();
  } catch (const std::exception& e) {
    throw_user_error(stage, item, site, e.what());
  } catch (...) {
    throw_user_error(stage, item, site, "threw something that is no exception");
  }
}

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_USER_CALL_H
