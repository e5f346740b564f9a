// Chains of the vector library against plain C++ element by element, on every host ISA.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/vector_chain.h"

#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace vector_test;
using vector::ChainOp;
using vector::ChainOperand;
using vector::ChainStep;

constexpr float kGuard = -77.0f;

ChainOperand all_of(const void* at) { return {at, false, ChainOperand::kNeverRepeats, 0, 1}; }
ChainOperand one(const void* at) { return {at, true, ChainOperand::kNeverRepeats, 0, 1}; }
ChainOperand handed_on() { return all_of(nullptr); }

template <class... Operands>
ChainStep step(ChainOp op, Operands... operands) {
  return {op, false, false, nullptr, {operands...}};
}
ChainStep store(void* dst, bool streams = false) {
  return {ChainOp::kStore, streams, false, dst, {}};
}
// A store to room for a group, and an operand that reads it.
ChainStep keep(void* room) { return {ChainOp::kStore, false, true, room, {}}; }
ChainOperand kept(const void* room) { return {room, false, 0, 0, 1}; }

// Runs the steps and then a store; elements before and behind the results stay as they were.
template <class T = float>
std::vector<T> run_chain(std::vector<ChainStep> steps, size_t n, bool streams = false,
                         size_t ahead = 3) {
  std::vector<T> dst(n + ahead + 20, static_cast<T>(kGuard));
  steps.push_back(store(dst.data() + ahead, streams));
  vector::find_chain(dtype_of<T>)(steps, n);
  const auto begin = dst.begin() + static_cast<std::ptrdiff_t>(ahead);
  const auto end = begin + static_cast<std::ptrdiff_t>(n);
  const auto is_guard = [](T v) { return v == static_cast<T>(kGuard); };
  CHECK(std::all_of(dst.begin(), begin, is_guard));
  CHECK(std::all_of(end, dst.end(), is_guard));
  return {begin, end};
}

template <class T = float>
std::vector<T> numbers_of(size_t n, uint64_t seed) {
  Numbers numbers(seed);
  std::vector<T> result(n);
  for (T& v : result) v = static_cast<T>(numbers.uniform()) * 3;
  return result;
}

// Puts zeros of both signs, infinities and NaN among the numbers. Vectors of phases 0 and 1 have
// them at different places: two zeros, of which a comparison finds none larger, do not meet.
template <class T>
std::vector<T> with_special_ones(std::vector<T> numbers, size_t phase) {
  using Limits = std::numeric_limits<T>;
  const T specials[] = {-T{0}, T{0}, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()};
  for (size_t i = 2 * phase, k = 0; i < numbers.size(); i += 7, ++k) numbers[i] = specials[k % 5];
  return numbers;
}

// Returns whether both are NaN or have equal bits.
template <class T>
bool is_same(T got, T expected) {
  if (std::isnan(expected)) return std::isnan(got);
  return got == expected && std::signbit(got) == std::signbit(expected);
}

constexpr size_t kSizes[] = {0,   1,   5,   16,  17,  63,  64,  65, 127,
                             128, 129, 192, 255, 256, 257, 300, 517};

}  // namespace

TEST_CASE("vector: a product or difference with a sum in one chain rounds twice") {
  Numbers numbers(6);
  std::vector<float> a(517), b(517), c(517);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = numbers.uniform();
    b[i] = numbers.uniform();
    c[i] = -a[i] * b[i] * (i % 2 == 0 ? 1.0f : 0.3f);
  }
  on_every_isa([&] {
    const auto run = [&](ChainOp first, ChainOp second) {
      return run_chain({step(ChainOp::kLoad, all_of(a.data())), step(first, all_of(b.data())),
                        step(second, all_of(c.data()))},
                       a.size());
    };
    const auto sum = run(ChainOp::kMultiply, ChainOp::kAdd);
    const auto less = run(ChainOp::kMultiply, ChainOp::kSubtract);
    const auto rest = run(ChainOp::kMultiply, ChainOp::kSubtractFrom);
    const auto both = run(ChainOp::kSubtract, ChainOp::kSubtract);
    for (size_t i = 0; i < a.size(); ++i) {
      const volatile float product = a[i] * b[i];
      CHECK(sum[i] == product + c[i]);
      CHECK(less[i] == product - c[i]);
      CHECK(rest[i] == c[i] - product);
      const volatile float distance = a[i] - b[i];
      CHECK(both[i] == distance - c[i]);
    }
  });
}

template <class T>
void check_each_step() {
  const std::vector<T> a = with_special_ones(numbers_of<T>(517, 1), 0);
  const std::vector<T> b = with_special_ones(numbers_of<T>(517, 2), 1);
  const auto check = [&](ChainOp op, auto expected) {
    CAPTURE(static_cast<int>(op));
    for (const size_t n : kSizes) {
      CAPTURE(n);
      const auto load = step(ChainOp::kLoad, all_of(a.data()));
      const auto got = run_chain<T>({load, step(op, all_of(b.data()))}, n);
      const auto of_one = run_chain<T>({load, step(op, one(b.data() + 8))}, n);
      const auto of_itself = run_chain<T>({load, step(op, handed_on())}, n);
      size_t wrong = 0;
      for (size_t i = 0; i < n; ++i) {
        wrong += !is_same(got[i], expected(a[i], b[i]));
        wrong += !is_same(of_one[i], expected(a[i], b[8]));
        wrong += !is_same(of_itself[i], expected(a[i], a[i]));
      }
      CHECK(wrong == 0);
    }
  };
  // NaN goes through (ops/README.md).
  const auto larger = [](T x, T y) { return std::isnan(x) || x > y ? x : y; };
  const auto smaller = [](T x, T y) { return std::isnan(x) || x < y ? x : y; };
  check(ChainOp::kAdd, [](T x, T y) { return x + y; });
  check(ChainOp::kSubtract, [](T x, T y) { return x - y; });
  check(ChainOp::kSubtractFrom, [](T x, T y) { return y - x; });
  check(ChainOp::kMultiply, [](T x, T y) { return x * y; });
  check(ChainOp::kDivide, [](T x, T y) { return x / y; });
  check(ChainOp::kDivideInto, [](T x, T y) { return y / x; });
  check(ChainOp::kMaximum, larger);
  check(ChainOp::kMinimum, smaller);
  check(ChainOp::kNegate, [](T x, T) { return -x; });
  check(ChainOp::kAbsolute, [](T x, T) { return std::fabs(x); });
  check(ChainOp::kSquare, [](T x, T) { return x * x; });
  check(ChainOp::kSqrt, [](T x, T) { return std::sqrt(x); });
  check(ChainOp::kReciprocal, [](T x, T) { return 1 / x; });
  check(ChainOp::kRelu, [](T x, T) { return x <= 0 ? T{0} : x; });
}

TEST_CASE("vector: each step of a chain is its op on any number of elements") {
  on_every_isa([] {
    check_each_step<float>();
    check_each_step<double>();
  });
}

TEST_CASE("vector: the reciprocal of a root in a chain is within two roundings") {
  std::vector<float> a = numbers_of(517, 9);
  for (float& v : a) v = std::fabs(v) + 1e-3f;
  on_every_isa([&] {
    const auto got =
        run_chain({step(ChainOp::kLoad, all_of(a.data())), step(ChainOp::kRsqrt)}, a.size());
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i)
      worst = std::max(worst, std::fabs(got[i] * std::sqrt(static_cast<double>(a[i])) - 1));
    CHECK(worst < 1.2e-7);
  });
}

TEST_CASE("vector: chains select by a comparison of any operands and of the value handed on") {
  std::vector<float> a = numbers_of(517, 3), b = numbers_of(517, 4);
  const std::vector<float> c = numbers_of(517, 5);
  for (size_t i = 0; i < a.size(); i += 3) b[i] = a[i];
  a[10] = std::numeric_limits<float>::quiet_NaN();
  const float zero = 0;
  const auto check = [&](ChainOp op, auto holds) {
    CAPTURE(static_cast<int>(op));
    for (const size_t n : kSizes) {
      const auto of_memory = run_chain(
          {step(op, all_of(a.data()), all_of(b.data()), all_of(c.data()), one(&zero))}, n);
      const auto of_value =
          run_chain({step(ChainOp::kLoad, all_of(a.data())),
                     step(op, handed_on(), one(&zero), all_of(b.data()), handed_on())},
                    n);
      size_t wrong = 0;
      for (size_t i = 0; i < n; ++i) {
        wrong += of_memory[i] != (holds(a[i], b[i]) ? c[i] : 0.0f);
        const float chosen = holds(a[i], 0.0f) ? b[i] : a[i];
        wrong += of_value[i] != chosen && !(std::isnan(of_value[i]) && std::isnan(chosen));
      }
      CHECK(wrong == 0);
    }
  };
  on_every_isa([&] {
    check(ChainOp::kSelectEqual, [](float x, float y) { return x == y; });
    check(ChainOp::kSelectNotEqual, [](float x, float y) { return x != y; });
    check(ChainOp::kSelectLess, [](float x, float y) { return x < y; });
    check(ChainOp::kSelectLessEqual, [](float x, float y) { return x <= y; });
    check(ChainOp::kSelectGreater, [](float x, float y) { return x > y; });
    check(ChainOp::kSelectGreaterEqual, [](float x, float y) { return x >= y; });
  });
}

TEST_CASE("vector: an operand of a chain begins again after its period") {
  const std::vector<double> a(1000, 2.0);
  on_every_isa([&] {
    for (const size_t period :
         {vector::kChainGroup, vector::kChainGroup + 1, vector::kChainGroup + 72}) {
      std::vector<double> row(period + vector::kChainGroup);
      for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<double>(i % period);
      for (const size_t offset : {size_t{0}, size_t{1}, period - 1}) {
        for (const size_t n : {size_t{3}, size_t{200}, size_t{1000}}) {
          const ChainOperand repeated{row.data(), false, period, offset, 1};
          const auto got = run_chain<double>(
              {step(ChainOp::kLoad, all_of(a.data())), step(ChainOp::kMultiply, repeated)}, n);
          size_t wrong = 0;
          for (size_t i = 0; i < n; ++i)
            wrong += got[i] != 2.0 * static_cast<double>((offset + i) % period);
          CHECK(wrong == 0);
        }
      }
    }
  });
}

namespace {

// Elements of as many runs as n elements from the offset on touch.
template <class T>
void check_runs(size_t run, size_t offset, size_t n) {
  const std::vector<T> a = numbers_of<T>(n, 11);
  const std::vector<T> column = numbers_of<T>((offset + n + run - 1) / run, 12);
  const ChainOperand runs{column.data(), false, ChainOperand::kNeverRepeats, offset, run};
  const auto load = step(ChainOp::kLoad, all_of(a.data()));
  const auto product = run_chain<T>({load, step(ChainOp::kMultiply, runs)}, n);
  const auto larger =
      run_chain<T>({load, step(ChainOp::kSelectLess, handed_on(), runs, runs, handed_on())}, n);
  size_t wrong = 0;
  for (size_t i = 0; i < n; ++i) {
    const T own = column[(offset + i) / run];
    wrong += product[i] != a[i] * own;
    wrong += larger[i] != std::max(a[i], own);
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("vector: an element of a chain's operand may stand for a run") {
  on_every_isa([] {
    for (const size_t run :
         {vector::kMostChainLanes, size_t{17}, size_t{31}, size_t{64}, size_t{300}}) {
      for (const size_t offset : {size_t{0}, size_t{1}, size_t{16}, run - 1}) {
        for (const size_t n : {size_t{1}, size_t{3}, size_t{200}, size_t{1000}}) {
          if (offset >= run) continue;
          check_runs<float>(run, offset, n);
          check_runs<double>(run, offset, n);
        }
      }
    }
  });
}

TEST_CASE("vector: a chain stores on its way and over an operand and past the caches") {
  const std::vector<float> a = numbers_of(517, 8);
  on_every_isa([&] {
    for (const size_t ahead : {size_t{0}, size_t{1}, size_t{16}}) {
      std::vector<float> between = a;
      const auto end =
          run_chain({step(ChainOp::kLoad, all_of(between.data())), step(ChainOp::kSquare),
                     store(between.data()), step(ChainOp::kSubtract, all_of(between.data()))},
                    517, true, ahead);
      size_t wrong = 0;
      for (size_t i = 0; i < a.size(); ++i) wrong += between[i] != a[i] * a[i] || end[i] != 0.0f;
      CHECK(wrong == 0);
    }
  });
}

template <class T>
void check_room_of_a_group() {
  const std::vector<T> a = numbers_of<T>(517, 11), b = numbers_of<T>(517, 12);
  for (const size_t n : kSizes) {
    CAPTURE(n);
    alignas(64) T room[2][vector::kChainGroup + 1];
    for (auto& r : room) r[vector::kChainGroup] = static_cast<T>(kGuard);
    // a * b waits while a - b is made, which takes its place once it is read.
    const auto got = run_chain<T>(
        {step(ChainOp::kLoad, all_of(a.data())), step(ChainOp::kMultiply, all_of(b.data())),
         keep(room[0]), step(ChainOp::kLoad, all_of(a.data())),
         step(ChainOp::kSubtract, all_of(b.data())), keep(room[1]),
         step(ChainOp::kMaximum, kept(room[0])), keep(room[0]), step(ChainOp::kLoad, kept(room[1])),
         step(ChainOp::kDivide, kept(room[0])),
         step(ChainOp::kSelectLess, handed_on(), kept(room[1]), kept(room[0]), handed_on())},
        n);
    size_t wrong = 0;
    for (size_t i = 0; i < n; ++i) {
      const T product = a[i] * b[i], difference = a[i] - b[i];
      const T most = product > difference ? product : difference, ratio = difference / most;
      wrong += !is_same(got[i], ratio < difference ? most : ratio);
    }
    CHECK(wrong == 0);
    for (const auto& r : room) CHECK(r[vector::kChainGroup] == static_cast<T>(kGuard));
  }
}

TEST_CASE("vector: a chain reads what its steps have kept of the group that it is at") {
  on_every_isa([] {
    check_room_of_a_group<float>();
    check_room_of_a_group<double>();
  });
}

TEST_SUITE_END();
