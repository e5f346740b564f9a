// LoopSize: how many steps one launch of a sunk loop runs where the call does not say. Explicit
// settings (a flag, an option of the API) come first, then the environment variable NPU_LOOP_SIZE,
// then a fallback. Owned by a Session or by a program that reads flags; one thread at a time.
#ifndef KEEL_GRAPH_RUNTIME_LOOP_SIZE_H
#define KEEL_GRAPH_RUNTIME_LOOP_SIZE_H

#include <cstdint>
#include <string>
#include <string_view>

#include "keel/core/base/export.h"

namespace keel {

inline constexpr const char* kLoopSizeVariable = "NPU_LOOP_SIZE";

class KEEL_API LoopSize {
 public:
  explicit LoopSize(int64_t fallback = 1) : value_(fallback) {}

  // Makes an explicit setting; `source` names it in errors ("--loop-size"). Throws Error
  // (kInvalidArgument) for a value < 1, and LOOP_SIZE_MISMATCH for one that differs from the
  // explicit setting in force, naming both; then the old value stays.
  void set(int64_t value, const std::string& source);
  // Does the same from text, which must be a whole number.
  void set(std::string_view text, const std::string& source);
  // Makes a later change: never a conflict with what was set. Throws for a value < 1; then the old
  // value stays.
  void change(int64_t value);

  // Says that the host feeds each step, so that a launch has one, and who asked for it
  // ("--data-sink off"): the fallback is 1 from now on, and every other size, be it set before or
  // later or in the environment, an Error (kInvalidArgument) that names both. Another data_sink of
  // the same mind changes nothing.
  void without_data_sink(const std::string& source);

  // Returns the size in force: what was set, else the environment, else the fallback. Throws Error
  // (kInvalidArgument) where the variable is set and is not a whole number >= 1, also where
  // something explicit is in force.
  int64_t value() const;
  // value(), which a line of the log at info level names with its source whenever it is another
  // than the last time.
  int64_t use();
  // Returns where value() comes from: the explicit setting's source, "NPU_LOOP_SIZE", or "default".
  std::string source() const;
  bool is_explicit() const noexcept { return !source_.empty(); }
  // For `source` ("a tuner"), which wants to find the size itself: throws Error LOOP_SIZE_MISMATCH
  // where an explicit setting is in force, and that of without_data_sink() where the size is 1.
  void require_tunable(const std::string& source) const;

 private:
  void require_fed(int64_t value, const std::string& source) const;

  int64_t value_;
  std::string fed_by_host_;  // who switched data_sink off; empty: it is on
  std::string source_;       // of the explicit setting; empty where there is none
  int64_t told_ = 0;         // the size that use() last named; 0: none yet
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_LOOP_SIZE_H
