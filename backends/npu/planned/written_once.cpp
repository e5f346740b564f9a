#include "keel/backends/npu/planned/written_once.h"

#include <algorithm>

namespace keel::npu {

void WrittenOnce::write(const Core& core, int64_t begin, int64_t count) {
  const auto all = static_cast<int64_t>(writer_.size());
  if (begin < 0 || count < 0 || begin > all - count) {
    core.fail(name_, "the plan writes elements " + std::to_string(begin) + " to " +
                         std::to_string(begin + count) + " of " + std::to_string(all));
  }
  for (int64_t i = begin; i < begin + count; ++i) {
    Writer& writer = writer_[static_cast<size_t>(i)];
    if (writer.block >= 0) {
      core.fail(name_, "tiles of the plan overlap: element " + std::to_string(i) +
                           " is written by " + writer_of(i) + " already");
    }
    writer = {static_cast<int32_t>(core.block()), static_cast<int32_t>(core.tile())};
  }
}

std::optional<int64_t> WrittenOnce::first_gap() const {
  const auto nobody = [](const Writer& writer) { return writer.block < 0; };
  const auto it = std::find_if(writer_.begin(), writer_.end(), nobody);
  if (it == writer_.end()) return std::nullopt;
  return it - writer_.begin();
}

std::string WrittenOnce::writer_of(int64_t element) const {
  const Writer& writer = writer_[static_cast<size_t>(element)];
  return "core " + std::to_string(writer.block) + ", tile " + std::to_string(writer.tile);
}

void WrittenOnce::require_all(const Core& core) const {
  const auto gap = first_gap();
  if (!gap) return;
  const std::string before =
      *gap == 0 ? ", the first of all" : ", behind what " + writer_of(*gap - 1) + " wrote";
  core.fail(name_, "a gap between the tiles of the plan: none writes element " +
                       std::to_string(*gap) + before);
}

}  // namespace keel::npu
