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

// A launch of several steps takes their elements out of the device queue.
Error unfed(const std::string& claim, const std::string& fed_by_host) {
  return Error({.op = "loop size",
                .message = claim + " and " + fed_by_host +
                           " says that the host feeds each step: a launch of more than one step "
                           "takes its batches from the device queue, which data_sink fills",
                .fix = "make the loop size 1, or leave data_sink on",
                .kind = ErrorKind::kInvalidArgument});
}

[[noreturn]] void refuse_both(const std::string& source, int64_t value, const std::string& other,
                              const std::string& fix) {
  throw Error({.op = "loop size",
               .message = "LOOP_SIZE_MISMATCH: " + source + " says " + std::to_string(value) +
                          " and " + other,
               .fix = fix,
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace

void LoopSize::set(int64_t value, const std::string& source) {
  require_positive(value, source);
  if (is_explicit() && value != value_) {
    refuse_both(source_, value_, source + " says " + std::to_string(value),
                "set it in one place, or to the same value in both; set_loop_size() changes it");
  }
  require_fed(value, source);
  value_ = value;
  source_ = source;
}

void LoopSize::require_tunable(const std::string& source) const {
  if (!fed_by_host_.empty()) throw unfed(source + " looks for a size", fed_by_host_);
  if (!is_explicit()) return;
  refuse_both(source_, value_, source + " is to find the size", "give one of the two");
}

void LoopSize::set(std::string_view text, const std::string& source) {
  set(parse_integer(text, source, 1), source);
}

void LoopSize::change(int64_t value) {
  require_positive(value, "set_loop_size");
  require_fed(value, "set_loop_size");
  value_ = value;
  source_ = "set_loop_size";
}

void LoopSize::require_fed(int64_t value, const std::string& source) const {
  if (!fed_by_host_.empty() && value != 1)
    throw unfed(source + " says " + std::to_string(value), fed_by_host_);
}

void LoopSize::without_data_sink(const std::string& source) {
  if (!fed_by_host_.empty()) return;
  fed_by_host_ = source;
  try {
    if (is_explicit()) require_fed(value_, source_);
  } catch (...) {
    fed_by_host_.clear();
    throw;
  }
  if (!is_explicit()) value_ = 1;
}

int64_t LoopSize::value() const {
  const std::optional<int64_t> environment = environment_integer(kLoopSizeVariable, 1);
  if (environment && !is_explicit()) require_fed(*environment, kLoopSizeVariable);
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
