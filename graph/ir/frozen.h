// How a frozen graph refuses what would change it.
#ifndef KEEL_GRAPH_IR_FROZEN_H
#define KEEL_GRAPH_IR_FROZEN_H

#include <string>

#include "keel/core/base/call_site.h"
#include "keel/core/base/error.h"

namespace keel {

// Throws Error in the name of `op`, which was called at `site`.
[[noreturn]] inline void refuse_frozen(const std::string& op, CallSite site,
                                       const char* fix = "change it before freeze()") {
  throw Error({.op = op, .message = "GRAPH_FROZEN: the graph is frozen", .fix = fix, .site = site});
}

}  // namespace keel

#endif  // KEEL_GRAPH_IR_FROZEN_H
