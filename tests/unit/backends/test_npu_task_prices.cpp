// Tests that a task of a program takes what a measured row of the same op and shape is priced at,
// and that a transposition's price follows from what lies together, however it is written.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "keel/backends/common/task_list.h"
#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/backends/npu/measured/compare.h"
#include "keel/backends/npu/npu_library.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/ops.h"

#include "npu_model_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;

// The prices of the tasks that a program of the graph has on cores, with nothing in L2.
std::vector<TaskPrice> prices_of_program(const Graph& graph, const Preset& preset) {
  NpuLibrary library(std::make_shared<const Preset>(preset));
  const auto supports = [&](const Node& node) { return library.supports(node); };
  const TaskList list = lower(*fuse(*decompose(graph, supports), supports), library);
  const NpuLibrary::Launches launches = library.take_launches();
  std::vector<TaskPrice> prices;
  for (const Task& task : list.tasks) {
    const auto it = launches.find(task.kernel);
    if (it != launches.end()) prices.push_back(it->second.launch->price);
  }
  return prices;
}

// A row of measurements that names its op.
TaskPrice price_of_row(const std::string& op, const Type& type, const std::string& attributes,
                       const Preset& preset) {
  std::string shape = "\"";
  for (const int64_t dim : type.shape.dims())
    shape += (shape == "\"" ? "" : ",") + std::to_string(dim);
  shape += "\"";
  const std::string dtype = name_of(type.dtype);
  const MeasuredTable table = parse_measured(
      "OP Type,Task Duration(us),Input Shapes,Input Data Types,Op,Op Shapes,Op Data "
      "Types,Attributes\n"
      "A,1," +
          shape + "," + dtype + "," + op + "," + shape + "," + dtype + ",\"" + attributes + "\"\n",
      "t.csv");
  const Comparison comparison =
      compare(table, [&](const std::string&) { return std::make_shared<const Preset>(preset); });
  REQUIRE(comparison.rows.size() == 1);
  return comparison.rows[0].cold;
}

struct PricedOp {
  std::string op;
  Type type;
  std::string attributes;
  Value (*build)(Value x);
};

// Checks that a program of the op has one task, which is priced as the row is.
void check_as_measured(const PricedOp& c, const Preset& preset) {
  CAPTURE(c.op);
  CAPTURE(to_string(c.type));
  CAPTURE(preset.name);
  Graph graph;
  graph.set_outputs({c.build(graph.input("x", c.type.dtype, c.type.shape))});
  const std::vector<TaskPrice> program = prices_of_program(graph, preset);
  const TaskPrice row = price_of_row(c.op, c.type, c.attributes, preset);
  REQUIRE(program.size() == 1);
  CHECK(program[0].block_dim == row.block_dim);
  CHECK(program[0].total_ns == row.total_ns);
  CHECK(program[0].bytes_in == row.bytes_in);
  CHECK(program[0].bytes_out == row.bytes_out);
}

VectorWork work_of_transpose(const Shape& shape, const std::vector<int64_t>& perm) {
  Graph graph;
  const Value x = graph.input("x", f16, shape);
  graph.set_outputs({transpose(x, perm)});
  return work_of(load_preset("ascend910b2"), graph.nodes().back()).splits.at(0).work;
}

}  // namespace

TEST_CASE("npu task prices: a task takes what a measured row of its op and shape takes") {
  for (const char* preset : {"ascend910-30c", "ascend910b2"}) {
    for (const PricedOp& c : std::vector<PricedOp>{
             {"transpose",
              {f16, {64, 128, 12, 64}},
              "0,2,1,3",
              [](Value x) {
                return transpose(x, {0, 2, 1, 3});
              }},
             {"transpose",
              {f32, {8, 56, 56, 64}},
              "0,3,1,2",
              [](Value x) {
                return transpose(x, {0, 3, 1, 2});
              }},
             {"transpose",
              {f16, {512, 768}},
              "1,0",
              [](Value x) {
                return transpose(x, {1, 0});
              }},
             {"sum", {f32, {512, 768}}, "1", [](Value x) { return sum(x, {1}); }},
             {"sum",
              {f16, {64, 32, 24}},
              "0,1",
              [](Value x) {
                return sum(x, {0, 1});
              }},
             {"cast", {f32, {333, 257}}, "f16", [](Value x) { return cast(x, f16); }},
             {"softmax", {f32, {512, 1000}}, "", [](Value x) { return softmax(x); }},
             {"softmax", {f16, {32, 12, 128, 128}}, "", [](Value x) { return softmax(x); }}}) {
      check_as_measured(c, load_preset(preset));
    }
  }
  const PricedOp in_bf16{"softmax", {bf16, {1023, 2047}}, "", [](Value x) { return softmax(x); }};
  check_as_measured(in_bf16, load_preset("ascend910b2"));
}

TEST_CASE("npu task prices: rows of a transposition are what lies together on either side") {
  // Rows of 3 * 5 elements move as they are.
  const VectorWork rows = work_of_transpose({4, 6, 3, 5}, {1, 0, 2, 3});
  CHECK(rows.row_in == 3 * 5 * 2);
  CHECK(rows.row_out == 3 * 5 * 2);
  CHECK(rows.pass_bytes == 0);
  // Lines of 8 channels become lines of 6 * 7 pixels.
  const VectorWork lines = work_of_transpose({3, 6, 7, 8}, {0, 3, 1, 2});
  CHECK(lines.row_in == 8 * 2);
  CHECK(lines.row_out == 6 * 7 * 2);
  CHECK(lines.pass_bytes > 0);
  // And back.
  const VectorWork back = work_of_transpose({3, 8, 6, 7}, {0, 2, 3, 1});
  CHECK(back.row_in == 6 * 7 * 2);
  CHECK(back.row_out == 8 * 2);
  // Axes of length 1 move nothing.
  const VectorWork none = work_of_transpose({4, 1, 9}, {0, 2, 1});
  CHECK(none.row_in == 0);
  CHECK(none.row_out == 0);
  CHECK(none.pass_bytes == 0);
  const VectorWork apart = work_of_transpose({4, 1, 9, 5}, {3, 0, 1, 2});
  CHECK(apart.row_in == 5 * 2);
  CHECK(apart.row_out == 4 * 9 * 2);
}

TEST_CASE("npu task prices: ways to write the same transposition have the same price") {
  // Short rows take longer to issue than the memory takes for their bytes.
  Preset preset = load_preset("ascend910b2");
  preset.gm_ub_row_ns = 10;
  const auto price_of = [&](const Shape& shape, const std::vector<int64_t>& perm) {
    Graph graph;
    const Value x = graph.input("x", f32, shape);
    graph.set_outputs({transpose(x, perm)});
    return prices_of_program(graph, preset).at(0).total_ns;
  };
  const int64_t lines = price_of({64, 7 * 7, 64}, {0, 2, 1});
  CHECK(price_of({64, 7, 7, 64}, {0, 3, 1, 2}) == lines);
  CHECK(price_of({64, 1, 7, 7, 64}, {0, 4, 2, 3, 1}) == lines);
  const int64_t rows = price_of({64, 128, 96}, {1, 0, 2});
  CHECK(price_of({64, 128, 12, 8}, {1, 0, 2, 3}) == rows);
  CHECK(price_of({64, 128, 1, 12, 8}, {1, 2, 0, 3, 4}) == rows);
  CHECK(price_of({64, 128, 12, 8, 1}, {1, 4, 0, 2, 3}) == rows);
}

TEST_CASE("npu task prices: rows that a cluster joins are stored part by part") {
  Preset preset = load_preset("ascend910b2");
  preset.gm_ub_row_ns = 10;
  const auto price_of = [&](const Shape& shape) {
    Graph graph;
    const Value x = exp(graph.input("x", f32, shape));
    graph.set_outputs({concat({x, tanh(x), square(x)}, 1)});
    const std::vector<TaskPrice> prices = prices_of_program(graph, preset);
    REQUIRE(prices.size() == 1);
    CHECK(prices[0].bytes_in == shape.num_elements() * 4);
    CHECK(prices[0].bytes_out == shape.num_elements() * 12);
    return prices[0].total_ns;
  };
  CHECK(price_of({4096, 32}) > price_of({32, 4096}));
}

// The ids of short rows are far more bytes than the rows; they come one behind the other.
TEST_CASE("npu task prices: wider rows of a table are never cheaper to gather") {
  for (const char* name : {"ascend910", "ascend310", "ascend910b1"}) {
    CAPTURE(name);
    const Preset preset = load_preset(name);
    int64_t before = 0;
    for (const int64_t columns : {1, 2, 4, 16, 64, 256, 1024}) {
      CAPTURE(columns);
      Graph graph;
      graph.set_outputs(
          {gather(graph.input("table", f16, {422, columns}), graph.input("ids", i32, {9028}), 0)});
      const std::vector<TaskPrice> prices = prices_of_program(graph, preset);
      REQUIRE(prices.size() == 1);
      CHECK(prices[0].total_ns >= before);
      before = prices[0].total_ns;
    }
  }
}

TEST_SUITE_END();
