// Presets with rates that no device has ended the process or overflowed, and an error then blamed
// the flags of profiles; products with their operands in L2 could be priced above the same ones
// from memory; and where tiles cannot be dealt to more cores, or vector cores beside the cube's
// wait for memory, the reason that was given contradicted its own numbers. Products found no tile
// in a small L1 though there is one; one cube core more could halve the vector cores beside each;
// a default mode that needs a dtype the device does not have was accepted, and so were two that
// contradict each other, of which one decided nothing; the error of a missing parameter offered
// another one, which was right as it was; and where blocks cost nothing to start, a reason divided
// by 0.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "keel/backends/npu/cost/price.h"
#include "keel/backends/npu/cost/work.h"
#include "keel/backends/npu/measured/compare.h"
#include "keel/backends/npu/options.h"
#include "keel/backends/npu/presets/preset.h"
#include "keel/backends/npu/presets/preset_files.h"
#include "keel/backends/npu/profile/profile.h"
#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/backends/registry.h"
#include "keel/core/base/json.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/fusing.h"

namespace keel::npu {
namespace {

using keel_test::contains;
using keel_test::error_of;

// The preset ascend910b1 with other parameters.
std::string changed_preset(const std::vector<std::pair<std::string, Json>>& values) {
  Json document;
  for (const NpuPresetFile& file : builtin_presets()) {
    if (file.name == "ascend910b1") document = parse_json(file.text, file.name);
  }
  for (const auto& [name, value] : values) document["parameters"][name]["value"] = value;
  return write_json(document);
}

TEST_SUITE_BEGIN("issues");

TEST_CASE("presets have rates and shares that devices may have") {
  const auto error = [](const std::string& name, const Json& value) {
    return error_of([&] { parse_preset(changed_preset({{name, value}}), "slow", "slow.json"); });
  };
  CHECK(
      contains(error("cube_fp32_rate", 1e-18),
               "slow.json: parameters.cube_fp32_rate.value: expected 0, for none, or 0.001 to 1"));
  CHECK(error("cube_fp32_rate", 0) == "");
  CHECK(error("cube_fp32_rate", 1e-3) == "");
  for (const char* name : {"l2_gb_per_s", "hbm_gb_per_s", "gm_ub_gb_per_s", "gm_l1_gb_per_s"}) {
    CAPTURE(name);
    CHECK(contains(error(name, 0.001), name));
    CHECK(error(name, 0.1) == "");
  }
  for (const char* name : {"ai_cpu_gb_per_s", "pcie_gb_per_s", "hccs_gb_per_s",
                           "card_pcie_gb_per_s", "network_gb_per_s"}) {
    CAPTURE(name);
    CHECK(contains(error(name, 0.0001), name));
    CHECK(error(name, 0.001) == "");
  }
  for (const char* name : {"vector_share", "cube_share"}) {
    CHECK(contains(error(name, 0.001), name));
    CHECK(error(name, 0.01) == "");
  }
}

TEST_CASE("presets have the same number of vector cores beside each cube core") {
  const auto error = [](int cubes, int vectors) {
    const std::string text = changed_preset({{"cube_cores", cubes}, {"vector_cores", vectors}});
    return error_of([&] { parse_preset(text, "mine", "mine.json"); });
  };
  CHECK(contains(error(25, 48),
                 "mine.json: parameters: vector_cores: expected as many for each of the 25 cube "
                 "cores, which have vector cores of their own in series 910B, and at least one, "
                 "got 48"));
  CHECK(contains(error(25, 24), "got 24"));
  CHECK(error(25, 25) == "");
  CHECK(error(25, 75) == "");
}

TEST_CASE("the default modes of a preset are those that its device can compute in") {
  const auto error = [](const std::string& name, const char* mode, bool bf16) {
    const std::string text =
        changed_preset({{"precision_mode_v2", "none"}, {name, mode}, {"bf16", bf16}});
    return error_of([&] { parse_preset(text, "mine", "mine.json"); });
  };
  CHECK(contains(error("precision_mode", "allow_mix_precision_bf16", false),
                 "mine.json: parameters.precision_mode.value: expected a mode without bf16, which "
                 "the device does not have where parameters.bf16 is false, got "
                 "\"allow_mix_precision_bf16\""));
  CHECK(error("precision_mode", "allow_mix_precision_bf16", true) == "");
  CHECK(error("precision_mode", "allow_mix_precision_fp16", false) == "");
  CHECK(contains(error("precision_mode_v2", "mixed_bfloat16", false),
                 "parameters.precision_mode_v2.value: expected a mode without bf16"));
  CHECK(contains(error("precision_mode_v2", "mixed_hif8", true), "a mode without hif8"));
  CHECK(error("precision_mode_v2", "none", false) == "");
}

TEST_CASE("the default modes of a preset are one mode under two names") {
  const auto error = [](const char* mode, const char* mode_v2) {
    const std::string text =
        changed_preset({{"precision_mode", mode}, {"precision_mode_v2", mode_v2}});
    return error_of([&] { parse_preset(text, "mine", "mine.json"); });
  };
  CHECK(error("must_keep_origin_dtype", "mixed_float16") ==
        "mine.json: parameters.precision_mode_v2.value: expected origin or none, beside "
        "precision_mode must_keep_origin_dtype, got \"mixed_float16\"");
  CHECK(contains(error("allow_fp32_to_fp16", "origin"), "expected none, beside precision_mode"));
  CHECK(error("allow_mix_precision_bf16", "mixed_bfloat16") == "");
  CHECK(error("force_fp32", "cube_fp16in_fp32out") == "");
  CHECK(error("allow_fp32_to_fp16", "none") == "");
}

TEST_CASE("a missing parameter is not explained by another one that is there") {
  Json document = parse_json(changed_preset({}), "mine");
  Json& parameters = document["parameters"];
  const Json cores = parameters["cube_cores"];
  parameters.erase("cube_cores");
  const auto error = [&] {
    return error_of([&] { parse_preset(write_json(document), "mine", "mine.json"); });
  };
  CHECK(error() == "mine.json: parameters: 'cube_cores' is missing");
  parameters["cube_core"] = cores;
  CHECK(contains(error(), "'cube_cores' is missing; the nearest key is 'cube_core'"));
}

TEST_CASE("products have tiles in each L1 that a preset may have") {
  const Preset usual = load_preset("ascend910b1");
  for (const int64_t kib : {16, 64}) {
    CAPTURE(kib);
    const Preset small = parse_preset(changed_preset({{"l1_kib", kib}}), "small", "small.json");
    for (const DType dtype : {f16, f32}) {
      for (const int64_t side : {16, 1000}) {
        CAPTURE(side);
        const CubeWork work = cube_work(side, side, side, dtype);
        const Choice choice = choose_cube(small, work, small.cube_cores);
        const CubeTiling& t = choice.tiling;
        CHECK(t.bk >= 16);
        CHECK(2 * (t.bm + t.bn) * t.bk * t.step_k * static_cast<int64_t>(size_of(dtype)) <=
              small.l1_bytes);
        CHECK(choice.price.total_ns >= choose_cube(usual, work, usual.cube_cores).price.total_ns);
      }
    }
  }
}

TEST_CASE("a time that does not fit is an error that names the preset") {
  const Preset slow =
      parse_preset(changed_preset({{"hbm_gb_per_s", 0.1}, {"clock_mhz", 1}}), "slow", "slow.json");
  // 2^50 bytes at 0.083 bytes per ns are 1.4 * 10^16 ns.
  VectorWork work{.units = int64_t{1} << 30,
                  .elements_per_unit = 64,
                  .pass_bytes = 4,
                  .bytes_in = int64_t{1} << 50,
                  .bytes_out = 64,
                  .tile_elements = 8192};
  CHECK(contains(error_of([&] { price_vector(slow, work, 1); }), "preset slow: expected rates"));
  CHECK(price_vector(load_preset("ascend910b1"), work, 48).total_ns > 0);
  CHECK(contains(error_of([&] { price_ai_cpu(slow, int64_t{1} << 60, 0); }), "preset slow"));
  CHECK(contains(error_of([&] { price_transfer(slow, int64_t{1} << 60); }), "preset slow"));
}

TEST_CASE("a profile of steps whose times do not fit names the preset") {
  // The slowest device that a preset may be: a product of 512 takes some 10^13 ns.
  const auto slow =
      std::make_shared<const Preset>(parse_preset(changed_preset({{"clock_mhz", 1},
                                                                  {"cube_m", 1},
                                                                  {"cube_n", 1},
                                                                  {"cube_k", 1},
                                                                  {"cube_fp32_rate", 0.001}}),
                                                  "slow", "slow.json"));
  Graph graph;
  const Value w = graph.state("w", zeros({512, 512}, f32));
  Session session(graph, device("npu:0"),
                  {.precision = "fp32", .device_options = std::make_shared<NpuOptions>(slow)});
  const Loop loop = session.sink({.update = Update{{{w, matmul(w, w)}}}});
  CHECK(profiled_spans(loop.program(), {.first_step = 1, .last_step = 2}).size() > 2);
  const std::string error = error_of(
      [&] { profiled_spans(loop.program(), {.first_step = 999'999, .last_step = 1'000'000}); });
  CHECK(contains(error, "profile: steps to 1000000: expected steps that take less than"));
  CHECK(contains(error, " on slow"));
}

TEST_CASE("products are priced no higher with their operands in L2 than without") {
  // Where L2 is no faster than memory, all that the cores copy comes through it all the same.
  Preset preset = load_preset("ascend910b1");
  for (const double l2_gb_per_s : {800.0, 1739.0, 5100.0}) {
    CAPTURE(l2_gb_per_s);
    preset.l2_gb_per_s = l2_gb_per_s;
    for (const int64_t m : {64, 1024, 4096}) {
      for (const int64_t k : {64, 1024}) {
        CAPTURE(m);
        CAPTURE(k);
        NodeWork cold{cube_work(m, 2048, k, f16), {}};
        cold.cube->wide = true;
        NodeWork warm = cold;
        set_residency(preset, Residency::kWarm, warm);
        CHECK(warm.cube->warm_out == 1);
        const TaskPrice from_l2 = price_measured(preset, warm, std::nullopt);
        CHECK(from_l2.total_ns <= price_measured(preset, cold, std::nullopt).total_ns);
        CHECK(from_l2.total_ns >= from_l2.memory_roof_ns);
        const CubeTiling tiling;
        CHECK(price_cube(preset, *warm.cube, tiling).total_ns <=
              price_cube(preset, *cold.cube, tiling).total_ns);
      }
    }
  }
}

TEST_CASE("a launch has too few bytes for more blocks only where its time says so") {
  const Preset preset = load_preset("ascend910b1");
  int few_bytes = 0, aligned = 0, bandwidth = 0;
  for (const int64_t m : {128, 800, 3136, 19600}) {
    for (const int64_t n : {32, 64, 500}) {
      for (const int64_t k : {64, 800, 4900}) {
        for (const bool fused : {false, true}) {
          Graph graph;
          const Value a = graph.input("a", f32, {m, k}), b = graph.input("b", f32, {k, n});
          const Value c = matmul(a, b);
          graph.set_outputs({fused ? relu(c + graph.input("c", f32, {m, n})) : c});
          const auto whole = keel_test::fused(graph);
          const Node& node = whole->outputs()[0].node();
          const Launch launch = schedule(preset, node);
          // More blocks pay as long as they are fewer than the square root of this.
          const Launch single = schedule(preset, node, {.cap = 1});
          const double wanted =
              best_blocks(preset, static_cast<double>(single.price.pipeline_ns), preset.cube_cores);
          const auto blocks = static_cast<double>(launch.price.block_dim);
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          CAPTURE(fused);
          CAPTURE(launch.reason);
          // Otherwise the reason has numbers of its own.
          if (contains(launch.reason, "which is worth about")) {
            ++few_bytes;
            CHECK(launch.limit == Limit::kBytes);
            CHECK(wanted <= 1.5 * blocks);
          }
          const bool uneven = contains(launch.reason, "cannot be dealt evenly to more blocks");
          if (uneven) {
            ++aligned;
            CHECK(launch.limit == Limit::kAlignment);
            CHECK(contains(launch.reason,
                           fmt::format("{} x {} tiles of 16x16", (m + 15) / 16, (n + 15) / 16)));
          }
          bandwidth += launch.limit == Limit::kBandwidth && launch.price.mixed() ? 1 : 0;
        }
      }
    }
  }
  CHECK(few_bytes > 0);
  CHECK(aligned > 0);
  CHECK(bandwidth > 0);
}

// The square root of W / 0 says nothing of how many blocks are worth it. 80 units are two for the
// busiest of 40 cores, as of 48.
TEST_CASE("where blocks cost nothing to start no launch has too few bytes for more") {
  const Preset preset =
      parse_preset(changed_preset({{"task_per_block_ns", 0}}), "free", "free.json");
  const auto check = [&](const Graph& graph) {
    const Launch launch = schedule(preset, graph.outputs()[0].node());
    CAPTURE(launch.reason);
    CHECK(!contains(launch.reason, "which is worth about"));
    CHECK(launch.limit != Limit::kBytes);
    return launch;
  };
  for (const int64_t elements : {64, 2560, 64 * 80, 64 * 100, 100000, 10000000}) {
    CAPTURE(elements);
    Graph graph;
    const Value x = graph.input("x", f32, {elements});
    graph.set_outputs({x + x});
    const Launch launch = check(graph);
    if (elements != 64 * 80) continue;
    CHECK(launch.price.block_dim == 40);
    CHECK(contains(launch.reason, "40 blocks have as much to do at most as 48 would have"));
  }
  for (const int64_t m : {16, 64, 288, 320, 800}) {
    CAPTURE(m);
    Graph graph;
    graph.set_outputs({matmul(graph.input("a", f16, {m, 512}), graph.input("b", f16, {512, 16}))});
    check(graph);
  }
  CHECK(best_blocks(preset, 1e5, preset.vector_cores) == 48);
  CHECK(best_blocks(preset, 1e5, preset.cube_cores) == 24);
}

// The cost of a block in us had two digits, so that one of 4 ns was shown as 0.00.
TEST_CASE("a reason that divides by the cost of a block shows all of it") {
  const Preset preset =
      parse_preset(changed_preset({{"task_per_block_ns", 4}}), "quick", "quick.json");
  int told = 0;
  for (int64_t elements = 2560; elements < 200000; elements += 2560) {
    Graph graph;
    const Value x = graph.input("x", f32, {elements});
    graph.set_outputs({x + x});
    const std::string reason = schedule(preset, graph.outputs()[0].node()).reason;
    if (!contains(reason, "which is worth about")) continue;
    ++told;
    CHECK_MESSAGE(contains(reason, " / 0.004) = "), reason);
  }
  CHECK(told > 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace keel::npu
