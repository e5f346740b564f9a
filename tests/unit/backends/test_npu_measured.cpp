#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/backends/npu/measured/compare.h"
#include "keel/backends/npu/measured/fit.h"

#include "npu_model_for_tests.h"

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;

TEST_SUITE_BEGIN("unit");

namespace {

const std::string kHeader =
    "OP Type,Block Dim,Task Duration(us),Input Shapes,Input Data Types,Input Formats,Output "
    "Shapes,Output Data Types\n";

MeasuredRow row_of(const std::string& text) {
  return parse_measured(kHeader + text + "\n", "t.csv").rows.at(0);
}

NodeWork work_of_row(const std::string& text) {
  const MappedRow mapped = map_row(row_of(text));
  REQUIRE_MESSAGE(mapped.op.has_value(), mapped.why_not);
  return mapped.op->work(load_preset("ascend910-30c"));
}

PresetOfDevice always(const Preset& preset) {
  return [=](const std::string&) { return std::make_shared<const Preset>(preset); };
}

// Sums of two arrays and casts of many sizes, blocks and both residencies' sizes, as `preset`
// prices them.
MeasuredTable rows_priced_by(const Preset& preset) {
  MeasuredTable table;
  for (int64_t i = 0; i < 120; ++i) {
    const int64_t elements = int64_t{64} << (i % 20);
    const std::string count = std::to_string(elements + 64 * i);
    const std::string text =
        i % 3 == 0   ? "Cast,,1," + count + ",f32,ND," + count + ",f16"
        : i % 3 == 1 ? "Add,,1," + count + ";" + count + ",f32;f32,ND;ND," + count + ",f32"
                     : "Gelu,,1," + count + ",f32,ND," + count + ",f32";
    MeasuredRow row = row_of(text);
    row.line = i + 2;
    row.block_dim = 1 + i % preset.vector_cores;
    NodeWork work = map_row(row).op->work(preset);
    set_residency(preset, Residency::kWarm, work);
    row.us = static_cast<double>(price_measured(preset, work, row.block_dim).total_ns) * 1e-3;
    table.rows.push_back(row);
  }
  return table;
}

double fitted(const Fit& fit, const std::string& name) {
  for (const FittedParameter& p : fit.parameters) {
    if (p.name == name) return p.after;
  }
  return -1;
}

}  // namespace

TEST_CASE("npu measured: products in fractals are the matrices that they hold") {
  const NodeWork work = work_of_row(
      "MatMul,32,296,\"48,1024,16,16;48,48,16,16;768\",f16;f16;f16,FRACTAL_NZ;FRACTAL_NZ;ND,"
      "\"48,1024,16,16\",f16");
  REQUIRE(work.cube.has_value());
  CHECK(work.cube->m == 16384);
  CHECK(work.cube->k == 768);
  CHECK(work.cube->n == 768);
  CHECK(work.cube->aligned_a);
  CHECK(work.cube->aligned_b);
  CHECK(work.cube->epilogue_instructions == 1);  // the bias
  CHECK(work.cube->epilogue_bytes_in == 0);
}

TEST_CASE("npu measured: the result says which operand of a product is transposed") {
  const NodeWork plain = work_of_row("MatMul,,1,\"32,64;64,128\",f16;f16,ND;ND,\"32,128\",f16");
  const NodeWork right = work_of_row("MatMul,,1,\"32,64;128,64\",f16;f16,ND;ND,\"32,128\",f16");
  const NodeWork left = work_of_row("MatMul,,1,\"64,32;64,128\",f16;f16,ND;ND,\"32,128\",f32");
  for (const NodeWork* work : {&plain, &right, &left}) {
    CHECK(work->cube->m == 32);
    CHECK(work->cube->n == 128);
    CHECK(work->cube->k == 64);
  }
  CHECK_FALSE(plain.cube->wide);
  CHECK(left.cube->wide);
  const MappedRow none = map_row(row_of("MatMul,,1,\"32,64;32,65\",f16;f16,ND;ND,\"9,9\",f16"));
  CHECK(!none.op.has_value());
  CHECK(contains(none.why_not, "no product"));
}

TEST_CASE("npu measured: element-wise rows move what their operands hold") {
  const NodeWork work = work_of_row("Add,,1,\"64,128;128\",f32;f32,ND;ND,\"64,128\",f32");
  REQUIRE(work.splits.size() == 1);
  CHECK(work.splits[0].work.bytes_in == (64 * 128 + 128) * 4);
  CHECK(work.splits[0].work.bytes_out == 64 * 128 * 4);
  CHECK(work.splits[0].work.pass_bytes == 4);
  const NodeWork many = work_of_row("AddN,,1,\"64;64;64\",f16;f16;f16,ND;ND;ND,\"64\",f16");
  CHECK(many.splits[0].work.instructions == 2);
  CHECK(many.splits[0].work.pass_bytes == 2 * 2);
}

TEST_CASE("npu measured: each class is told and what has no rule says so") {
  const auto kind_of = [](const std::string& text) {
    const MappedRow mapped = map_row(row_of(text));
    REQUIRE_MESSAGE(mapped.op.has_value(), mapped.why_not);
    return std::string(name_of(mapped.op->kind()));
  };
  CHECK(kind_of("Cast,,1,64,f32,ND,64,f16") == "cast");
  CHECK(kind_of("ReduceSum,,1,\"64,32\",f32,ND,64,f32") == "reduce");
  CHECK(kind_of("SoftmaxV2,,1,\"64,32\",f16,ND,\"64,32\",f16") == "softmax");
  CHECK(kind_of("LayerNorm,,1,\"64,32;32;32\",f16;f16;f16,ND;ND;ND,\"64,32\",f16") == "norm");
  CHECK(kind_of("TransData,,1,\"64,32\",f16,ND,\"2,4,16,16\",f16") == "transpose");
  CHECK(kind_of("Slice,,1,\"64,32\",f16,ND,\"64,16\",f16") == "copies");
  CHECK(contains(map_row(row_of("Nothing,,1,64,f32,ND,64,f32")).why_not, "no rule"));
  CHECK(contains(map_row(row_of("Add,,1,64,INT8,ND,64,INT8")).why_not, "INT8"));
}

TEST_CASE("npu measured: rows that name their op are that op") {
  const MeasuredTable table = parse_measured(
      "OP Type,Task Duration(us),Input Shapes,Input Data Types,Op,Op Shapes,Op Data "
      "Types,Attributes\n"
      "A,1,4,f32,matmul,\"64,32;128,32\",f16;f16,tb wide\n"
      "B,1,4,f32,sum,\"64,32\",f32,1\n"
      "C,1,4,f32,transpose,\"64,32\",f32,\"1,0\"\n"
      "D,1,4,f32,sum,\"64,32\",f32,2\n"
      "E,1,4,f32,no_such,64,f32,\n",
      "t.csv");
  const Preset preset = load_preset("ascend910-30c");
  const NodeWork product = map_row(table.rows[0]).op->work(preset);
  CHECK(product.cube->n == 128);
  CHECK(product.cube->wide);
  CHECK(map_row(table.rows[1]).op->work(preset).splits[0].work.bytes_out == 64 * 4);
  CHECK((map_row(table.rows[2]).op->kind() == MeasuredClass::kTranspose));
  CHECK(contains(map_row(table.rows[3]).why_not, "axis"));
  CHECK(contains(map_row(table.rows[4]).why_not, "no_such"));
}

TEST_CASE("npu measured: a comparison counts what is near and bad kernels on one side") {
  const Preset preset = load_preset("ascend910-30c");
  MeasuredTable table;
  for (const double factor : {1.0, 0.5, 2.0, 100.0}) {
    MeasuredRow row = row_of("Add,,1,\"4096,64;4096,64\",f32;f32,ND;ND,\"4096,64\",f32");
    NodeWork work = map_row(row).op->work(preset);
    set_residency(preset, Residency::kWarm, work);
    row.us =
        factor * static_cast<double>(price_measured(preset, work, std::nullopt).total_ns) * 1e-3;
    table.rows.push_back(row);
  }
  table.rows.push_back(row_of("Nothing,,1,64,f32,ND,64,f32"));
  const Comparison comparison = compare(table, always(preset));
  REQUIRE(comparison.classes.size() == 2);
  const ClassSummary& all = comparison.classes.back();
  CHECK(all.name == "all");
  CHECK(all.rows == 4);
  CHECK(all.one_sided == 1);  // a hundred times slower
  CHECK(all.above == 1);      // half as slow
  CHECK(all.met == 2);        // the same, and the bad kernel
  CHECK(all.median == doctest::Approx(1.0).epsilon(0.01));
  CHECK(comparison.unmapped.at("Nothing") == 1);
  CHECK(all.worst[0] == 1);
  CHECK(contains(reason_of(comparison.rows[3]), "bad kernel"));
}

TEST_CASE("npu measured: warm operands cost no more than cold ones and never less than the roof") {
  CHECK(holds("warm is no slower", 300, [] {
    const Preset preset = load_preset("ascend910-30c");
    const int64_t elements = *rc::gen::inRange<int64_t>(1, int64_t{1} << 26);
    MeasuredRow row = row_of("Add,,1,64;64,f32;f32,ND;ND,64,f32");
    for (auto* list : {&row.inputs, &row.outputs}) {
      for (MeasuredTensor& tensor : *list) tensor.dims = {elements};
    }
    NodeWork work = map_row(row).op->work(preset);
    const TaskPrice cold = price_measured(preset, work, std::nullopt);
    set_residency(preset, Residency::kWarm, work);
    const TaskPrice warm = price_measured(preset, work, std::nullopt);
    RC_ASSERT(warm.total_ns <= cold.total_ns);
    RC_ASSERT(warm.total_ns >= warm.memory_roof_ns);
    RC_ASSERT(warm.memory_roof_ns <= cold.memory_roof_ns);
  }));
}

TEST_CASE("npu measured: a fit finds the parameters that made the rows") {
  Preset made = load_preset("ascend910-30c");
  made.kernel_prologue_ns = 1500;
  made.task_per_block_ns = 60;
  made.vector_share = 0.4;
  made.gm_ub_gb_per_s = 30;
  Preset start = load_preset("ascend910-30c");
  start.kernel_prologue_ns = 700;
  start.task_per_block_ns = 120;
  start.vector_share = 0.8;
  start.gm_ub_gb_per_s = 60;
  const Fit fit = fit_preset(rows_priced_by(made), start);
  CHECK(fitted(fit, "kernel_prologue_ns") == doctest::Approx(1500).epsilon(0.05));
  CHECK(fitted(fit, "task_per_block_ns") == doctest::Approx(60).epsilon(0.05));
  CHECK(fitted(fit, "vector_share") == doctest::Approx(0.4).epsilon(0.05));
  CHECK(fitted(fit, "gm_ub_gb_per_s") == doctest::Approx(30).epsilon(0.05));
  CHECK(fit.after.rows + fit.held_out_after.rows == 120);
  CHECK(fit.held_out_after.rows == 24);
  CHECK(fit.after.distance < 0.02);
  CHECK(fit.held_out_after.distance < 0.03);
  CHECK(fit.before.distance > 0.2);
  CHECK(fitted(fit, "gm_l1_gb_per_s") == -1);  // no row rests on it
}

TEST_CASE("npu measured: a fitted preset is one that can be read and says what it rests on") {
  const Preset start = load_preset("ascend910-30c");
  const Fit fit = fit_preset(rows_priced_by(start), start);
  const Preset read = parse_preset(fitted_preset_text(fit, "t.csv"), "fitted", "fitted.json");
  CHECK(read.series == start.series);
  CHECK(read.cube_cores == start.cube_cores);
  CHECK(read.vector_share == doctest::Approx(fit.preset.vector_share).epsilon(0.001));
  bool told = false;
  for (const PresetParameter& p : read.parameters) {
    if (p.name == "kernel_prologue_ns") told = contains(p.source, "fitted on");
  }
  CHECK(told);
  CHECK(contains(error_of([&] { fit_preset({}, start); }), "at least 20 rows"));
}

TEST_CASE("npu measured: the public profiles are met as far as the model claims") {
  const char* folder = std::getenv("KEEL_ASCEND_PROFILES_DIR");
  if (folder == nullptr) {
    MESSAGE("keel test skipped: KEEL_ASCEND_PROFILES_DIR is not set");
    return;
  }
  const MeasuredTable table = read_measured(std::string(folder) + "/measured.csv");
  const Comparison comparison = compare(table, [](const std::string& device) {
    return std::make_shared<const Preset>(load_preset("ascend" + device));
  });
  const ClassSummary& all = comparison.classes.back();
  CHECK(all.rows >= 1200);
  CHECK(static_cast<double>(all.above) <= 0.12 * static_cast<double>(all.rows));
  CHECK(static_cast<double>(all.met) >= 0.62 * static_cast<double>(all.rows));
}

TEST_SUITE_END();
