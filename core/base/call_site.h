// CallSite: the user's source line. Builder functions take one as a defaulted argument, so that an
// error or a graph dump can name the line that asked for an op. The outermost capture wins: layers
// and optimizers pass theirs on. A plain value; any thread.
#ifndef KEEL_CORE_BASE_CALL_SITE_H
#define KEEL_CORE_BASE_CALL_SITE_H

#include <string>

#include "keel/core/base/export.h"

namespace keel {

struct CallSite {
  const char* file = nullptr;  // static storage (from __builtin_FILE) or interned by intern_file()
  int line = 0;

  static constexpr CallSite here(const char* file = __builtin_FILE(),
                                 int line = __builtin_LINE()) noexcept {
    return CallSite{file, line};
  }
  bool known() const noexcept { return file != nullptr && line > 0; }
};

// "model.cpp:12" (the path as the compiler saw it), or "unknown line".
KEEL_API std::string to_string(CallSite site);

// Returns a copy of `file` that lives as long as the process; for sites read back from text.
KEEL_API const char* intern_file(const std::string& file);

}  // namespace keel

#endif  // KEEL_CORE_BASE_CALL_SITE_H
