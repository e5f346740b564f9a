// What a backend in a plugin takes from the vector library through the shared library: kernels of
// element-wise nodes and of reductions, made for a node and run here.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>
#include <keel/backends/common/anchored_node.h>
#include <keel/backends/common/shared_kernels.h>
#include <keel/backends/common/vector/element_kernels.h>
#include <keel/backends/common/vector/integer_product.h>
#include <keel/keel.h>

TEST_SUITE_BEGIN("library");

namespace {

// Runs all blocks of a plan, phase by phase, on inputs and outputs in the node's order.
void run(const keel::KernelPlan& plan, std::vector<void*> args) {
  keel::Tensor workspace(keel::u8, {static_cast<int64_t>(plan.workspace_bytes)});
  if (plan.workspace_bytes != 0) args.push_back(workspace.raw());
  uint32_t status = 0;
  if (plan.float_status) args.push_back(&status);
  for (int phase = 0; phase < plan.kernel->phases(); ++phase) {
    for (int block = 0; block < plan.kernel->blocks(phase); ++block)
      plan.kernel->run(args.data(), phase, block);
  }
}

}  // namespace

TEST_CASE("a backend outside takes element-wise kernels and reductions from the library") {
  keel::Graph g;
  const keel::Value x = g.input("x", keel::f32, {2, 3});
  const keel::Value doubled = x + x, total = sum(x, {1});
  std::vector<float> in = {1, 2, 3, 4, 5, 6}, out(6), sums(2);

  const keel::AnchoredNode elements(doubled.node());
  REQUIRE(keel::vector::supports_elements(elements).supported);
  run(keel::vector::plan_elements(elements), {in.data(), in.data(), out.data()});
  CHECK(out == std::vector<float>{2, 4, 6, 8, 10, 12});

  const keel::AnchoredNode reduction(total.node());
  REQUIRE(keel::vector::supports_reduction(reduction).supported);
  run(keel::vector::plan_reduction(reduction), {in.data(), sums.data()});
  CHECK(sums == std::vector<float>{6, 15});
}

TEST_CASE("a backend outside takes shared kernels and integer products from the library") {
  keel::Graph g;
  const keel::Value x = g.input("x", keel::f32, {2, 3});
  const keel::Value turned = transpose(x, {1, 0});
  std::vector<float> in = {1, 2, 3, 4, 5, 6}, out(6);
  const keel::SharedKernel* kernel = keel::find_shared_kernel(turned.node());
  REQUIRE(kernel != nullptr);
  run(kernel->plan(turned.node(), 1), {in.data(), out.data()});
  CHECK(out == std::vector<float>{1, 4, 2, 5, 3, 6});

  const keel::vector::IntegerProduct product{.m = 2, .n = 1, .k = 3};
  const keel::vector::IntegerMultiply multiply = keel::vector::find_integer_multiply(keel::i32);
  REQUIRE((multiply != nullptr));
  keel::Tensor scratch(keel::u8,
                       {static_cast<int64_t>(keel::vector::integer_product_scratch(product))});
  const std::vector<int32_t> a = {1, 2, 3, 4, 5, 6}, b = {7, 8, 9};
  std::vector<int32_t> c(2);
  multiply(product, {.a = a.data(),
                     .b = b.data(),
                     .c = c.data(),
                     .c_stride = 1,
                     .m1 = 2,
                     .n1 = 1,
                     .scratch = scratch.raw()});
  CHECK(c == std::vector<int32_t>{50, 122});
}

TEST_SUITE_END();
