// The NPU's kernels on one thread beside what else computes the same, and beside what the processor
// can do at that moment. Usage: bench_kernels [products|vectors|softmax]... [--rounds N]
// [--only TEXT], which leaves out the products without the text. Each line: the limit or peer named
// first is 1.00, the others are shares of its rate.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/cube/kernel_choice.h"
#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/common/vector/softmax.h"
#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/half.h"
#include "keel/core/tensor/buffer.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/ops.h"

#include "bench/contest.h"
#include "bench/peers.h"
#include "cli/bench/machine_limits.h"

namespace keel_bench {
namespace {

using namespace keel;
using keel_cli::copy_floats;
using keel_cli::read_floats;
using keel_cli::run_fma_chains;
using keel_cli::triad;

// f32 in [-0.5, 0.5), or zeros, in memory laid out as Keel's own.
class Floats {
 public:
  explicit Floats(size_t n) : buffer_(allocate_host_buffer(align_up(n, 64) * sizeof(float))) {
    uint32_t state = 12345;
    for (size_t i = 0; i < n; ++i) {
      state = state * 1664525u + 1013904223u;
      data()[i] = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
    }
  }
  float* data() const { return static_cast<float*>(buffer_->address()); }

 private:
  std::shared_ptr<Buffer> buffer_;
};

std::vector<BFloat16> narrowed(const Floats& from, size_t n) {
  std::vector<BFloat16> to;
  for (size_t i = 0; i < n; ++i) to.emplace_back(from.data()[i]);
  return to;
}

void append(std::vector<Contestant>& to, const std::vector<Contestant>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// ------------------------------------------------------------------------------ products

Contestant cube(const Product& p, DType dtype, const void* a, const void* b, float* c) {
  CubeProblem problem;
  problem.m = p.m;
  problem.n = p.n;
  problem.k = p.k;
  problem.a = problem.b = dtype;
  problem.transpose_a = p.transpose_a;
  problem.transpose_b = p.transpose_b;
  const CubePlan plan = plan_cube(problem);
  const auto scratch = allocate_host_buffer(cube_scratch_bytes(plan, p.m, p.n));
  CubeArgs args;
  args.a = a;
  args.a_stride = p.transpose_a ? p.m : p.k;
  args.b = b;
  args.b_stride = p.transpose_b ? p.k : p.n;
  args.c = c;
  args.c_stride = p.n;
  return {"keel", [=] { cube_block(plan, args, {0, p.m, 0, p.n}, scratch->address()); }};
}

void products(int rounds, const std::string& only) {
  const Product shapes[] = {{512, 512, 512},
                            {1024, 1024, 1024},
                            {2048, 2048, 2048},
                            {100, 784, 10},
                            {784, 100, 10, true},
                            {128, 784, 512},
                            {784, 128, 512, true},
                            {37, 129, 53},
                            {1, 784, 512},
                            {512, 784, 1},
                            {1, 784, 512, false, true},
                            {8, 784, 512, false, true},
                            {16, 784, 512, false, true},
                            {64, 64, 64},
                            {49, 16, 49},
                            {100, 128, 512},
                            {128, 100, 512, true}};
  const double fma = run_fma_chains();
  std::printf("f32 products, one thread, host isa %s\n", host_isa_name().c_str());
  for (const Product& p : shapes) {
    const std::string title = std::to_string(p.m) + "x" + std::to_string(p.k) + "x" +
                              std::to_string(p.n) + (p.transpose_a ? " A transposed" : "") +
                              (p.transpose_b ? " B transposed" : "");
    if (title.find(only) == std::string::npos) continue;
    const Floats a(p.m * p.k), b(p.k * p.n), c(p.m * p.n);
    std::vector<Contestant> all;
    if (fma > 0) all.push_back({"FMA peak", [] { run_fma_chains(); }, fma});
    all.push_back(cube(p, f32, a.data(), b.data(), c.data()));
    append(all, eigen_products(p, a.data(), b.data(), c.data()));
    append(all, onednn_products(p, a.data(), b.data(), c.data()));
    const double flop =
        2.0 * static_cast<double>(p.m) * static_cast<double>(p.k) * static_cast<double>(p.n);
    print_row(title, run_contest(all, flop, rounds), 1e-9, "GFLOP/s");
    const auto narrow_a = narrowed(a, p.m * p.k), narrow_b = narrowed(b, p.k * p.n);
    all = onednn_bf16_products(p, narrow_a.data(), narrow_b.data(), c.data());
    all.push_back(cube(p, bf16, narrow_a.data(), narrow_b.data(), c.data()));
    print_row(title + " bf16", run_contest(all, flop, rounds), 1e-9, "GFLOP/s");
  }
}

// ------------------------------------------------------------------------------ vectors

// The kernel of the only task that a graph of element-wise ops or one reduction becomes.
class Task {
 public:
  explicit Task(Graph& graph, Value result) {
    graph.set_outputs({result});
    graph_ = fuse(graph, [](const Node& node) { return npu::find_entry(node)->supports(node); });
    const Node& node = graph_->outputs()[0].node();
    SharedEpilogues epilogues(false);
    KernelPlan plan = npu::find_entry(node)->plan(node, {StateLayouts(), epilogues});
    workspace_ = allocate_host_buffer(plan.workspace_bytes);
    kernel_ = std::move(plan.kernel);
  }

  // arguments: the inputs, then the output.
  Contestant contestant(std::vector<void*> arguments) const {
    arguments.push_back(workspace_->address());
    return {"keel", [kernel = kernel_.get(), arguments] {
              for (int phase = 0; phase < kernel->phases(); ++phase) {
                for (int block = 0; block < kernel->blocks(phase); ++block) {
                  kernel->run(arguments.data(), phase, block);
                }
              }
            }};
  }

 private:
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Kernel> kernel_;
  std::shared_ptr<Buffer> workspace_;
};

// The limit that the processor sets to an op of this kind.
std::vector<Contestant> limits(VectorOp op, const Floats (&in)[3], const Floats& to, size_t n) {
  const float *a = in[0].data(), *b = in[1].data(), *c = in[2].data();
  float* dst = to.data();
  switch (op) {
    case VectorOp::kMultiplyAdd:
      return {{"triad past the caches", [=] { triad(a, b, c, dst, n, true); }},
              {"triad", [=] { triad(a, b, c, dst, n, false); }}};
    case VectorOp::kSum:
      return {{"read", [=] {
                 const volatile float sum = read_floats(a, n);
                 static_cast<void>(sum);
               }}};
    default:
      return {{"copy past the caches", [=] { copy_floats(a, dst, n, true); }},
              {"copy", [=] { copy_floats(a, dst, n, false); }}};
  }
}

void vector_op(const char* name, VectorOp op, size_t n, int rounds) {
  const Floats in[3] = {Floats(n), Floats(n), Floats(n)};
  const Floats to(n);
  Graph graph;
  const Shape shape{static_cast<int64_t>(n)};
  const Value a = graph.input("a", f32, shape), b = graph.input("b", f32, shape),
              c = graph.input("c", f32, shape);
  std::optional<Task> task;
  std::vector<void*> arguments = {in[0].data()};
  double arrays = 2;
  switch (op) {
    case VectorOp::kMultiplyAdd:
      task.emplace(graph, a * b + c);
      arguments = {in[0].data(), in[1].data(), in[2].data()};
      arrays = 4;
      break;
    case VectorOp::kRelu:
      task.emplace(graph, relu(a));
      break;
    case VectorOp::kExp:
      task.emplace(graph, exp(a));
      break;
    case VectorOp::kSum:
      task.emplace(graph, sum(a));
      arrays = 1;
      break;
  }
  arguments.push_back(to.data());
  std::vector<Contestant> all = limits(op, in, to, n);
  // In the caches stores past them are no limit but a brake.
  if (n * sizeof(float) < (size_t{1} << 20) && all.size() > 1) all.erase(all.begin());
  all.push_back(task->contestant(arguments));
  append(all, torch_vector_ops(op, in[0].data(), in[1].data(), in[2].data(), to.data(), n));
  print_row(std::string(name) + " of " + std::to_string(n * sizeof(float) >> 10) + " KiB",
            run_contest(all, arrays * static_cast<double>(n) * sizeof(float), rounds), 1e-9,
            "GB/s");
}

void vectors(int rounds) {
  std::printf("element-wise ops and sums in f32, one thread, host isa %s\n",
              vector::name_of(vector::host_isa()));
  for (const size_t n : {size_t{64} << 20, size_t{64} << 10}) {
    vector_op("a*b+c", VectorOp::kMultiplyAdd, n, rounds);
    vector_op("relu", VectorOp::kRelu, n, rounds);
    vector_op("exp", VectorOp::kExp, n, rounds);
    vector_op("sum", VectorOp::kSum, n, rounds);
  }
}

void softmax_rows(int rounds) {
  std::printf("softmax over rows, f32, one thread, host isa %s\n",
              vector::name_of(vector::host_isa()));
  struct {
    size_t rows, cols;
  } constexpr kShapes[] = {{100, 10}, {128, 512}, {4096, 1024}};
  for (const auto& s : kShapes) {
    const Floats from(s.rows * s.cols), to(s.rows * s.cols);
    std::vector<Contestant> all = onednn_softmax(from.data(), to.data(), s.rows, s.cols);
    const vector::SoftmaxInstruction run = vector::find_softmax(f32);
    const vector::SoftmaxCall call{from.data(), s.cols, to.data(), s.cols, s.rows, s.cols};
    all.push_back({"keel", [=] { run(call); }});
    append(all, torch_softmax(from.data(), to.data(), s.rows, s.cols));
    const double bytes = 2.0 * static_cast<double>(s.rows * s.cols) * sizeof(float);
    print_row(std::to_string(s.rows) + "x" + std::to_string(s.cols),
              run_contest(all, bytes, rounds), 1e-9, "GB/s");
  }
}

int main(const std::vector<std::string>& words) {
  int rounds = 9;
  std::string only;
  std::vector<std::string> suites;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--rounds" && i + 1 < words.size())
      rounds = std::max(1, std::atoi(words[++i].c_str()));
    else if (words[i] == "--only" && i + 1 < words.size())
      only = words[++i];
    else
      suites.push_back(words[i]);
  }
  if (suites.empty()) suites = {"products", "vectors", "softmax"};
  for (const std::string& suite : suites) {
    if (suite == "products")
      products(rounds, only);
    else if (suite == "vectors")
      vectors(rounds);
    else if (suite == "softmax")
      softmax_rows(rounds);
    else {
      std::fprintf(stderr, "bench_kernels: no suite '%s'; there are products, vectors, softmax\n",
                   suite.c_str());
      return 2;
    }
  }
  return 0;
}

}  // namespace
}  // namespace keel_bench

int main(int argc, char** argv) { return keel_bench::main({argv + 1, argv + argc}); }
