// Precision modes: what each makes of ops on each preset, the devices' defaults, what is refused.
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"
#include "keel/backends/npu/presets/preset.h"
#include "keel/backends/registry.h"
#include "keel/graph/precision/apply_precision.h"
#include "keel/graph/precision/precision_table.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "unit/graph/precision_of_mode_for_tests.h"

TEST_SUITE_BEGIN("graph");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;
using keel_test::of_mode;

Precision of_mode_v2(const std::string& name) {
  Precision p;
  p.mode_v2 = name;
  return p;
}

// What becomes of an op in that dtype: the dtype it computes in, or what stands in its place.
using Choices = std::map<std::pair<std::string, DType>, std::string>;

Choices choices(const Precision& precision, const std::string& preset) {
  const Backend& npu = backend("npu");
  const auto options = npu::options(preset);
  const ResolvedPrecision resolved = resolve(precision, npu, options.get());
  Choices found;
  for (const PrecisionRow& row :
       precision_table(resolved, [&](const Node& n) { return npu.supports(n, options.get()); })) {
    found[{row.op, row.dtype}] = row.choice;
  }
  return found;
}

// Ascend's words for these ops: matmul and conv2d are on the white list, exp and softmax on the
// black one, add and sum on neither.
struct Golden {
  const char* mode;
  const char* matmul;       // of f32 operands
  const char* black;        // exp
  const char* gray;         // add
  const char* half_matmul;  // of f16 operands
  const char* half_black;
  const char* half_gray;
};

void check_golden(const Golden& golden, const Choices& found) {
  const auto begins = [&](const char* op, DType dtype, const char* expected) {
    const auto it = found.find({op, dtype});
    REQUIRE(it != found.end());
    CAPTURE(op);
    CAPTURE(name_of(dtype));
    CHECK_MESSAGE(it->second.starts_with(expected), it->second);
  };
  for (const char* op : {"matmul", "conv2d"}) {
    begins(op, f32, golden.matmul);
    begins(op, f16, golden.half_matmul);
  }
  for (const char* op : {"exp", "log"}) {
    begins(op, f32, golden.black);
    begins(op, f16, golden.half_black);
  }
  for (const char* op : {"add", "sum", "transpose", "tanh"}) {
    begins(op, f32, golden.gray);
    begins(op, f16, golden.half_gray);
  }
}

constexpr const char* kFollowsF16 = "f16 after operands that are, else f32 (gray: low)";
constexpr const char* kFollowsBf16 = "bf16 after operands that are, else f32 (gray: low)";

// The launch of the sum of a sunk step, on the device's clock.
struct SumLaunch {
  int blocks = 0;
  int64_t ns = 0;
};

SumLaunch launch_of_sum(const std::function<Value(const Value&)>& total, DType dtype,
                        const Precision& precision, const char* preset) {
  Graph g;
  const Value x = g.input("x", dtype, {2048, 512});
  const Value y = total(x);
  Session session(g, device("npu"),
                  {.precision = precision, .device_options = npu::options(preset)});
  const auto queue = std::make_shared<DeviceQueue>(session.device(), ElementSpec{{{"x", x.type()}}},
                                                   DeviceQueueOptions{.name = "x", .depth = 1});
  const std::string text = session.sink({.fetches = {y}, .source = queue}).describe();
  const size_t row = text.find("sum");
  REQUIRE(row != std::string::npos);
  const std::string line = text.substr(row, text.find('\n', row) - row);
  const size_t blocks = line.find("block_dim "), ns = line.rfind(" ns (device)");
  REQUIRE(blocks != std::string::npos);
  REQUIRE(ns != std::string::npos);
  return {std::stoi(line.substr(blocks + 10)),
          std::stoll(line.substr(line.rfind(' ', ns - 1) + 1))};
}

}  // namespace

TEST_CASE("precision_mode: the golden table of modes presets and ops") {
  constexpr const char* kKept = "f32 (everything else: keep)";
  constexpr const char* kHalfKept = "f16 (everything else: keep)";
  constexpr const char* kRaised = "f32 (everything else: f32)";
  constexpr const char* kWide = "f16 (products: low (f32 sums))";
  constexpr const char* kWhiteHalf = "f16 (white list: keep)";
  constexpr const char* kGrayHalf = "f16 (gray: keep";
  constexpr const char* kBlack = "f32 (black list: keep)";
  constexpr const char* kBlackHalf = "f32 (black list: f32)";
  const std::vector<Golden> v1 = {
      {"force_fp32", kWide, kKept, kKept, kWide, kRaised, kRaised},
      {"cube_fp16in_fp32out", kWide, kKept, kKept, kWide, kRaised, kRaised},
      {"allow_fp32_to_fp16", "f16 (products: low)", kKept, kKept, "f16 (products: keep)", kHalfKept,
       kHalfKept},
      {"allow_fp32_to_bf16", "bf16 (products: low)", kKept, kKept, "f16 (products: keep)",
       kHalfKept, kHalfKept},
      {"force_fp16", "f16 (everything: low)", "f16 (everything: low)", "f16 (everything: low)",
       "f16 (everything: keep)", "f16 (everything: keep)", "f16 (everything: keep)"},
      {"must_keep_origin_dtype", "f32 (everything: keep)", "f32 (everything: keep)",
       "f32 (everything: keep)", "f16 (everything: keep)", "f16 (everything: keep)",
       "f16 (everything: keep)"},
      {"allow_mix_precision", "f16 (white list: low)", kBlack, kFollowsF16, kWhiteHalf, kBlackHalf,
       kGrayHalf},
      {"allow_mix_precision_fp16", "f16 (white list: low)", kBlack, kFollowsF16, kWhiteHalf,
       kBlackHalf, kGrayHalf},
      {"allow_mix_precision_bf16", "bf16 (white list: low)", kBlack, kFollowsBf16, kWhiteHalf,
       kBlackHalf, kGrayHalf}};
  const std::map<std::string, std::string> v2 = {{"fp16", "force_fp16"},
                                                 {"origin", "must_keep_origin_dtype"},
                                                 {"cube_fp16in_fp32out", "cube_fp16in_fp32out"},
                                                 {"mixed_float16", "allow_mix_precision_fp16"},
                                                 {"mixed_bfloat16", "allow_mix_precision_bf16"}};
  CHECK(precision_names(PrecisionOption::kMode).size() == v1.size());
  for (const std::string& preset : npu::preset_names()) {
    CAPTURE(preset);
    const bool has_bf16 = preset.starts_with("ascend910b");
    for (const Golden& golden : v1) {
      CAPTURE(golden.mode);
      if (contains(golden.mode, "bf16") && !has_bf16) {
        const std::string text = error_of([&] { choices(of_mode(golden.mode), preset); });
        CHECK(contains(text, preset + " has no bf16; presets that have it: ascend910b1, "
                                      "ascend910b2, ascend910b3, ascend910b4"));
        continue;
      }
      check_golden(golden, choices(of_mode(golden.mode), preset));
    }
    for (const auto& alias : v2) {
      const std::string& name = alias.first;
      CAPTURE(name);
      if (contains(name, "bfloat16") && !has_bf16) {
        CHECK(contains(error_of([&] { choices(of_mode_v2(name), preset); }), "has no bf16"));
        continue;
      }
      CHECK(choices(of_mode_v2(name), preset) == choices(of_mode(alias.second), preset));
    }
    for (const char* name : {"mixed_hif8", "cube_hif8"}) {
      const std::string text = error_of([&] { choices(of_mode_v2(name), preset); });
      CHECK(contains(text, preset + " has no hif8, and no other preset has it"));
    }
  }
}

TEST_CASE("precision modes: each preset has its default") {
  const auto default_of = [](const char* preset) {
    const ResolvedPrecision resolved = resolve({}, backend("npu"), npu::options(preset).get());
    CHECK(resolved.is_default);
    return resolved.mode->name;
  };
  CHECK(default_of("ascend910") == "allow_fp32_to_fp16");
  CHECK(default_of("ascend910-30c") == "allow_fp32_to_fp16");
  CHECK(default_of("ascend910b1") == "must_keep_origin_dtype");
  CHECK(default_of("ascend910b4") == "must_keep_origin_dtype");
  CHECK(default_of("ascend310") == "force_fp16");
  CHECK(resolve({}, backend("cpu")).mode->name == "fp32");
  CHECK(npu::load_preset("ascend910").precision_mode_v2.empty());
  CHECK(npu::load_preset("ascend910b1").precision_mode_v2 == "origin");
  CHECK(npu::load_preset("ascend310").precision_mode_v2 == "fp16");
}

TEST_CASE(
    "precision_mode_v2: both set and unknown ones and lists without a mixed mode are refused") {
  const Backend& npu = backend("npu");
  Precision both = of_mode("force_fp32");
  both.mode_v2 = "origin";
  CHECK(contains(error_of([&] { resolve(both, npu); }),
                 "expected one of precision, precision_mode and precision_mode_v2, got "
                 "precision_mode force_fp32 and precision_mode_v2 origin"));
  CHECK(contains(error_of([&] { resolve(of_mode("force_fp17"), npu); }),
                 "did you mean 'force_fp16'?"));
  CHECK(contains(error_of([&] { resolve(of_mode_v2("force_fp16"), npu); }), "precision_mode_v2"));
  CHECK(contains(error_of([&] { resolve(Precision("half"), npu); }), "one of fp32, mixed_bf16"));

  Precision listed = of_mode("allow_fp32_to_fp16");
  listed.mix_list.changed["sum"] = MixClass::kBlack;
  CHECK(contains(error_of([&] { resolve(listed, npu); }),
                 "mix list: expected a precision mode that goes by lists of ops, such as "
                 "allow_mix_precision_fp16, got allow_fp32_to_fp16"));
  Graph g;
  CHECK(contains(error_of([&] { Session(g, device("npu"), {.precision = both}); }), "precision"));
  CHECK(Precision::named("mixed_float16").mode_v2 == "mixed_float16");
  CHECK(Precision::named("force_fp32").mode == "force_fp32");
  CHECK(Precision::named("mixed_bf16").name == "mixed_bf16");
  CHECK(contains(error_of([] { Precision::named("fp8"); }), "must_keep_origin_dtype"));
}

TEST_CASE("precision modes: force_fp16 computes and stores in f16 and is for inference") {
  Graph g;
  const Value x = g.input("x", f32, {1, 3});
  const Value w = g.state("w", ones({3, 3}));
  const Value y = relu(matmul(x, w)) + 1.0f;
  Session session(g, device("npu"), {.precision = of_mode("force_fp16")});
  // In f16 the sum 2049 becomes 2048, and so does 2048 + 1.
  const Tensor result = session.run(y, {{x, Tensor::of<float>({1, 3}, {1, 1024, 1024})}});
  CHECK(result.dtype() == f32);
  CHECK(result.at(0) == 2048);
  Session exact(g, device("npu"), {.precision = "fp32"});
  CHECK(exact.run(y, {{x, Tensor::of<float>({1, 3}, {1, 1024, 1024})}}).at(0) == 2050);
  const std::string text = error_of([&] {
    session.run(Update{{{w, w * 2.0f}}}, y, {{x, result}});
  });
  CHECK(contains(text, "precision force_fp16: is for inference, and this step updates states"));
  CHECK(contains(text, "test_precision_modes.cpp"));
}

TEST_CASE("precision modes: what a device lacks in the graphs dtypes goes to the AI CPU") {
  Graph g;
  const Value x = g.input("x", bf16, {4});
  const Value y = exp(x) + x;
  const auto options = npu::options("ascend910");
  Precision keep = of_mode("must_keep_origin_dtype");
  Session session(g, device("npu"), {.precision = keep, .device_options = options});
  const Tensor value = session.run(y, {{x, Tensor::full(bf16, {4}, 1.0)}});
  CHECK(value.dtype() == bf16);
  CHECK(value.at(3) == 3.71875);  // e is 2.71875 in bf16
  // In fp32 nothing is tried but the graph's dtypes.
  Session plain(g, device("npu"), {.precision = "fp32", .device_options = options});
  CHECK(contains(error_of([&] { plain.run(y, {{x, Tensor::full(bf16, {4}, 1.0)}}); }), "no bf16"));
}

TEST_CASE("precision modes: what is composed in a dtype stays in it") {
  // The loss has kernels in f32, and is composed of other ops in f16; softmax has kernels in both.
  Graph g;
  const Value x = g.input("x", f16, {3, 40});
  Tensor values(f16, {3, 40});
  for (int64_t i = 0; i < 120; ++i) values.set(i, std::sin(0.7 * static_cast<double>(i)) * 3);
  for (const Value y : {softmax(x), softmax_cross_entropy(x, softmax(x))}) {
    const auto run = [&](const Precision& precision) {
      Session session(g, device("npu"), {.precision = precision});
      return session.run(y, {{x, values}});
    };
    const Tensor plain = run("fp32"), kept = run(of_mode("must_keep_origin_dtype"));
    for (int64_t i = 0; i < plain.num_elements(); ++i) CHECK(kept.at(i) == plain.at(i));
  }
}

TEST_CASE("precision modes: the default of a device without a flag changes no bit") {
  const auto run = [](const Precision& precision) {
    Graph g;
    const Value x = g.input("x", f32, {8, 6});
    const Value loss = mean(square(tanh(matmul(x, g.state("w", uniform({6, 4}, -1, 1))))));
    Session session(g, device("npu"), {.precision = precision});
    const Update update = sgd(0.1).minimize(loss);
    for (int i = 0; i < 3; ++i) session.run(update, loss, {{x, Tensor::full(f32, {8, 6}, 0.25)}});
    return session.state_sha256();
  };
  CHECK(run({}) == run("fp32"));
  CHECK(run({}) == run(of_mode_v2("origin")));
  CHECK(run(of_mode("allow_fp32_to_fp16")) != run("fp32"));
}

TEST_CASE("precision modes: gray ops follow their operands and updates do not") {
  Graph g;
  const Value x = g.input("x", f32, {4, 8});
  const Value w = g.state("w", ones({8, 8}));
  const Value loss = sum(exp(relu(matmul(x, w))));
  const Update update = sgd(0.1, {.momentum = 0.9}).minimize(loss);
  const auto step = specialise({&g, {loss}, update, {{"x", x.type()}}});
  const Backend& npu = backend("npu");
  const ResolvedPrecision precision = resolve(of_mode("allow_mix_precision_fp16"), npu);
  PrecisionReport report;
  apply_precision(
      *step, precision, [&](const Node& n) { return npu.supports(n); }, &report);
  std::map<std::string, std::pair<DType, std::string>> decided;
  for (const PrecisionDecision& d : report.decisions) decided[d.name] = {d.dtype, d.rule};
  using Decided = std::pair<DType, std::string>;
  CHECK(decided.at("matmul") == Decided{f16, "white list: low"});
  CHECK(decided.at("relu") == Decided{f16, "gray: low"});
  CHECK(decided.at("exp") == Decided{f32, "black list: keep"});
  CHECK(decided.at("sum") == Decided{f32, "gray: keep (its operands are not low)"});
  CHECK(decided.at("gradient/matmul") == Decided{f16, "white list: low"});
  // The gradient of w is f16; what makes the state's next value of it is not.
  CHECK(decided.at("sgd/w/sub") == Decided{f32, "attribute precision: keep"});
  CHECK(decided.at("sgd/w/mul") == Decided{f32, "attribute precision: keep"});
}

TEST_CASE(
    "ReduceSum fp16 single core: one block on the 910 unless it is f32 or on the black list") {
  // The 910 adds partial results atomically in f32 only; the 910B also in f16.
  for (const bool mean_of : {false, true}) {
    CAPTURE(mean_of);
    const auto total = [&](const Value& x) { return mean_of ? mean(x) : sum(x); };
    const auto own = [&](DType dtype, const char* preset) {
      return launch_of_sum(total, dtype, of_mode("must_keep_origin_dtype"), preset);
    };
    const SumLaunch half = own(f16, "ascend910"), full = own(f32, "ascend910");
    CHECK(full.blocks > 8);
    if (mean_of) {
      CHECK(half.blocks > 8);  // a mean of halves sums in f32, so as not to overflow
    } else {
      CHECK(half.blocks == 1);
      CHECK(full.ns < half.ns);
    }
    CHECK(own(f16, "ascend910b1").blocks > 8);

    // Behind a product that a mixed mode computes in f16 the gray sum follows.
    const auto behind_product = [&](const Value& x) {
      return total(matmul(x, x.graph().state("w", ones({512, 512}))));
    };
    Precision mixed = of_mode("allow_mix_precision_fp16");
    const SumLaunch gray = launch_of_sum(behind_product, f32, mixed, "ascend910");
    if (mean_of) {
      CHECK(gray.blocks > 8);
      continue;
    }
    CHECK(gray.blocks == 1);
    mixed.mix_list.changed["sum"] = MixClass::kBlack;
    const SumLaunch black = launch_of_sum(behind_product, f32, mixed, "ascend910");
    CHECK(black.blocks > 8);
    CHECK(black.ns < gray.ns);
  }
}

TEST_SUITE_END();
