#include "cli/bench/kernel_cases.h"

#include <algorithm>

#include <fmt/core.h>

namespace keel_cli {
namespace {

using keel::DType;
using keel::Graph;
using keel::Value;

// An operand: on the device from the start, nobody's parameter.
Value operand(Graph& graph, const char* name, const keel::Shape& shape, DType dtype) {
  return graph.state(name, keel::uniform(shape, -0.5, 0.5, dtype), {.trainable = false});
}

std::string size_text(double bytes) {
  return bytes >= 1 << 20 ? fmt::format("{:.0f} MiB", bytes / (1 << 20))
                          : fmt::format("{:.0f} KiB", bytes / 1024);
}

KernelCase product(int64_t m, int64_t k, int64_t n, bool transposed, DType dtype) {
  const auto size = [](int64_t a, int64_t b) { return static_cast<double>(a * b); };
  const double width = static_cast<double>(keel::size_of(dtype));
  return {"products",
          fmt::format("{}x{}x{}{}", m, k, n, transposed ? " A^T" : ""),
          dtype,
          2 * size(m, k) * static_cast<double>(n),
          (size(m, k) + size(k, n) + size(m, n)) * width,
          Traffic::kRead,
          [=](Graph& graph) {
            const keel::Shape a = transposed ? keel::Shape{k, m} : keel::Shape{m, k};
            return matmul(operand(graph, "a", a, dtype), operand(graph, "b", {k, n}, dtype),
                          {.transpose_a = transposed});
          }};
}

KernelCase elementwise(const char* name, int64_t n, DType dtype, int operands, double flop,
                       const std::function<Value(Value, Value, Value)>& make) {
  const double bytes = static_cast<double>(n) * static_cast<double>(keel::size_of(dtype));
  return {"elementwise",
          fmt::format("{} {}", name, size_text(bytes)),
          dtype,
          flop * static_cast<double>(n),
          bytes * (operands + 1),
          operands == 3 ? Traffic::kTriad : Traffic::kCopy,
          [=](Graph& graph) {
            const Value a = operand(graph, "a", {n}, dtype);
            const Value b = operands == 3 ? operand(graph, "b", {n}, dtype) : a;
            const Value c = operands == 3 ? operand(graph, "c", {n}, dtype) : a;
            return make(a, b, c);
          }};
}

void add_products(const KernelChoice& choice, std::vector<KernelCase>& cases) {
  struct {
    int64_t m, k, n;
    bool transposed;
  } constexpr kTraining[] = {{100, 784, 10, false}, {784, 100, 10, true},   {128, 784, 512, false},
                             {784, 128, 512, true}, {128, 512, 512, false}, {1, 784, 512, false}};
  for (const DType dtype : choice.dtypes) {
    for (const int64_t n : choice.sizes) cases.push_back(product(n, n, n, false, dtype));
    for (const auto& p : kTraining) cases.push_back(product(p.m, p.k, p.n, p.transposed, dtype));
  }
}

void add_elementwise(const KernelChoice& choice, std::vector<KernelCase>& cases) {
  for (const DType dtype : choice.dtypes) {
    for (const int64_t kib : choice.kib) {
      // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): tokens, which have no size, are no choice.
      const int64_t n = kib * 1024 / static_cast<int64_t>(keel::size_of(dtype));
      cases.push_back(elementwise("a*b+c", n, dtype, 3, 2,
                                  [](Value a, Value b, Value c) { return a * b + c; }));
      cases.push_back(
          elementwise("relu", n, dtype, 1, 1, [](Value a, Value, Value) { return relu(a); }));
      cases.push_back(
          elementwise("exp", n, dtype, 1, 1, [](Value a, Value, Value) { return exp(a); }));
      cases.push_back(
          elementwise("tanh", n, dtype, 1, 1, [](Value a, Value, Value) { return tanh(a); }));
    }
  }
}

void add_sums(const KernelChoice& choice, std::vector<KernelCase>& cases) {
  for (const DType dtype : choice.dtypes) {
    for (const int64_t kib : choice.kib) {
      // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): tokens, which have no size, are no choice.
      const int64_t n = kib * 1024 / static_cast<int64_t>(keel::size_of(dtype));
      const double bytes = static_cast<double>(kib) * 1024;
      cases.push_back({"sums", "sum " + size_text(bytes), dtype, static_cast<double>(n), bytes,
                       Traffic::kRead,
                       [=](Graph& graph) { return sum(operand(graph, "a", {n}, dtype)); }});
    }
  }
}

// A row's maximum, difference, exp, sum and quotient: five operations for each element.
void add_softmax(const KernelChoice& choice, std::vector<KernelCase>& cases) {
  for (const DType dtype : choice.dtypes) {
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{100, 10}, {128, 512}, {4096, 1024}}) {
      const double elements = static_cast<double>(rows * cols);
      const keel::Shape shape{rows, cols};
      cases.push_back({"softmax", fmt::format("softmax {}x{}", rows, cols), dtype, 5 * elements,
                       2 * elements * static_cast<double>(keel::size_of(dtype)), Traffic::kCopy,
                       [=](Graph& graph) { return softmax(operand(graph, "a", shape, dtype)); }});
    }
  }
}

using Adder = void (*)(const KernelChoice&, std::vector<KernelCase>&);
constexpr std::pair<const char*, Adder> kKinds[] = {{"products", add_products},
                                                    {"elementwise", add_elementwise},
                                                    {"sums", add_sums},
                                                    {"softmax", add_softmax}};

}  // namespace

const std::vector<std::string>& kernel_kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& kind : kKinds) all.emplace_back(kind.first);
    return all;
  }();
  return names;
}

std::vector<KernelCase> kernel_cases(const KernelChoice& choice) {
  std::vector<KernelCase> cases;
  for (const auto& [name, add] : kKinds) {
    const auto& kinds = choice.kinds;
    if (std::find(kinds.begin(), kinds.end(), name) != kinds.end()) add(choice, cases);
  }
  return cases;
}

}  // namespace keel_cli
