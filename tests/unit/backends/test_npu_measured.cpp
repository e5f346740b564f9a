#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/backends/npu/measured/compare.h"

#include "measured_rows_for_tests.h"
#include "npu_model_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;

NodeWork work_of_row(const std::string& text) {
  const MappedRow mapped = map_row(row_of(text));
  REQUIRE_MESSAGE(mapped.op.has_value(), mapped.why_not);
  return mapped.op->work(load_preset("ascend910-30c"));
}

PresetOfDevice always(const Preset& preset) {
  return [=](const std::string&) { return std::make_shared<const Preset>(preset); };
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

TEST_CASE("npu measured: a row that no number holds is not mapped and the others are") {
  const MeasuredTable table =
      parse_measured(kMeasuredHeader +
                         "MatMul,,9,\"1099511627776,1;1,1099511627776\",f16;f16,ND;ND,,f16\n"
                         "Add,,5,64;64,f32;f32,ND;ND,64,f32\n",
                     "t.csv");
  const Comparison comparison = compare(table, always(load_preset("ascend910-30c")));
  CHECK(map_row(table.rows[0]).op.has_value());  // the row is an op: its work is what overflows
  REQUIRE(comparison.rows.size() == 1);
  CHECK(comparison.rows[0].row->type == "Add");
  CHECK(comparison.unmapped.at("MatMul") == 1);
  CHECK_MESSAGE(contains(comparison.why_not.at("MatMul"), "64 bits"),
                comparison.why_not.at("MatMul"));
  CHECK(comparison.sums.at("").unmapped_us == doctest::Approx(9));
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

TEST_CASE(
    "npu measured: a conversion of layout starts every core and weights are read by each product") {
  const Preset preset = load_preset("ascend910-30c");
  const MappedRow small = map_row(row_of("TransData,,1,\"16,16\",f16,ND,\"1,1,16,16\",f16"));
  CHECK(small.op->fixed_blocks(preset) == preset.vector_cores);
  const NodeWork work = small.op->work(preset);
  const TaskPrice price = price_measured(preset, work, small.op->fixed_blocks(preset));
  CHECK(price.block_dim == preset.vector_cores);
  CHECK(!map_row(row_of("Add,,1,64;64,f32;f32,ND;ND,64,f32")).op->fixed_blocks(preset));
  const NodeWork connection = work_of_row(
      "FullyConnection,,1,\"13,400,1,16,16;400,8,16,16\",f16;f16,FRACTAL_NZ;FRACTAL_Z,,");
  CHECK(connection.cube->batch == 13);
  CHECK(connection.cube->m == 16);
  CHECK(connection.cube->bytes_b == int64_t{400} * 16 * 8 * 16 * 2);
}

TEST_CASE("npu measured: a function fused to a product takes the passes that it takes alone") {
  const std::string shape = "\"16,16,16,16\"", nd = "\"256,256\"";
  const NodeWork alone =
      work_of_row("GeLUGrad,,1,\"256,256;256,256;256,256\",f32;f32;f32,ND;ND;ND," + nd + ",f32");
  const NodeWork fused = work_of_row(
      "FusionOp_MatMul_GeLUGrad,,1,\"16,16,16,16;16,16,16,16;16,16,16,16;16,16,16,16\",f16;f16;"
      "f16;f16,FRACTAL_NZ;FRACTAL_NZ;FRACTAL_NZ;FRACTAL_NZ," +
      shape + ",f16");
  // Two operands and the result are cast beside it.
  CHECK(fused.cube->epilogue_pass_bytes == alone.splits.at(0).work.pass_bytes + 3 * int64_t{4});
  CHECK(fused.cube->epilogue_bytes_in == 4);
  CHECK(fused.cube->epilogue_bytes_out == 2);
}

TEST_CASE("npu measured: more blocks than cores are priced as they were measured") {
  const Preset preset = load_preset("ascend910-30c");
  const NodeWork work = work_of_row("Mul,,1,\"9600,512;9600,512\",f32;f32,ND;ND,\"9600,512\",f32");
  const TaskPrice all = price_measured(preset, work, 30), more = price_measured(preset, work, 32);
  CHECK(all.block_dim == 30);
  CHECK(more.block_dim == 32);
  CHECK(
      static_cast<double>(more.busy(Unit::kVector)) ==
      doctest::Approx(2 * 30.0 / 32 * static_cast<double>(all.busy(Unit::kVector))).epsilon(0.01));
}

TEST_CASE("npu measured: convolutions in blocks are products of windows") {
  // Images of 8 x 8 with 32 channels, 3 x 3 taps, 48 channels of the result.
  const std::string x = "4,2,8,8,16", w = "18,3,16,16", y = "4,3,8,8,16";
  const auto row = [](const std::string& type, const std::string& in, const std::string& out) {
    return type + ",,1,\"" + in + "\",f16;f16,NC1HWC0;NC1HWC0,\"" + out + "\",f16";
  };
  const NodeWork forward = work_of_row(row("Conv2D", x + ";" + w, y));
  CHECK(forward.cube->batch == 4);
  CHECK(forward.cube->m == 64);
  CHECK(forward.cube->k == 9 * 32);
  CHECK(forward.cube->n == 48);
  CHECK(forward.cube->bytes_a == 4 * 32 * 64 * 2);
  CHECK(forward.cube->repeats_a == doctest::Approx(9));
  CHECK(forward.cube->epilogue_instructions == 0);
  const NodeWork images = work_of_row(row("Conv2DBackpropInput", y + ";" + w, x));
  CHECK(images.cube->k == 9 * 48);
  CHECK(images.cube->n == 32);
  // Both multiply as often, whatever follows.
  const Preset preset = load_preset("ascend910-30c");
  const int64_t flops = price_measured(preset, forward, std::nullopt).flops;
  CHECK(flops == int64_t{2} * 4 * 64 * 288 * 48);
  CHECK(price_measured(preset, images, std::nullopt).flops == flops);
  // Sums and squares of the results, which are cast.
  const NodeWork sums =
      work_of_row(row("FusionOp_Conv2D_BNTrainingReduce", x + ";" + w, y + ";1,3,1,1,16"));
  CHECK(sums.cube->epilogue_instructions == 4);
  CHECK(price_measured(preset, sums, std::nullopt).total_ns >=
        price_measured(preset, forward, std::nullopt).total_ns);
  const auto why_not = [](const std::string& text) { return map_row(row_of(text)).why_not; };
  CHECK(contains(why_not(row("Conv2D", x + ";19,3,16,16", y)), "other channels"));
  CHECK(contains(why_not(row("Conv2D", x + ";" + w, "4,3,8,8")), "known blocks"));
  CHECK(contains(why_not(row("Conv2D", "4,0,8,8,16;" + w, y)), "channels"));
  CHECK(contains(why_not(row("Conv2DBackpropFilter", y + ";" + x, w)), "no rule"));
}

TEST_CASE("npu measured: kernels of images deal whole images or channels") {
  const Preset preset = load_preset("ascend910-30c");
  struct Row {
    const char* text;
    int64_t blocks;  // as measured on that device
  };
  const Row rows[] = {
      {"FusionOp_BNTrainingUpdate_ReLUV2,,1,\"16,5,73,73,16;1,5,1,1,16\",f16;f32,"
       "NC1HWC0;NC1HWC0,\"1,5,1,1,16;1,5,1,1,16\",f32;f32",
       5},
      {"BNTrainingUpdateGrad,,1,\"16,6,35,35,16;1,6,1,1,16\",f16;f32,NC1HWC0;NC1HWC0,"
       "\"1,6,1,1,16\",f32",
       16},
      {"FusionOp_Conv2D_BNTrainingReduce,,1,\"64,3,35,35,16;75,4,16,16\",f16;f16,NC1HWC0;FracZ,"
       "\"64,4,35,35,16;1,4,1,1,16;1,4,1,1,16\",f16;f32;f32",
       16},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const MappedRow mapped = map_row(row_of(row.text));
    REQUIRE_MESSAGE(mapped.op.has_value(), mapped.why_not);
    CHECK(mapped.op->fixed_blocks(preset) == row.blocks);
    const NodeWork work = mapped.op->work(preset);
    CHECK(price_measured(preset, work, row.blocks).block_dim == row.blocks);
  }
}

TEST_CASE("npu measured: equal shares of parts are as many as a divisor that the cores have") {
  Preset preset = load_preset("ascend910");
  preset.cube_cores = 30;
  const auto blocks_of = [&](int64_t parts) {
    MeasuredOp op(MeasuredClass::kConvolution, CubeWork());
    op.set_parts(parts, Deal::kEqual);
    return op.fixed_blocks(preset);
  };
  constexpr int64_t kPrime = (int64_t{1} << 61) - 1;
  const std::pair<int64_t, int64_t> cases[] = {{1, 1},   {29, 29},    {30, 30},
                                               {31, 1},  {64, 16},    {77, 11},
                                               {90, 30}, {kPrime, 1}, {int64_t{1} << 62, 16}};
  for (const auto& parts_and_blocks : cases)
    CHECK(blocks_of(parts_and_blocks.first) == parts_and_blocks.second);
}

TEST_CASE("npu measured: functions of halves are computed in f32") {
  const std::string halves = "\"64,64;64,64;64,64\"";
  const NodeWork wide =
      work_of_row("GeLUGrad,,1," + halves + ",f32;f32;f32,ND;ND;ND,\"64,64\",f32");
  const NodeWork narrow =
      work_of_row("GeLUGrad,,1," + halves + ",f16;f16;f16,ND;ND;ND,\"64,64\",f16");
  // A cast for each of three operands and the result, in lanes of four bytes.
  CHECK(narrow.splits[0].work.pass_bytes == wide.splits[0].work.pass_bytes + 4 * int64_t{4});
}

TEST_CASE("npu measured: ops of a net or step are added up with what is not mapped beside them") {
  const std::string header =
      "Net,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes,Output Data "
      "Types\n";
  const MeasuredTable table =
      parse_measured(header +
                         "bert,Add,3,64;64,f32;f32,64,f32\nbert,Add,3,64;64,f32;f32,64,f32\n"
                         "bert,Nothing,7,64,f32,64,f32\nresnet,Add,5,64;64,f32;f32,64,f32\n",
                     "t.csv");
  CHECK(table.group_column == "Net");
  const Comparison comparison = compare(table, always(load_preset("ascend910-30c")));
  REQUIRE(comparison.sums.size() == 2);
  const GroupSum& bert = comparison.sums.at("bert");
  CHECK(bert.rows == 3);
  CHECK(bert.unmapped == 1);
  CHECK(bert.unmapped_us == doctest::Approx(7));
  CHECK(bert.measured_us == doctest::Approx(6));
  CHECK(bert.modelled_us == doctest::Approx(2 * comparison.rows[0].modelled_us()));
  REQUIRE(bert.classes.size() == 1);
  const SumPart& additions = bert.classes.at("element-wise");
  CHECK(additions.rows == 2);
  CHECK(additions.measured_us == doctest::Approx(6));
  CHECK(additions.missing_us() == doctest::Approx(6 - bert.modelled_us));
  REQUIRE(bert.unmapped_types.size() == 1);
  CHECK(bert.unmapped_types.at("Nothing").rows == 1);
  CHECK(bert.unmapped_types.at("Nothing").measured_us == doctest::Approx(7));
  CHECK(comparison.sums.at("resnet").measured_us == doctest::Approx(5));
}

// It was their median, times their number.
TEST_CASE("npu measured: the sum of equal rows is that of what each of them took") {
  std::string rows;
  for (const char* us : {"2", "2", "1000"})
    rows += std::string("Add,,") + us + ",4096;4096,f32;f32,ND;ND,4096,f32\n" + "Nothing,,9" + us +
            ",64,f32,ND,64,f32\n";
  const MeasuredTable table = parse_measured(kMeasuredHeader + rows, "t.csv");
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows_in_file() == 6);
  CHECK(table.rows[0].us == 2);  // the median
  CHECK(table.rows[0].count == 3);
  const Comparison comparison = compare(table, always(load_preset("ascend910-30c")));
  const GroupSum& sum = comparison.sums.at("");
  CHECK(sum.rows == 6);
  CHECK(sum.measured_us == doctest::Approx(2 + 2 + 1000));
  CHECK(sum.classes.at("element-wise").measured_us == doctest::Approx(2 + 2 + 1000));
  CHECK(sum.unmapped_us == doctest::Approx(92 + 92 + 91000));
  CHECK(sum.unmapped_types.at("Nothing").measured_us == doctest::Approx(92 + 92 + 91000));
  // A median of 2 us is less than what is modelled, and yet most of the time is missing here.
  CHECK(comparison.rows[0].modelled_us() > 2);
  CHECK(sum.missing == std::vector<size_t>{0});
}

TEST_CASE("npu measured: lines of a table that has no column for nets can be named as nets") {
  const std::string rows =
      "Add,,3,64;64,f32;f32,ND;ND,64,f32\nAdd,,5,64;64,f32;f32,ND;ND,64,f32\n"
      "Add,,9,64;64,f32;f32,ND;ND,64,f32\n";
  RowChoice choice;
  choice.nets = {{"bert", TableLines{2, 3}}, {"resnet", std::nullopt}};
  const MeasuredTable table = parse_measured(kMeasuredHeader + rows, "t.csv", choice);
  REQUIRE(table.rows.size() == 2);  // a row of one net is none of another
  CHECK(table.rows[0].us == 4);
  CHECK(table.rows[0].group == "bert");
  CHECK(table.rows[1].us == 9);
  CHECK(table.rows[1].group.empty());
  CHECK(table.nets_without_rows == std::vector<std::string>{"resnet"});
  const Comparison comparison = compare(table, always(load_preset("ascend910-30c")));
  REQUIRE(comparison.sums.size() == 3);
  CHECK(comparison.sums.at("bert").measured_us == doctest::Approx(8));
  CHECK(comparison.sums.at("").measured_us == doctest::Approx(9));
  CHECK(comparison.sums.at("resnet").rows == 0);
}

TEST_CASE("npu measured: a sum names the rows that most time is missing of") {
  std::string rows;
  for (int i = 1; i <= 8; ++i) {
    const std::string n = std::to_string(64 * i);
    rows += "Add,," + std::to_string(i == 8 ? 0.01 : 10.0 * i) + "," + n + ";" + n +
            ",f32;f32,ND;ND," + n + ",f32\n";
  }
  const Comparison comparison = compare(parse_measured(kMeasuredHeader + rows, "t.csv"),
                                        always(load_preset("ascend910-30c")));
  const GroupSum& sum = comparison.sums.at("");
  CHECK(sum.missing == std::vector<size_t>{6, 5, 4, 3, 2});
  const Comparison fast =
      compare(parse_measured(kMeasuredHeader + "Add,,0.01,64;64,f32;f32,ND;ND,64,f32\n", "t.csv"),
              always(load_preset("ascend910-30c")));
  CHECK(fast.sums.at("").missing.empty());
}

TEST_CASE("npu measured: sums say what bad kernels have of them") {
  // An addition of 16 KB that takes a second is a bad kernel.
  const MeasuredTable table = parse_measured(kMeasuredHeader +
                                                 "Add,,1000000,4096;4096,f32;f32,ND;ND,4096,f32\n"
                                                 "Add,,3,64;64,f32;f32,ND;ND,64,f32\n",
                                             "t.csv");
  const Comparison comparison = compare(table, always(load_preset("ascend910-30c")));
  const GroupSum& sum = comparison.sums.at("");
  CHECK(sum.one_sided == 1);
  CHECK(sum.one_sided_measured_us == doctest::Approx(1e6));
  CHECK(sum.measured_us - sum.one_sided_measured_us == doctest::Approx(3));
  CHECK(sum.one_sided_modelled_us == doctest::Approx(comparison.rows[0].modelled_us()));
  const SumPart& additions = sum.classes.at("element-wise");
  CHECK(additions.one_sided == 1);
  CHECK(additions.one_sided_missing_us() ==
        doctest::Approx(1e6 - comparison.rows[0].modelled_us()));
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
  CHECK(all.rows >= 2100);
  CHECK(static_cast<double>(all.above) <= 0.05 * static_cast<double>(all.rows));
  CHECK(static_cast<double>(all.met) >= 0.77 * static_cast<double>(all.rows));
  CHECK(static_cast<double>(all.held_out_met) >= 0.74 * static_cast<double>(all.held_out));
  for (const ClassSummary& c : comparison.classes) {
    CAPTURE(c.name);
    CHECK(c.median >= (c.name == "products" ? 0.88 : 0.85));
    CHECK(c.median <= 1.15);
  }
}

TEST_SUITE_END();
