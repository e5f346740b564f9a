// Tensors, buffers and the xtensor bridge.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <xtensor/xmath.hpp>

#include "keel/core/tensor/tensor.h"
#include "keel/core/tensor/xtensor.h"

#include "support/error_of.h"

namespace {

using keel::Error;
using keel::Shape;
using keel::Tensor;

class DeviceMemory final : public keel::Buffer {
 public:
  DeviceMemory() : Buffer(nullptr, 64, false) {}
};

using keel_test::error_of;

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("a fresh tensor is zero and aligned in every dtype") {
  for (const keel::DType dtype : keel::kDTypes) {
    for (const int64_t n : {1, 3, 1000, 300000}) {
      const Tensor tensor(dtype, {n});
      CHECK(tensor.num_bytes() == static_cast<size_t>(n) * keel::size_of(dtype));
      CHECK(reinterpret_cast<uintptr_t>(tensor.raw()) % 64 == 0);
      const auto* bytes = static_cast<const unsigned char*>(tensor.raw());
      size_t nonzero = 0;
      for (size_t i = 0; i < tensor.num_bytes(); ++i) nonzero += bytes[i] != 0 ? 1 : 0;
      CHECK(nonzero == 0);
    }
  }
  CHECK_THROWS_AS(Tensor(keel::DType::kToken, {1}), Error);
}

TEST_CASE("tensors from values check their number") {
  const auto tensor = Tensor::of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(tensor.dtype() == keel::i32);
  CHECK(tensor.num_elements() == 6);
  CHECK(tensor.data<int32_t>()[4] == 5);
  CHECK(tensor.at(5) == 6.0);
  CHECK(error_of([] {
          Tensor::of<float>({2, 2}, {1.0f});
        }).find("tensor: values: expected 4 for f32[2, 2], got 1") == 0);
  CHECK(Tensor::of<double>({0}, std::vector<double>{}).num_elements() == 0);
  CHECK(Tensor::of<bool>({2}, {true, false}).at(0) == 1.0);
  CHECK(Tensor::scalar(2.5).item<double>() == 2.5);
  CHECK(Tensor::scalar(int64_t{7}).shape().rank() == 0);
}

TEST_CASE("a wrong element type or index is an error") {
  auto tensor = Tensor::of<float>({2}, {1, 2});
  CHECK(error_of([&] {
          tensor.data<double>();
        }).find("tensor: element type: expected f32, got f64") == 0);
  CHECK_THROWS_AS(tensor.item<float>(), Error);
  CHECK_THROWS_AS(Tensor::scalar(1.0f).item<int32_t>(), Error);
  CHECK(error_of([&] { tensor.at(2); }).find("tensor: index: expected 0 to 1, got 2 in f32[2] (") ==
        0);
  CHECK_THROWS_AS(tensor.at(-1), Error);
  CHECK_THROWS_AS(tensor.set(2, 1.0), Error);
  const Tensor none;
  CHECK(none.empty());
  CHECK_THROWS_AS(none.data<float>(), Error);
  CHECK_THROWS_AS(none.at(0), Error);
  CHECK_THROWS_AS(none.item<float>(), Error);
  CHECK(none.clone().empty());
  CHECK_THROWS_AS(none.reshaped({1}), Error);
  CHECK_THROWS_AS(none.cast(keel::f64), Error);
}

TEST_CASE("copies share memory and clones do not") {
  auto tensor = Tensor::of<float>({2}, {1, 2});
  Tensor copy = tensor;
  const Tensor clone = tensor.clone();
  copy.set(0, 9);
  CHECK(tensor.at(0) == 9.0);
  CHECK(clone.at(0) == 1.0);
  const Tensor reshaped = tensor.reshaped({2, 1});
  CHECK(reshaped.shape() == Shape{2, 1});
  CHECK(reshaped.raw() == tensor.raw());
  CHECK_THROWS_AS(tensor.reshaped({3}), Error);
  CHECK(bit_equal(tensor, copy));
  CHECK_FALSE(bit_equal(tensor, clone));
  CHECK_FALSE(bit_equal(tensor, reshaped));
  CHECK(bit_equal(Tensor(), Tensor()));
  CHECK_FALSE(bit_equal(Tensor(), tensor));
  CHECK(bit_equal(Tensor(keel::f32, {0, 3}), Tensor(keel::f32, {0, 3})));
  CHECK_FALSE(bit_equal(Tensor::scalar(0.0f), Tensor::scalar(-0.0f)));
}

TEST_CASE("full and cast convert like the cast op") {
  CHECK(Tensor::full(keel::bf16, {3}, 1.00390625).at(2) == 1.0);
  CHECK(Tensor::full(keel::u8, {1}, 300).at(0) == 255.0);
  const auto floats = Tensor::of<float>({4}, {-1.5f, 0.0f, 2.9f, 1e10f});
  const Tensor ints = floats.cast(keel::i32);
  CHECK(ints.at(0) == -1.0);
  CHECK(ints.at(2) == 2.0);
  CHECK(ints.at(3) == 2147483647.0);
  CHECK(floats.cast(keel::boolean).at(1) == 0.0);
  CHECK(floats.cast(keel::boolean).at(0) == 1.0);
  CHECK(bit_equal(floats.cast(keel::f64).cast(keel::f32), floats));
}

TEST_CASE("a view of a buffer stays inside it") {
  const auto buffer = keel::allocate_host_buffer(64);
  Tensor view(keel::i32, {2}, buffer, 8);
  view.set(1, 7);
  int32_t value = 0;
  std::memcpy(&value, static_cast<char*>(buffer->address()) + 12, 4);
  CHECK(value == 7);
  CHECK_NOTHROW(Tensor(keel::u8, {64}, buffer));
  CHECK_THROWS_AS(Tensor(keel::u8, {65}, buffer), Error);
  CHECK_THROWS_AS(Tensor(keel::u8, {1}, buffer, 64), Error);
  CHECK_THROWS_AS(Tensor(keel::u8, {1}, buffer, SIZE_MAX), Error);
  CHECK_THROWS_AS(Tensor(keel::u8, {1}, nullptr), Error);
  CHECK_THROWS_AS(Tensor(keel::u8, {1}, std::make_shared<DeviceMemory>()), Error);
}

TEST_CASE("memory that the host does not have is refused") {
  CHECK(keel::allocate_host_buffer(0)->size() == 0);
  for (const size_t bytes : {size_t{1} << 50, size_t{1} << 62, SIZE_MAX - 63, SIZE_MAX}) {
    CHECK(error_of([&] {
            keel::allocate_host_buffer(bytes);
          }).find("allocate: the host does not have") == 0);
  }
}

TEST_CASE("an xtensor view works on the tensor's own memory") {
  auto tensor = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  auto view = keel::view<float>(tensor);
  CHECK(view.dimension() == 2);
  CHECK(view(1, 0) == 4.0f);
  view(0, 2) = 30.0f;
  view *= 2.0f;
  CHECK(tensor.at(2) == 60.0);
  const Tensor& read_only = tensor;
  CHECK(xt::sum(keel::view<float>(read_only))() == 2.0f * (1 + 2 + 30 + 4 + 5 + 6));
  CHECK_THROWS_AS(keel::view<double>(tensor), Error);
  auto scalar = Tensor::scalar(3.0);
  CHECK(keel::view<double>(scalar)() == 3.0);
}

TEST_CASE("an xtensor expression becomes a tensor") {
  const auto tensor = Tensor::of<double>({3}, {1, 4, 9});
  const Tensor roots = keel::from_xtensor(xt::sqrt(keel::view<double>(tensor)));
  CHECK(roots.dtype() == keel::f64);
  CHECK(roots.shape() == Shape{3});
  CHECK(roots.at(2) == 3.0);
  const xt::xarray<int32_t> matrix = {{1, 2}, {3, 4}};
  const Tensor transposed = keel::from_xtensor(xt::transpose(matrix));
  CHECK(transposed.shape() == Shape{2, 2});
  CHECK(transposed.at(1) == 3.0);
  CHECK(keel::from_xtensor(xt::xarray<float>::from_shape({0, 2})).num_elements() == 0);
  const Tensor mask = keel::from_xtensor(keel::view<double>(tensor) > 2.0);
  CHECK(mask.dtype() == keel::boolean);
  CHECK(mask.at(0) == 0.0);
  CHECK(mask.at(1) == 1.0);
}

TEST_SUITE_END();
