#include "keel/backends/common/broadcast.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace keel {
namespace {

template <class T>
void fill(void* dst, const char* source, int64_t count) {
  T value;
  std::memcpy(&value, source, sizeof value);
  std::fill_n(static_cast<T*>(dst), count, value);
}

void fill_run(void* dst, const char* source, int64_t count, size_t element_size) {
  switch (element_size) {
    case 1:
      fill<uint8_t>(dst, source, count);
      break;
    case 2:
      fill<uint16_t>(dst, source, count);
      break;
    case 4:
      fill<uint32_t>(dst, source, count);
      break;
    default:
      fill<uint64_t>(dst, source, count);
      break;
  }
}

// Repeats the `bytes` before `end` so many times behind them, in ever larger pieces; the new end.
char* repeat(char* end, int64_t bytes, int64_t times) {
  const char* first = end - bytes;
  for (int64_t rest = bytes * times; rest > 0;) {
    const int64_t piece = std::min<int64_t>(rest, end - first);
    std::memcpy(end, first, static_cast<size_t>(piece));
    end += piece;
    rest -= piece;
  }
  return end;
}

}  // namespace

BroadcastReader::BroadcastReader(const Shape& from, const Shape& to, size_t element_size)
    : element_size_(element_size) {
  const auto own = from.strides();
  for (size_t axis = 0; axis < to.rank(); ++axis) {
    const size_t from_end = to.rank() - axis;
    const bool repeats = from_end > from.rank() || from[from.rank() - from_end] == 1;
    const int64_t dim = to[axis];
    if (dim == 1) continue;
    const int64_t stride = repeats ? 0 : own[from.rank() - from_end];
    if (rank_ > 0 && strides_[rank_ - 1] == stride * dim) {
      dims_[rank_ - 1] *= dim;
      strides_[rank_ - 1] = stride;
    } else {
      dims_[rank_] = dim;
      strides_[rank_++] = stride;
    }
  }
  if (rank_ == 0) {
    dims_[0] = 1;
    strides_[0] = 0;
    rank_ = 1;
  }
}

void BroadcastReader::read(const void* source, void* dst, int64_t begin, int64_t count) const {
  const size_t last = rank_ - 1;
  const int64_t run = dims_[last];
  std::array<int64_t, Shape::kMaxRank> index{};
  int64_t offset = 0;
  int64_t rest = begin / run;
  for (size_t axis = last; axis-- > 0;) {
    index[axis] = rest % dims_[axis];
    rest /= dims_[axis];
    offset += index[axis] * strides_[axis];
  }
  int64_t in_run = begin % run;
  auto* out = static_cast<char*>(dst);
  const auto* in = static_cast<const char*>(source);
  const auto size = static_cast<int64_t>(element_size_);
  while (count > 0) {
    const int64_t n = std::min(count, run - in_run);
    const char* from = in + (offset + in_run * strides_[last]) * size;
    if (strides_[last] == 0)
      fill_run(out, from, n, element_size_);
    else
      std::memcpy(out, from, static_cast<size_t>(n * size));
    out += n * size;
    count -= n;
    in_run = 0;
    if (n == run && last > 0 && strides_[last - 1] == 0) {
      const int64_t again = std::min(count / run, dims_[last - 1] - index[last - 1] - 1);
      out = repeat(out, run * size, again);
      count -= again * run;
      index[last - 1] += again;
    }
    for (size_t axis = last; axis-- > 0;) {
      offset += strides_[axis];
      if (++index[axis] < dims_[axis]) break;
      offset -= strides_[axis] * dims_[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace keel
