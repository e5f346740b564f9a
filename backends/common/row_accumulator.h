// RowAccumulator: part of a row that rows are added to, as scatter_add does it: floats are summed
// in double and rounded once, integers wrap in their own dtype. The sums belong to the caller, so
// that they can lie where its other numbers do. One thread.
#ifndef KEEL_BACKENDS_COMMON_ROW_ACCUMULATOR_H
#define KEEL_BACKENDS_COMMON_ROW_ACCUMULATOR_H

#include <cstdint>
#include <type_traits>

#include "keel/core/tensor/convert.h"

namespace keel {

template <class T>
class RowAccumulator {
 public:
  // Integers are summed modulo 2^64, of which each dtype keeps its lower bits.
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

  RowAccumulator(Sum* sums, int64_t count) : sums_(sums), count_(count) {}

  void begin(const T* row) {
    for (int64_t i = 0; i < count_; ++i) sums_[i] = widened(row[i]);
  }
  void add(const T* row) {
    for (int64_t i = 0; i < count_; ++i) sums_[i] += widened(row[i]);
  }
  void round(T* row) const {
    for (int64_t i = 0; i < count_; ++i) row[i] = convert_element<T>(sums_[i]);
  }
  // Adds a single row without room for sums, with the same bits. (A sum of two floats in double,
  // rounded to float, is their sum in float.)
  static void add_one(const T* from, T* row, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, float>)
        row[i] += from[i];
      else
        row[i] = convert_element<T>(widened(row[i]) + widened(from[i]));
    }
  }

 private:
  static Sum widened(T x) { return convert_element<Sum>(x); }

  Sum* sums_;
  int64_t count_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_ROW_ACCUMULATOR_H
