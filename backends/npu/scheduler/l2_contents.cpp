#include "keel/backends/npu/scheduler/l2_contents.h"

#include <algorithm>

namespace keel::npu {

void L2Contents::put(const Place& place, const Piece& piece) {
  pieces_.emplace(place, piece);
  by_use_.emplace(piece.used, place.first, place.second);
  bytes_ += piece.end - place.second;
}

L2Contents::Pieces::iterator L2Contents::remove(Pieces::iterator it) {
  const auto& [place, piece] = *it;
  by_use_.erase({piece.used, place.first, place.second});
  bytes_ -= piece.end - place.second;
  return pieces_.erase(it);
}

void L2Contents::note(bool inserted, const Place& place, const Piece& piece) {
  if (!trials_.empty()) changes_.push_back({inserted, place, piece});
}

void L2Contents::insert(uint64_t buffer, uint64_t begin, const Piece& piece) {
  if (begin >= piece.end) return;
  put({buffer, begin}, piece);
  note(true, {buffer, begin}, piece);
}

L2Contents::Pieces::iterator L2Contents::erase(Pieces::iterator it) {
  note(false, it->first, it->second);
  return remove(it);
}

void L2Contents::try_out() { trials_.push_back({changes_.size(), now_}); }

void L2Contents::undo() {
  for (; changes_.size() > trials_.back().changes; changes_.pop_back()) {
    const Change& change = changes_.back();
    if (change.inserted)
      remove(pieces_.find(change.place));
    else
      put(change.place, change.piece);
  }
  now_ = trials_.back().now;
  trials_.pop_back();
}

uint64_t L2Contents::held(const MemoryRange& range) const {
  uint64_t bytes = 0;
  auto it = pieces_.upper_bound({range.buffer, range.begin});
  if (it != pieces_.begin()) --it;
  for (; it != pieces_.end() && it->first < Place{range.buffer, range.end}; ++it) {
    if (it->first.first != range.buffer || it->second.end <= range.begin) continue;
    bytes += std::min(range.end, it->second.end) - std::max(range.begin, it->first.second);
  }
  return bytes;
}

bool L2Contents::touch_whole(const MemoryRange& range, std::optional<uint32_t> writer) {
  const auto it = pieces_.find({range.buffer, range.begin});
  if (it == pieces_.end() || it->second.end != range.end) return false;
  Piece& piece = it->second;
  note(false, it->first, piece);
  auto node = by_use_.extract({piece.used, range.buffer, range.begin});
  piece.used = std::get<0>(node.value()) = ++now_;
  by_use_.insert(by_use_.end(), std::move(node));
  if (writer) piece.writer = *writer;
  note(true, it->first, piece);
  return true;
}

std::vector<std::pair<uint64_t, L2Contents::Piece>> L2Contents::take(const MemoryRange& range) {
  std::vector<std::pair<uint64_t, Piece>> taken;
  auto it = pieces_.upper_bound({range.buffer, range.begin});
  if (it != pieces_.begin()) --it;
  while (it != pieces_.end() && it->first < Place{range.buffer, range.end}) {
    const auto [place, piece] = *it;
    if (place.first != range.buffer || piece.end <= range.begin) {
      ++it;
      continue;
    }
    it = erase(it);
    const uint64_t begin = std::max(place.second, range.begin);
    Piece inside = piece, before = piece;
    inside.end = std::min(piece.end, range.end);
    before.end = begin;
    insert(range.buffer, place.second, before);
    insert(range.buffer, inside.end, piece);
    taken.emplace_back(begin, inside);
  }
  return taken;
}

std::vector<L2Contents::WrittenBack> L2Contents::make_room() {
  std::vector<WrittenBack> left;
  while (bytes_ > capacity_) {
    const auto [used, buffer, begin] = *by_use_.begin();
    const auto it = pieces_.find({buffer, begin});
    const Piece piece = it->second;
    const uint64_t gone = std::min(bytes_ - capacity_, piece.end - begin);
    erase(it);
    insert(buffer, begin + gone, piece);
    if (piece.writer != kAsInMemory) left.push_back({piece.writer, gone});
  }
  return left;
}

std::vector<L2Contents::WrittenBack> L2Contents::read(const MemoryRange& range) {
  if (touch_whole(range, std::nullopt)) return {};
  ++now_;
  uint64_t begin = range.begin;
  for (auto& [first, piece] : take(range)) {
    insert(range.buffer, begin, {first, now_, kAsInMemory});
    piece.used = now_;
    insert(range.buffer, first, piece);
    begin = piece.end;
  }
  insert(range.buffer, begin, {range.end, now_, kAsInMemory});
  return make_room();
}

std::vector<L2Contents::WrittenBack> L2Contents::write(const MemoryRange& range, uint32_t writer) {
  if (touch_whole(range, writer)) return {};
  take(range);
  insert(range.buffer, range.begin, {range.end, ++now_, writer});
  return make_room();
}

void L2Contents::forget(const MemoryRange& range) { take(range); }

void L2Contents::exchange(uint64_t one_buffer, uint64_t other_buffer) {
  const uint64_t buffers[] = {one_buffer, other_buffer};
  std::vector<std::pair<uint64_t, Piece>> taken[2];
  for (size_t i = 0; i < 2; ++i)
    taken[i] = take({buffers[i], 0, std::numeric_limits<uint64_t>::max()});
  for (size_t i = 0; i < 2; ++i) {
    for (const auto& [begin, piece] : taken[i]) insert(buffers[1 - i], begin, piece);
  }
}

}  // namespace keel::npu
