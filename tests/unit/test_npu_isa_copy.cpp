// Copies of the NPU's host ISA against index arithmetic.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/isa/copy.h"

#include "npu_isa_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace npu_isa_test;

template <class T>
std::vector<T> counting(size_t n) {
  std::vector<T> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<T>(i * 2654435761u + 1u);
  return values;
}

template <class T>
void check_transposes() {
  for (const size_t rows : {1u, 3u, 16u, 33u, 70u}) {
    for (const size_t cols : {1u, 10u, 16u, 47u, 130u}) {
      const size_t src_stride = cols + 5, dst_stride = rows + 3;
      const auto src = counting<T>(rows * src_stride);
      std::vector<T> dst(cols * dst_stride, T(77));
      npu::transpose_2d(src.data(), src_stride, dst.data(), dst_stride, rows, cols, sizeof(T));
      size_t wrong = 0;
      for (size_t c = 0; c < cols; ++c) {
        for (size_t r = 0; r < dst_stride; ++r) {
          wrong += dst[c * dst_stride + r] != (r < rows ? src[r * src_stride + c] : T(77));
        }
      }
      CAPTURE(rows);
      CAPTURE(cols);
      CHECK(wrong == 0);
    }
  }
}

}  // namespace

TEST_CASE("npu copy: transposes of every element size") {
  on_every_isa([] {
    check_transposes<uint8_t>();
    check_transposes<uint16_t>();
    check_transposes<uint32_t>();
    check_transposes<uint64_t>();
  });
}

TEST_CASE("npu copy: strided copies of every order of three dimensions") {
  const int64_t dims[3] = {5, 18, 33};
  const auto src = counting<uint32_t>(5 * 18 * 33);
  int order[3] = {0, 1, 2};
  do {
    npu::StridedCopy copy;
    std::vector<uint32_t> dst(src.size());
    copy.dst = dst.data();
    copy.src = src.data();
    copy.rank = 3;
    const int64_t src_strides[3] = {18 * 33, 33, 1};
    int64_t stride = 1;
    for (int i = 2; i >= 0; --i) {
      copy.dims[i] = dims[order[i]];
      copy.src_strides[i] = src_strides[order[i]];
      copy.dst_strides[i] = stride;
      stride *= copy.dims[i];
    }
    npu::copy_strided(copy);
    size_t wrong = 0, at = 0;
    for (int64_t i = 0; i < copy.dims[0]; ++i) {
      for (int64_t j = 0; j < copy.dims[1]; ++j) {
        for (int64_t k = 0; k < copy.dims[2]; ++k, ++at) {
          wrong +=
              dst[at] != src[static_cast<size_t>(i * copy.src_strides[0] + j * copy.src_strides[1] +
                                                 k * copy.src_strides[2])];
        }
      }
    }
    CHECK(wrong == 0);
  } while (std::next_permutation(order, order + 3));
}

TEST_CASE("npu copy: broadcasts and reversals and scalars") {
  const std::vector<uint16_t> src = {1, 2, 3};
  std::vector<uint16_t> dst(6, 9);
  npu::StridedCopy copy;
  copy.src = src.data();
  copy.dst = dst.data();
  copy.element_size = 2;
  copy.rank = 2;
  copy.dims[0] = 2;
  copy.dims[1] = 3;
  copy.dst_strides[0] = 3;
  copy.dst_strides[1] = 1;
  copy.src_strides[1] = 1;  // rows broadcast
  npu::copy_strided(copy);
  CHECK(dst == std::vector<uint16_t>{1, 2, 3, 1, 2, 3});
  copy.dims[0] = 3;
  copy.dims[1] = 2;
  copy.dst_strides[0] = 2;
  copy.src_strides[0] = 1;
  copy.src_strides[1] = 0;  // columns broadcast
  npu::copy_strided(copy);
  CHECK(dst == std::vector<uint16_t>{1, 1, 2, 2, 3, 3});
  copy.src = src.data() + 2;
  copy.src_strides[0] = -1;
  npu::copy_strided(copy);
  CHECK(dst == std::vector<uint16_t>{3, 3, 2, 2, 1, 1});
  copy.dims[1] = 0;
  dst.assign(6, 9);
  npu::copy_strided(copy);
  CHECK(dst == std::vector<uint16_t>(6, 9));
  copy.rank = 0;
  npu::copy_strided(copy);
  CHECK(dst == std::vector<uint16_t>{3, 9, 9, 9, 9, 9});
}

TEST_CASE("npu copy: rows are gathered in the order of the indices") {
  const auto src = counting<uint8_t>(20 * 7);
  const std::vector<int64_t> indices = {3, 3, 19, 0, 7, 1, 2, 5, 4, 18, 6};
  std::vector<uint8_t> dst(indices.size() * 7);
  npu::gather_rows(src.data(), indices.data(), indices.size(), 7, dst.data());
  for (size_t i = 0; i < indices.size(); ++i) {
    for (size_t b = 0; b < 7; ++b)
      CHECK(dst[i * 7 + b] == src[static_cast<size_t>(indices[i]) * 7 + b]);
  }
}

TEST_CASE("npu copy: fractal blocks hold the matrix and zeros beside it") {
  const size_t rows = 37, cols = 21, stride = 24;
  const auto src = counting<uint32_t>(rows * stride);
  std::vector<uint32_t> blocks(npu::fractal_elements(rows, cols), 5), back(rows * stride, 9);
  CHECK(blocks.size() == 48 * 32);
  npu::nd_to_fractal(src.data(), stride, blocks.data(), rows, cols, 4);
  for (size_t r = 0; r < 48; ++r) {
    for (size_t c = 0; c < 32; ++c) {
      const size_t block = (c / 16) * 3 + r / 16;
      const uint32_t expected = r < rows && c < cols ? src[r * stride + c] : 0;
      CHECK(blocks[block * 256 + r % 16 * 16 + c % 16] == expected);
    }
  }
  npu::fractal_to_nd(blocks.data(), back.data(), stride, rows, cols, 4);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < stride; ++c) {
      CHECK(back[r * stride + c] == (c < cols ? src[r * stride + c] : 9));
    }
  }
}

TEST_SUITE_END();
