// L2Contents: what L2 holds of the device's memory as tasks go over it: the bytes that were read or
// written last, as many as it has room for. What a task has written is there alone until it leaves
// for memory, and never goes there where something else is written in its place before. A value;
// one thread.
#ifndef KEEL_BACKENDS_NPU_SCHEDULER_L2_CONTENTS_H
#define KEEL_BACKENDS_NPU_SCHEDULER_L2_CONTENTS_H

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace keel::npu {

// Bytes of a buffer from begin to end.
struct MemoryRange {
  uint64_t buffer = 0;
  uint64_t begin = 0, end = 0;
  uint64_t bytes() const { return end - begin; }
};

class L2Contents {
 public:
  explicit L2Contents(uint64_t capacity) : capacity_(capacity) {}

  // Says that so many bytes which a task wrote left for memory.
  struct WrittenBack {
    uint32_t writer = 0;
    uint64_t bytes = 0;
  };

  uint64_t held(const MemoryRange& range) const;
  // The range is used last from now on; both return what had to leave for it.
  std::vector<WrittenBack> read(const MemoryRange& range);
  std::vector<WrittenBack> write(const MemoryRange& range, uint32_t writer);
  // Another than the cores writes to the range.
  void forget(const MemoryRange& range);
  void exchange(uint64_t one_buffer, uint64_t other_buffer);

  // undo() takes back all that was done since try_out(): so either branch of a cond begins with
  // what is held before it. Its time goes by what was done in between, however much is held. Pairs
  // nest.
  void try_out();
  void undo();  // REQUIRES a try_out() that is not undone yet

 private:
  static constexpr uint32_t kAsInMemory = std::numeric_limits<uint32_t>::max();
  using Place = std::pair<uint64_t, uint64_t>;  // buffer and first byte
  struct Piece {
    uint64_t end = 0;
    uint64_t used = 0;  // when it was, later being more
    uint32_t writer = kAsInMemory;
  };
  using Pieces = std::map<Place, Piece>;
  struct Change {
    bool inserted = false;  // or erased
    Place place;
    Piece piece;
  };
  struct Trial {
    size_t changes = 0;  // before it
    uint64_t now = 0;
  };

  void insert(uint64_t buffer, uint64_t begin, const Piece& piece);
  Pieces::iterator erase(Pieces::iterator it);
  // The same without a note for undo(), and the note.
  void put(const Place& place, const Piece& piece);
  Pieces::iterator remove(Pieces::iterator it);
  void note(bool inserted, const Place& place, const Piece& piece);
  // Marks a range that is one piece as used last, and says whether it is one. Most tasks read and
  // write what an earlier one did as a whole.
  bool touch_whole(const MemoryRange& range, std::optional<uint32_t> writer);
  // Takes out what lies in the range, cut at its ends.
  std::vector<std::pair<uint64_t, Piece>> take(const MemoryRange& range);
  std::vector<WrittenBack> make_room();

  uint64_t capacity_;
  uint64_t bytes_ = 0;
  uint64_t now_ = 0;
  Pieces pieces_;                                              // none of them overlap
  std::set<std::tuple<uint64_t, uint64_t, uint64_t>> by_use_;  // when used, buffer, first byte
  std::vector<Trial> trials_;                                  // the outermost first
  std::vector<Change> changes_;                                // of all trials, in their order
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_SCHEDULER_L2_CONTENTS_H
