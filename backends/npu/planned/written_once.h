// WrittenOnce: which core and tile wrote each element of an output. A second write and, in the end,
// an element without one are errors that name them. One thread.
#ifndef KEEL_BACKENDS_NPU_PLANNED_WRITTEN_ONCE_H
#define KEEL_BACKENDS_NPU_PLANNED_WRITTEN_ONCE_H

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/backends/npu/device/core.h"

namespace keel::npu {

class WrittenOnce {
 public:
  // `name`: "output 0".
  WrittenOnce(std::string name, int64_t elements)
      : name_(std::move(name)), writer_(static_cast<size_t>(elements)) {}

  // The core's tile writes elements [begin, begin + count).
  void write(const Core& core, int64_t begin, int64_t count);
  // After the last tile.
  void require_all(const Core& core) const;
  std::optional<int64_t> first_gap() const;
  // "core 3, tile 5". REQUIRES that the element is written.
  std::string writer_of(int64_t element) const;

 private:
  struct Writer {
    int32_t block = -1, tile = -1;
  };
  std::string name_;
  std::vector<Writer> writer_;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PLANNED_WRITTEN_ONCE_H
