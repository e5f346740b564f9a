#include "keel/graph/runtime/loop_size.h"

#include <optional>
#include <utility>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/log.h"

namespace keel {
namespace {

void require_positive(int64_t value, const std::string& source) {
  if (value >= 1) return;
  throw Error({.op = source,
               .expected = "a loop size of at least 1",
               .got = std::to_string(value),
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace

void LoopSize::set(int64_t value, const std::string& source) {
  require_positive(value, source);
  if (is_explicit() && !changed_ && source != source_ && value != value_) {
    throw Error({.op = "loop size",
                 .message = source_ + " says " + std::to_string(value_) + " and " + source +
                            " says " + std::to_string(value),
                 .fix = "set it in one place, or to the same value in both",
                 .kind = ErrorKind::kInvalidArgument});
  }
  value_ = value;
  source_ = source;
  changed_ = false;
}

void LoopSize::set(std::string_view text, const std::string& source) {
  set(parse_integer(text, source, 1), source);
}

void LoopSize::change(int64_t value) {
  require_positive(value, "set_loop_size");
  value_ = value;
  source_ = "set_loop_size";
  changed_ = true;
}

int64_t LoopSize::value() const {
  const std::optional<int64_t> environment = environment_integer(kLoopSizeVariable, 1);
  return is_explicit() ? value_ : environment.value_or(value_);
}

int64_t LoopSize::use() {
  const int64_t steps = value();
  if (std::exchange(told_, steps) != steps)
    log_info("loop size " + std::to_string(steps) + " (" + source() + ")");
  return steps;
}

std::string LoopSize::source() const {
  if (is_explicit()) return source_;
  return environment_text(kLoopSizeVariable) ? kLoopSizeVariable : "default";
}

}  // namespace keel
