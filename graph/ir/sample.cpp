#include "keel/graph/ir/sample.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/half.h"
#include "keel/core/base/random.h"

namespace keel {
namespace {

// Floats lie on a 16-bit grid, so that a case has the same values in f64, f32 and f16.
double on_grid(DType dtype, double value) {
  if (dtype == bf16) return static_cast<double>(static_cast<float>(BFloat16(value)));
  return static_cast<double>(static_cast<float>(Half(value)));
}

double draw_float(SampleSource& source, DType dtype, double low, double high) {
  for (int tries = 0; tries < 16; ++tries) {
    const double value = on_grid(dtype, source.real(low, high));
    if (value >= low && value <= high) return value;
  }
  return low;
}

// Returns the most elements of a random shape.
int64_t most_elements(int size) { return 24 + 4 * static_cast<int64_t>(size); }

}  // namespace

SampleSource::SampleSource(uint64_t seed, DType dtype, int size)
    : key_(seed), dtype_(dtype), size_(std::clamp(size, 0, 100)) {}

uint64_t SampleSource::bits() {
  const auto words = random_block(key_, counter_++);
  return words[0] | (uint64_t{words[1]} << 32);
}

int64_t SampleSource::integer(int64_t low, int64_t high) {
  if (high < low) {
    throw Error({.op = "sample",
                 .argument = "integer",
                 .expected = "low <= high",
                 .got = std::to_string(low) + " > " + std::to_string(high)});
  }
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  const uint64_t offset = span == 0 ? bits() : bits() % span;
  return static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
}

double SampleSource::real(double low, double high) {
  const uint64_t word = bits();
  return low + (high - low) *
                   uniform_double(static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word));
}

bool SampleSource::coin() { return (bits() & 1) != 0; }

int64_t SampleSource::dim() {
  const int64_t kind = integer(0, 15);
  if (kind == 0) return 0;
  if (kind <= 2) return 1;
  if (kind == 3) return integer(1, 2 + size_ / 2);
  return integer(1, 3 + size_ / 20);
}

Shape SampleSource::shape(size_t min_rank, size_t max_rank) {
  const auto rank = integer(static_cast<int64_t>(min_rank), static_cast<int64_t>(max_rank));
  Shape result;
  int64_t elements = 1;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t d = dim();
    if (elements * std::max<int64_t>(d, 1) > most_elements(size_)) d = 1;
    elements *= std::max<int64_t>(d, 1);
    result.push_back(d);
  }
  return result;
}

Shape SampleSource::nonempty_shape(size_t min_rank, size_t max_rank) {
  Shape result;
  for (const int64_t d : shape(min_rank, max_rank)) result.push_back(std::max<int64_t>(d, 1));
  return result;
}

Shape SampleSource::broadcastable_to(const Shape& shape) {
  if (coin()) return shape;
  const auto dropped = static_cast<size_t>(integer(0, static_cast<int64_t>(shape.rank())));
  Shape result;
  for (size_t i = dropped; i < shape.rank(); ++i)
    result.push_back(integer(0, 2) == 0 ? 1 : shape[i]);
  return result;
}

Tensor SampleSource::values(const Shape& shape, double low, double high) {
  return values(dtype_, shape, low, high);
}

Tensor SampleSource::values(DType dtype, const Shape& shape, double low, double high) {
  Tensor t(dtype, shape);
  const double floor_of_type = dtype == u8 ? 0 : low;
  const auto first = static_cast<int64_t>(std::ceil(std::max(low, floor_of_type)));
  const auto last =
      std::max(first, static_cast<int64_t>(std::floor(dtype == u8 ? std::min(high, 255.0) : high)));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (is_float(dtype))
      t.set(i, draw_float(*this, dtype, low, high));
    else if (dtype == boolean)
      t.set(i, coin() ? 1 : 0);
    else
      t.set(i, static_cast<double>(integer(first, last)));
  }
  return t;
}

Tensor SampleSource::separated_values(const Shape& shape, double gap) {
  Tensor t(dtype_, shape);
  const int64_t n = t.num_elements();
  // Multiples of a power of two, which are exact in every float dtype while their number is
  // moderate.
  const double step = is_float(dtype_) ? std::exp2(std::ceil(std::log2(gap))) : 1;
  const int64_t choices = std::max<int64_t>(n + n % 2, 16);
  std::vector<double> pool;
  for (int64_t k = 1; k <= choices; ++k) {
    const bool has_negatives = dtype_ != u8;
    const int64_t multiple =
        has_negatives ? (k + 1) / 2 * (k % 2 == 0 ? -1 : 1) : (k - 1) % 255 + 1;
    pool.push_back(static_cast<double>(multiple) * step);
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto pick = static_cast<size_t>(integer(i, choices - 1));
    std::swap(pool[static_cast<size_t>(i)], pool[pick]);
    t.set(i, pool[static_cast<size_t>(i)]);
  }
  return t;
}

}  // namespace keel
