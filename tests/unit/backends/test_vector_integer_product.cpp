// Integer products: on every host ISA against sums modulo 2^64, through a session, and
// what they are priced at.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/vector/integer_product.h"

#include "npu_model_for_tests.h"
#include "ops_for_tests.h"
#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using namespace keel::vector;
using keel::testing::counting;

// Sums modulo 2^64 hold the sums modulo 2^32 and 2^8.
template <class T>
std::vector<T> expected_product(const IntegerProduct& p, const std::vector<T>& a,
                                const std::vector<T>& b) {
  std::vector<T> c(p.m * p.n);
  for (size_t i = 0; i < p.m; ++i) {
    for (size_t j = 0; j < p.n; ++j) {
      uint64_t sum = 0;
      for (size_t k = 0; k < p.k; ++k) {
        const T x = a[p.transpose_a ? k * p.m + i : i * p.k + k];
        const T y = b[p.transpose_b ? j * p.k + k : k * p.n + j];
        sum += static_cast<uint64_t>(x) * static_cast<uint64_t>(y);
      }
      c[i * p.n + j] = static_cast<T>(sum);
    }
  }
  return c;
}

template <class T>
void check_products(DType dtype, vector_test::Numbers& numbers) {
  const IntegerMultiply multiply = find_integer_multiply(dtype);
  REQUIRE((multiply != nullptr));
  for (int round = 0; round < 40; ++round) {
    IntegerProduct p{numbers.next() % 12, numbers.next() % 40, numbers.next() % 30,
                     numbers.next() % 2 == 0, numbers.next() % 2 == 0};
    // More k than are laid out at once.
    if (round % 20 == 0) p.k += 4096;
    std::vector<T> a(p.m * p.k + 1), b(p.k * p.n + 1);
    for (T& x : a) x = static_cast<T>(numbers.next());
    for (T& x : b) x = static_cast<T>(numbers.next());
    const std::vector<T> expected = expected_product(p, a, b);
    // A part of the rows and columns; the rest must stay as it was.
    IntegerProductCall call;
    call.m0 = numbers.next() % (p.m + 1);
    call.m1 = call.m0 + numbers.next() % (p.m - call.m0 + 1);
    call.n0 = numbers.next() % (p.n + 1);
    call.n1 = call.n0 + numbers.next() % (p.n - call.n0 + 1);
    call.adds = round % 3 == 0;
    std::vector<T> c(p.m * p.n + 1, T{77});
    const auto scratch = allocate_host_buffer(integer_product_scratch(p) + 64);
    call.a = a.data();
    call.b = b.data();
    call.c = c.data() + call.m0 * p.n + call.n0;
    call.c_stride = p.n;
    call.scratch = scratch->address();
    multiply(p, call);
    size_t wrong = c.back() == T{77} ? 0 : 1;
    for (size_t i = 0; i < p.m; ++i) {
      for (size_t j = 0; j < p.n; ++j) {
        const bool inside = i >= call.m0 && i < call.m1 && j >= call.n0 && j < call.n1;
        const auto sum = static_cast<T>(static_cast<uint64_t>(expected[i * p.n + j]) +
                                        (call.adds ? 77u : 0u));
        wrong += c[i * p.n + j] != (inside ? sum : T{77});
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("integer products wrap on every host ISA") {
  vector_test::Numbers numbers(7);
  vector_test::on_every_isa([&] {
    check_products<int64_t>(i64, numbers);
    check_products<int32_t>(i32, numbers);
    check_products<uint8_t>(u8, numbers);
    CHECK((find_integer_multiply(f32) == nullptr));
  });
}

TEST_CASE("npu multiplies integers as ref does in batches and in any place of a graph") {
  for (const DType dtype : {i64, i32, u8}) {
    CAPTURE(std::string(name_of(dtype)));
    const auto run = [&](const std::string& backend) {
      Graph g;
      const Value a = g.input("a", dtype, {-1, 2, 17, 9});
      const Value b = g.input("b", dtype, {2, 9, 70});
      // An element-wise neighbour that the product must not take along.
      const Value y = square(matmul(a + 1, b)) + 3;
      Session session(g, device(backend));
      CHECK(session
                .describe({}, {y},
                          {{a, counting({3, 2, 17, 9}, dtype)}, {b, counting({2, 9, 70}, dtype)}})
                .find("matmul") != std::string::npos);
      return session.run(y,
                         {{a, counting({3, 2, 17, 9}, dtype)}, {b, counting({2, 9, 70}, dtype)}});
    };
    CHECK(bit_equal(run("npu"), run("ref")));
  }
}

TEST_CASE("an integer product is priced by its multiplications on the vector cores") {
  const auto launch = [](int64_t m, int64_t k, int64_t n, DType dtype) {
    Graph g;
    const Value y = matmul(g.input("a", dtype, {m, k}), g.input("b", dtype, {k, n}));
    return schedule(*default_preset(), y.node(), {});
  };
  const Launch large = launch(512, 512, 512, i32);
  CHECK_FALSE(large.cube);
  CHECK(large.price.flops == 2 * int64_t{512} * 512 * 512);
  CHECK(large.price.block_dim == default_preset()->vector_cores);
  CHECK(large.price.total_ns >= large.price.compute_roof_ns);
  CHECK(large.price.total_ns >= large.price.memory_roof_ns);
  // A multiplication and an addition of 4-byte lanes.
  const double lanes = static_cast<double>(default_preset()->vector_bytes_per_cycle) *
                       static_cast<double>(default_preset()->vector_cores);
  const double cycles = 2.0 * 4 * 512 * 512 * 512 / lanes;
  CHECK(static_cast<double>(large.price.pipeline_ns) >= cycles / default_preset()->clock_ghz());
  CHECK(launch(512, 1024, 512, i32).price.total_ns > large.price.total_ns);
  CHECK(launch(512, 512, 512, i64).price.total_ns > large.price.total_ns);
  CHECK(launch(1, 1, 1, u8).price.block_dim == 1);
  CHECK(launch(0, 3, 4, i64).price.total_ns > 0);
  CHECK(launch(2, 0, 4, i64).price.total_ns > 0);
}

}  // namespace

TEST_SUITE_END();
