// Fits of presets to measured rows: what they find, what they do not look at, and how far they go.
#include <algorithm>
#include <string>
#include <vector>

#include "keel/backends/npu/measured/compare.h"
#include "keel/backends/npu/measured/cross_validation.h"
#include "keel/backends/npu/measured/fit.h"
#include "keel/backends/npu/measured/held_out.h"

#include "measured_rows_for_tests.h"
#include "npu_model_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;

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
    NodeWork work = map_row(row).op->work(preset);
    set_residency(preset, Residency::kWarm, work);
    row.us = static_cast<double>(price_measured(preset, work, std::nullopt).total_ns) * 1e-3;
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

void set_source(Preset& preset, const std::string& name, const std::string& source) {
  for (PresetParameter& p : preset.parameters) {
    if (p.name == name) p.source = source;
  }
}

}  // namespace

TEST_CASE("npu fit: it finds the parameters that made the rows") {
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
  // The model takes fewer blocks where they cost more, so that these two go together.
  CHECK(fitted(fit, "task_per_block_ns") == doctest::Approx(60).epsilon(0.03));
  CHECK(fitted(fit, "vector_share") == doctest::Approx(0.4).epsilon(0.05));
  CHECK(fitted(fit, "gm_ub_gb_per_s") == doctest::Approx(30).epsilon(0.01));
  CHECK(fit.after.rows + fit.held_out_after.rows == 120);
  CHECK(fit.held_out_after.rows > 10);
  CHECK(fit.held_out_after.rows < 40);
  // The search turns one parameter at a time and ends where none alone is a gain.
  CHECK(fit.after.distance < 0.023);
  CHECK(fit.held_out_after.distance < 0.023);
  CHECK(fit.before.distance > 0.2);
  CHECK(fitted(fit, "gm_l1_gb_per_s") == -1);  // no row rests on it
}

TEST_CASE("npu fit: its preset is one that can be read and says what it rests on") {
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

TEST_CASE("npu fit: about a fifth is held out whatever was measured and wherever it stands") {
  int held_out = 0;
  for (int i = 1; i <= 2000; ++i) {
    MeasuredRow row =
        row_of("Cast,,1," + std::to_string(i) + ",f32,ND," + std::to_string(i) + ",f16");
    const bool is = is_held_out(row);
    if (is) ++held_out;
    row.us = 7;
    row.line = 99;
    CHECK(is_held_out(row) == is);
  }
  CHECK(held_out > 320);
  CHECK(held_out < 480);
}

TEST_CASE("npu fit: what is held out has no part in the fit") {
  const Preset preset = load_preset("ascend910-30c");
  MeasuredTable table = rows_priced_by(preset);
  const Fit fit = fit_preset(table, preset);
  for (MeasuredRow& row : table.rows) {
    if (is_held_out(row)) row.us *= 3;
  }
  const Fit again = fit_preset(table, preset);
  REQUIRE(again.parameters.size() == fit.parameters.size());
  for (size_t i = 0; i < fit.parameters.size(); ++i)
    CHECK(again.parameters[i].after == fit.parameters[i].after);
  CHECK(again.held_out_after.distance > fit.held_out_after.distance + 0.3);
}

TEST_CASE("npu fit: published values stay and what another fit found is forgotten") {
  const Preset made = load_preset("ascend910-30c");
  const MeasuredTable table = rows_priced_by(made);
  Preset start = made;
  set_source(start, "vector_share", "a public manual");
  start.vector_share = 0.9;
  const Fit kept = fit_preset(table, start);
  CHECK(fitted(kept, "vector_share") == -1);
  CHECK(kept.preset.vector_share == 0.9);
  Preset far = made;
  far.kernel_prologue_ns = 5000;
  far.gm_ub_gb_per_s = 200;
  const Fit near = fit_preset(table, made), from_far = fit_preset(table, far);
  CHECK(near.preset.kernel_prologue_ns == from_far.preset.kernel_prologue_ns);
  CHECK(near.preset.gm_ub_gb_per_s == from_far.preset.gm_ub_gb_per_s);
}

TEST_CASE("npu fit: values of other fits have no part wherever they were") {
  const Preset made = load_preset("ascend910-30c");
  const MeasuredTable table = rows_priced_by(made);
  const std::string expected = fitted_preset_text(fit_preset(table, made), "t.csv");
  for (const double factor : {0.02, 0.3, 4.0, 50.0}) {
    CAPTURE(factor);
    Preset start = made;
    start.kernel_prologue_ns = static_cast<int64_t>(840 * factor);
    start.task_per_block_ns = static_cast<int64_t>(119 * factor);
    start.gm_ub_gb_per_s *= factor;
    start.l2_gb_per_s *= factor;
    start.vector_share = std::min(1.0, start.vector_share * factor);
    start.l2_bytes = std::max<int64_t>(1, static_cast<int64_t>(49 * factor)) << 20;
    start.gm_l1_gb_per_s *= factor;
    CHECK(fitted_preset_text(fit_preset(table, start), "t.csv") == expected);
  }
}

TEST_CASE("npu fit: a fit of what it made is the same") {
  const Preset made = load_preset("ascend910-30c");
  const MeasuredTable table = rows_priced_by(made);
  Preset start = load_preset("ascend910");
  for (PresetParameter& p : start.parameters) {
    if (p.name == "hbm_efficiency" || p.name == "kernel_prologue_ns") p.source = "assumed";
  }
  const std::string once = fitted_preset_text(fit_preset(table, start), "t.csv");
  const Preset read = parse_preset(once, "fitted", "fitted.json");
  const Fit again = fit_preset(table, read);
  CHECK(fitted(again, "hbm_efficiency") > 0);
  // Of two fits the description says one.
  CHECK(read.description == start.description + ", fitted");
  CHECK(parse_preset(fitted_preset_text(again, "t.csv"), "f", "f.json").description ==
        read.description);
  for (const PresetParameter& p :
       parse_preset(fitted_preset_text(again, "t.csv"), "f", "f.json").parameters) {
    CAPTURE(p.name);
    for (const PresetParameter& q : read.parameters) {
      if (q.name == p.name) CHECK(q.value == p.value);
      if (q.name == p.name) CHECK(q.source == p.source);
    }
  }
}

TEST_CASE("npu fit: what another fit found and no rows tell is assumed again") {
  const Preset made = load_preset("ascend910-30c");
  Preset start = made;
  start.gm_l1_gb_per_s = 7;  // of products, which this table has none of
  set_source(start, "gm_l1_issue_ns", "assumed: by its user");
  start.gm_l1_issue_ns = 77;
  const Fit fit = fit_preset(rows_priced_by(made), start);
  CHECK(fit.preset.gm_l1_gb_per_s == 100);
  CHECK(fit.preset.gm_l1_issue_ns == 77);
  const Preset read = parse_preset(fitted_preset_text(fit, "t.csv"), "fitted", "fitted.json");
  CHECK(read.gm_l1_gb_per_s == 100);
  for (const PresetParameter& p : read.parameters) {
    if (p.name == "gm_l1_gb_per_s") CHECK(p.source == "assumed: no rows tell it");
    if (p.name == "gm_l1_issue_ns") CHECK(p.source == "assumed: by its user");
  }
}

TEST_CASE("npu fit: a row that no number holds is left out") {
  const Preset made = load_preset("ascend910-30c");
  MeasuredTable table = rows_priced_by(made);
  const std::string expected = fitted_preset_text(fit_preset(table, made), "t.csv");
  table.rows.push_back(row_of("MatMul,,9,\"1099511627776,1;1,1099511627776\",f16;f16,ND;ND,,f16"));
  const Fit fit = fit_preset(table, made);
  CHECK(fitted_preset_text(fit, "t.csv") == expected);
  CHECK(fit.left_out == 1);
}

TEST_CASE("npu fit: the best of several searches is kept and all are told") {
  const Preset made = load_preset("ascend910-30c");
  const Fit fit = fit_preset(rows_priced_by(made), made);
  CHECK(fit.left_out == 0);
  REQUIRE(fit.starts.size() >= 2);
  int64_t kept = 0;
  for (const FitStart& start : fit.starts) {
    CAPTURE(start.name);
    if (!start.kept) {
      CHECK(start.criterion > fit.after.distance - kLeastGain);
      continue;
    }
    ++kept;
    CHECK(start.criterion == doctest::Approx(fit.after.distance));
  }
  CHECK(kept == 1);
}

TEST_CASE("npu fit: rows of one op with other blocks or names of dtypes are held out together") {
  for (int i = 1; i <= 200; ++i) {
    const std::string n = std::to_string(i);
    const bool is = is_held_out(row_of("Cast,1,1," + n + ",f32,ND," + n + ",f16"));
    CHECK(is_held_out(row_of("Cast,8,1," + n + ",f32,ND," + n + ",f16")) == is);
    CHECK(is_held_out(row_of("Cast,1,1," + n + ",DT_FLOAT,ND," + n + ",FLOAT16")) == is);
  }
}

TEST_CASE("npu fit: a model that made all rows loses nothing from one half to the other") {
  const Preset preset = load_preset("ascend910-30c");
  const MeasuredTable table = rows_priced_by(preset);
  const TablePart odd{"odd", [](size_t i, const MeasuredRow&) { return i % 2 == 0; }};
  const TablePart even{"even", [](size_t i, const MeasuredRow&) { return i % 2 == 1; }};
  const std::vector<CrossValidation> both = cross_validate(table, preset, odd, even);
  REQUIRE(both.size() == 2);
  CHECK(both[0].fitted_on == "odd");
  CHECK(both[0].predicted == "even");
  CHECK(both[0].rows + both[1].rows == 120);
  for (const CrossValidation& v : both) {
    CHECK(v.met_by_own > 0.93);
    CHECK(v.loss() < 0.01);
    CHECK(!v.parameters.empty());
    CHECK(v.overfitted() == nullptr);
  }
  const TablePart none{"none", [](size_t, const MeasuredRow&) { return false; }};
  CHECK(contains(error_of([&] { cross_validate(table, preset, odd, none); }), "at least 20 rows"));
}

TEST_CASE("npu fit: the parameter of a fit that does not hold elsewhere is named with its rows") {
  // Vector units of the second half's device are a quarter as fast: only that value differs.
  const Preset fast = load_preset("ascend910-30c");
  Preset slow = fast;
  slow.vector_share /= 4;
  MeasuredTable table = rows_priced_by(fast);
  const size_t half = table.rows.size();
  for (MeasuredRow& row : rows_priced_by(slow).rows) table.rows.push_back(std::move(row));
  const TablePart first{"fast", [=](size_t i, const MeasuredRow&) { return i < half; }};
  const TablePart second{"slow", [=](size_t i, const MeasuredRow&) { return i >= half; }};
  const std::vector<CrossValidation> both = cross_validate(table, fast, first, second);
  for (const CrossValidation& v : both) {
    CAPTURE(v.predicted);
    CHECK(v.loss() > kMostLoss);
    REQUIRE(v.overfitted() != nullptr);
    CHECK(v.overfitted()->name == "vector_share");
    CHECK(v.overfitted()->regained > 0.5 * v.loss());
    CHECK(v.overfitted()->rows >= kLeastRowsOfAParameter);
    CHECK(v.overfitted()->moved() == doctest::Approx(4).epsilon(0.2));
  }
}

TEST_CASE("npu fit: what regains most is named and else what moved farthest") {
  CrossValidation v;
  v.met_by_own = 0.8;
  v.met = 0.7;
  CHECK(v.overfitted() == nullptr);
  v.parameters = {{"gm_ub_gb_per_s", 60, 20, 15, 0.02}, {"l2_mib", 32, 64, 12, 0.07}};
  REQUIRE(v.overfitted() != nullptr);
  CHECK(v.overfitted()->name == "l2_mib");
  v.parameters[0].regained = -0.01;
  v.parameters[1].regained = 0;
  CHECK(v.overfitted()->name == "gm_ub_gb_per_s");
  v.parameters.push_back({"gm_ub_row_ns", 0, 2, 11, 0});
  CHECK(v.overfitted()->name == "gm_ub_row_ns");
  v.met = 0.76;  // 4 points are not too many
  CHECK(v.overfitted() == nullptr);
  v.met = 0.7;
  v.parameters = {{"l2_mib", 32, 32, 12, 0}};
  CHECK(v.overfitted() == nullptr);
}

TEST_SUITE_END();
