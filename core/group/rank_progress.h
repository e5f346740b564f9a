// RankProgress: how far a rank is, in memory that its launcher shares with it, so that what the
// rank did last, and what it saved, can be told when it is gone. Written by the rank's loop and the
// thread that writes its checkpoints, read by the launcher.
#ifndef KEEL_CORE_GROUP_RANK_PROGRESS_H
#define KEEL_CORE_GROUP_RANK_PROGRESS_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "keel/core/base/export.h"

namespace keel {

// Plain words without pointers, zero at first: two processes map them at different addresses.
struct RankProgress {
  static constexpr size_t kNameWords = 8;
  static constexpr size_t kPathWords = 64;

  std::atomic<int64_t> step{0};             // the one that is under way; 0: none has begun
  std::atomic<int64_t> collective{0};       // reductions begun
  std::atomic<int64_t> collective_step{0};  // the step of the last one; 0: before any, -1: joining
  std::atomic<uint64_t> name[kNameWords] = {};  // of the last one, its first characters

  std::atomic<uint64_t> checkpoint[kPathWords] = {};  // the newest file to go on from
  std::atomic<uint64_t> checkpoint_bytes{0};          // of its path; 0: none, or a longer one

  void begin(const std::string& reduction) noexcept;
  void save(const std::string& path) noexcept;
  // Empty where nothing was saved.
  KEEL_API std::string saved() const;
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

// "in step 5, at bucket1 (collective 14)"; before the first one of a step "in step 6, behind
// bucket1 (collective 14) of step 5"; "before its first collective".
KEEL_API std::string to_string(const RankProgress& progress);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_RANK_PROGRESS_H
