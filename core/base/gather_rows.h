// gather_rows: copies rows of memory that are scattered over a large table next to each other, at
// the speed of a copy that is not scattered: rows are asked for ahead. Pure; any thread.
#ifndef KEEL_CORE_BASE_GATHER_ROWS_H
#define KEEL_CORE_BASE_GATHER_ROWS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace keel {

namespace detail {

template <class Word, class Index>
void gather_words(const std::byte* from, std::span<const Index> rows, std::byte* out) {
  for (const Index row : rows) {
    std::memcpy(out, from + static_cast<size_t>(row) * sizeof(Word), sizeof(Word));
    out += sizeof(Word);
  }
}

}  // namespace detail

// The cache that a row is brought to, as the locality of __builtin_prefetch. The first cache can
// have few requests under way, and loads wait for one: many rows are asked for in the second.
inline constexpr int kIntoFirstCache = 3, kIntoSecondCache = 2;

// Asks for a row that is about to be read (the beginning of a long one: the rest comes unasked).
// Always inlined, as whoever only calls it must be: g++ drops calls of functions that do nothing
// but prefetch, because they have no effect.
template <int kCache = kIntoFirstCache>
[[gnu::always_inline]] inline void prefetch_row(const std::byte* from, size_t bytes) {
  constexpr size_t kMost = 1024, kCacheLine = 64;
  const size_t asked = std::min(bytes, kMost);
  for (size_t offset = 0; offset < asked; offset += kCacheLine)
    __builtin_prefetch(from + offset, 0, kCache);
  // A row that begins within a line may end in one more.
  if (asked != 0) __builtin_prefetch(from + asked - 1, 0, kCache);
}

// out[i] = row rows[i] of `from`, each of `bytes` bytes. REQUIRES rows within the table, and that
// the two do not overlap.
template <class Index>
void gather_rows(const std::byte* from, size_t bytes, std::span<const Index> rows, std::byte* out) {
  switch (bytes) {
    case 0:
      return;
    case 1:
      return detail::gather_words<uint8_t>(from, rows, out);
    case 2:
      return detail::gather_words<uint16_t>(from, rows, out);
    case 4:
      return detail::gather_words<uint32_t>(from, rows, out);
    case 8:
      return detail::gather_words<uint64_t>(from, rows, out);
    default:
      break;
  }
  constexpr size_t kAhead = 8;  // rows
  const auto row = [&](size_t i) { return from + static_cast<size_t>(rows[i]) * bytes; };
  for (size_t i = 0; i < std::min(kAhead, rows.size()); ++i) prefetch_row(row(i), bytes);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) prefetch_row(row(i + kAhead), bytes);
    std::memcpy(out, row(i), bytes);
    out += bytes;
  }
}

}  // namespace keel

#endif  // KEEL_CORE_BASE_GATHER_ROWS_H
