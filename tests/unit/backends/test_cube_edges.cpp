// What a rectangle of C reads of its operands: nothing before and nothing behind them, where memory
// may be another's. Operands begin or end with pages that cannot be read.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <sys/mman.h>

#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/origin.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/half.h"

#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;

// A copy of some bytes between two pages that nobody may touch, next to one of them.
class Guarded {
 public:
  Guarded(const std::vector<uint8_t>& bytes, bool at_begin)
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        all_(align_up(bytes.size(), page_) + 2 * page_),
        base_(static_cast<uint8_t*>(
            mmap(nullptr, all_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(base_ != MAP_FAILED);
    REQUIRE(mprotect(base_ + page_, all_ - 2 * page_, PROT_READ | PROT_WRITE) == 0);
    data_ = at_begin ? base_ + page_ : base_ + all_ - page_ - bytes.size();
    std::copy(bytes.begin(), bytes.end(), data_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, all_); }
  const uint8_t* data() const { return data_; }

 private:
  size_t page_, all_;
  uint8_t* base_;
  uint8_t* data_;
};

// Rows of `columns` elements, of f32 or bf16.
struct OperandRows {
  OperandRows(size_t rows, size_t columns_, DType dtype, uint64_t seed)
      : columns(columns_), size(size_of(dtype)), bytes(rows * columns_ * size) {
    vector_test::Numbers numbers(seed);
    for (size_t i = 0; i < rows * columns; ++i) {
      const float value = numbers.uniform();
      const uint16_t half = BFloat16(value).bits;
      const void* from = dtype == f32 ? static_cast<const void*>(&value) : &half;
      std::memcpy(&bytes[i * size], from, size);
    }
  }
  // What the elements from (row, column) to the last of (end_row, end_column) lie in.
  std::vector<uint8_t> part(size_t row, size_t column, size_t end_row, size_t end_column) const {
    const size_t begin = (row * columns + column) * size;
    const size_t end = ((end_row - 1) * columns + end_column) * size;
    return {bytes.begin() + static_cast<ptrdiff_t>(begin),
            bytes.begin() + static_cast<ptrdiff_t>(end)};
  }

  size_t columns, size;
  std::vector<uint8_t> bytes;
};

struct Floats {
  explicit Floats(size_t count) : data(new (std::align_val_t{64}) float[count]()) {}
  struct Free {
    void operator()(float* at) const { operator delete[](at, std::align_val_t{64}); }
  };
  std::unique_ptr<float[], Free> data;
};

void check_rectangle(const CubeProblem& p, const CubeRange& range, bool at_begin) {
  CAPTURE(p.m);
  CAPTURE(p.n);
  CAPTURE(p.k);
  CAPTURE(std::string(name_of(p.a)));
  CAPTURE(p.transpose_a);
  CAPTURE(p.transpose_b);
  CAPTURE(range.m0);
  CAPTURE(range.m1);
  const OperandRows a(p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.a, 1),
      b(p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.b, 2);
  const CubePlan plan = plan_cube(p);
  const Floats scratch(cube_scratch_bytes(plan, p.m, p.n) / sizeof(float) + 1);
  std::vector<float> whole(p.m * p.n), c(p.m * p.n);
  CubeArgs args;
  args.a = a.bytes.data();
  args.b = b.bytes.data();
  args.c = whole.data();
  args.a_stride = a.columns;
  args.b_stride = b.columns;
  args.c_stride = p.n;
  cube_block(plan, args, {0, p.m, 0, p.n}, scratch.data.get());

  const Guarded of_a(
      p.transpose_a ? a.part(0, range.m0, p.k, range.m1) : a.part(range.m0, 0, range.m1, p.k),
      at_begin);
  const Guarded of_b(
      p.transpose_b ? b.part(range.n0, 0, range.n1, p.k) : b.part(0, range.n0, p.k, range.n1),
      !at_begin);
  const size_t row_bytes = (p.transpose_a ? 1 : p.k) * a.size;
  const size_t column_bytes = (p.transpose_b ? p.k : 1) * b.size;
  args.a = origin_of(of_a.data(), static_cast<int64_t>(range.m0), row_bytes);
  args.b = origin_of(of_b.data(), static_cast<int64_t>(range.n0), column_bytes);
  args.c = c.data();
  cube_block(plan, args, range, scratch.data.get());
  size_t different = 0;
  for (size_t i = range.m0; i < range.m1; ++i) {
    for (size_t j = range.n0; j < range.n1; ++j) different += whole[i * p.n + j] != c[i * p.n + j];
  }
  CHECK(different == 0);
}

}  // namespace

TEST_CASE("cube: a rectangle of C reads its rows of A and its columns of B alone") {
  vector_test::on_every_isa([&] {
    for (const DType dtype : {f32, bf16}) {
      for (const bool transposed : {false, true}) {
        for (const size_t k : {16u, 64u, 129u}) {
          for (const size_t n : {53u, 10u}) {
            CubeProblem p;
            p.m = 51;
            p.n = n;
            p.k = k;
            p.a = p.b = dtype;
            p.transpose_a = transposed;
            for (const size_t rows : {1u, 3u, 7u, 8u, 12u, 16u, 17u, 34u, 48u}) {
              const CubeRange range{p.m - rows, p.m, 0, n};
              check_rectangle(p, range, true);
              check_rectangle(p, range, false);
              check_rectangle(p, {1, 1 + rows, std::min<size_t>(32, n / 2), n - 1}, true);
            }
          }
        }
      }
    }
  });
}

TEST_CASE("cube: a rectangle with few rows reads its rows of a transposed B alone") {
  vector_test::on_every_isa([&] {
    for (const DType dtype : {f32, bf16}) {
      for (const bool transposed : {false, true}) {
        for (const size_t k : {1u, 16u, 129u}) {
          for (const size_t m : {1u, 2u, 7u, 16u}) {
            CubeProblem p;
            p.m = m;
            p.n = 53;
            p.k = k;
            p.a = p.b = dtype;
            p.transpose_a = transposed;
            p.transpose_b = true;
            for (const size_t columns : {1u, 3u, 8u, 16u, 37u}) {
              for (const bool at_begin : {false, true}) {
                check_rectangle(p, {0, m, p.n - columns, p.n}, at_begin);
                check_rectangle(p, {m / 2, m, 3, 3 + columns}, at_begin);
              }
            }
          }
        }
      }
    }
  });
}
