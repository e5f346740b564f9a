// PrefetchList: memory that a kernel needs soon, which it brings into the caches while it computes
// something else. Only a hint: what does not fit into the list is left to be waited for. A value;
// one thread.
#ifndef KEEL_BACKENDS_COMMON_PREFETCH_H
#define KEEL_BACKENDS_COMMON_PREFETCH_H

#include <algorithm>
#include <array>
#include <cstddef>

namespace keel {

class PrefetchList {
 public:
  enum class Use { kRead, kWrite };

  void add(const void* first, size_t bytes, Use use) {
    if (bytes == 0 || count_ == ranges_.size()) return;
    ranges_[count_++] = {static_cast<const char*>(first), bytes, use};
  }

  // Brings share `number` of `shares` even ones of each range. Always inline: the compiler takes a
  // function that does nothing but this for one without an effect, and drops its calls.
  [[gnu::always_inline]] void bring(size_t number, size_t shares) const {
    for (size_t i = 0; i < count_; ++i) {
      const Range& range = ranges_[i];
      const size_t lines = (range.bytes + kLine - 1) / kLine;
      const char* line = range.first + lines * number / shares * kLine;
      const char* const end = range.first + lines * (number + 1) / shares * kLine;
      if (range.use == Use::kWrite) {
        for (; line < end; line += kLine) __builtin_prefetch(line, 1);
      } else {
        for (; line < end; line += kLine) __builtin_prefetch(line, 0);
      }
    }
  }

 private:
  static constexpr size_t kLine = 64;
  struct Range {
    const char* first;
    size_t bytes;
    Use use;
  };
  std::array<Range, 6> ranges_ = {};
  size_t count_ = 0;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PREFETCH_H
