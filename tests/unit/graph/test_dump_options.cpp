// DumpOptions: what its texts mean and which are refused, and what a backend has of it.
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"
#include "keel/backends/registry.h"
#include "keel/graph/runtime/dump_options.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;
using keel_test::TempFolder;

std::string steps_refusal(const std::string& steps) {
  return error_of([&] { parse_dump_step(steps, "--dump-step"); });
}

// "1|1|1" with so many sets.
std::string sets(int count) {
  std::string text = "1";
  for (int i = 1; i < count; ++i) text += "|1";
  return text;
}

std::string refused_on(const char* backend_name, DumpDebugMode mode, const char* preset = "") {
  const TempFolder folder;
  const std::shared_ptr<const DeviceOptions> options =
      *preset == '\0' ? nullptr : npu::options(preset);
  DumpOptions dump{.enable_dump_debug = true, .path = folder.path()};
  dump.debug_mode = mode;
  return error_of([&] { require_dump(dump, backend(backend_name), options.get()); });
}

}  // namespace

TEST_CASE("dump options: steps are single ones and ranges with both ends") {
  const DumpSteps steps = parse_dump_step("0|5|10-20", "--dump-step");
  CHECK(steps.ranges == std::vector<DumpSteps::Range>{{0, 0}, {5, 5}, {10, 20}});
  for (const int64_t step : {0, 5, 10, 11, 20}) CHECK(steps.contains(step));
  for (const int64_t step : {1, 4, 6, 9, 21}) CHECK(!steps.contains(step));
  CHECK(steps.next_behind(0) == 5);
  CHECK(steps.next_behind(4) == 5);
  CHECK(steps.next_behind(5) == 10);
  CHECK(steps.next_behind(10) == 11);
  CHECK(steps.next_behind(19) == 20);
  CHECK(steps.next_behind(20) == kNoDumpedStep);
  // In any order, and one over another.
  const DumpSteps mixed = parse_dump_step("30|2-4|3-6", "--dump-step");
  CHECK(mixed.next_behind(0) == 2);
  CHECK(mixed.next_behind(4) == 5);
  CHECK(mixed.next_behind(6) == 30);
  const DumpSteps every;
  CHECK(every.contains(1));
  CHECK(every.next_behind(7) == 8);
}

TEST_CASE("dump options: at most 100 sets of steps ranges that grow and nothing else") {
  CHECK(parse_dump_step(sets(100), "--dump-step").ranges.size() == 100);
  CHECK(contains(steps_refusal(sets(101)),
                 "--dump-step: expected at most 100 steps and ranges, got 101"));
  for (const char* text : {"20-10", "10-10", "1|20-10"})
    CHECK_MESSAGE(contains(steps_refusal(text), "--dump-step: expected ranges whose first step"),
                  text);
  for (const char* text : {"a", "", "5|", "|5", "5||6", "-5", "5-", "1-2-3", "5 ", " 5", "5|a",
                           "0x5", "1.5", "5,6", "99999999999999999999"})
    CHECK_MESSAGE(contains(steps_refusal(text), "--dump-step: expected an integer"), text);
}

TEST_CASE("dump options: modes data layers and debug modes by their names") {
  CHECK(parse_dump_mode("input", "x") == DumpMode::kInput);
  CHECK(parse_dump_mode("output", "x") == DumpMode::kOutput);
  CHECK(parse_dump_mode("all", "x") == DumpMode::kAll);
  CHECK(parse_dump_data("tensor", "x") == DumpData::kTensor);
  CHECK(parse_dump_data("stats", "x") == DumpData::kStats);
  CHECK(parse_dump_debug_mode("aicore_overflow", "x") == DumpDebugMode::kAicoreOverflow);
  CHECK(parse_dump_debug_mode("atomic_overflow", "x") == DumpDebugMode::kAtomicOverflow);
  CHECK(parse_dump_debug_mode("all", "x") == DumpDebugMode::kAll);
  CHECK(parse_dump_layer(" a/b  c ", "x") == std::vector<std::string>{"a/b", "c"});
  CHECK(contains(error_of([] { parse_dump_mode("outputs", "--dump-mode"); }),
                 "did you mean 'output'?"));
  CHECK(contains(error_of([] { parse_dump_data("csv", "--dump-data"); }), "tensor"));
  CHECK(contains(error_of([] { parse_dump_debug_mode("none", "--dump-debug-mode"); }),
                 "aicore_overflow"));
  for (const char* text : {"", "  "})
    CHECK(contains(error_of([&] { parse_dump_layer(text, "--dump-layer"); }),
                   "--dump-layer: expected names of nodes"));
}

TEST_CASE("dump options: both at once and folders that will not do are refused") {
  const TempFolder folder;
  const std::string file = folder.write("file", "x");
  const auto text = [&](const DumpOptions& dump) {
    return error_of([&] { require_dump(dump, backend("ref"), nullptr); });
  };
  CHECK(text({}) == "");
  CHECK(text({.enable_dump = true, .path = folder.path()}) == "");
  CHECK(text({.enable_dump_debug = true, .path = folder.path()}) == "");
  CHECK(contains(text({.enable_dump = true, .enable_dump_debug = true, .path = folder.path()}),
                 "expected one of the two, got both"));
  CHECK(contains(text({.enable_dump = true}), "dump_path: expected a folder that may be"));
  CHECK(text({.enable_dump = true, .path = folder.file("gone/deeper/")}) == "");
  CHECK(contains(text({.enable_dump = true, .path = file + "/gone"}), "Not a directory"));
  CHECK(contains(text({.enable_dump_debug = true, .path = file}), "Not a directory"));
}

TEST_CASE("dump options: a debug mode that the device does not have is refused") {
  for (const char* name : {"ref", "cpu", "npu"}) CHECK(refused_on(name, DumpDebugMode::kAll) == "");
  for (const DumpDebugMode mode :
       {DumpDebugMode::kAicoreOverflow, DumpDebugMode::kAtomicOverflow}) {
    CHECK(contains(refused_on("npu", mode, "ascend910b1"),
                   "ascend910b1 is of series 910B, which has none but all"));
    CHECK(contains(refused_on("npu", mode, "ascend910"), "one status word for each op"));
    CHECK(contains(refused_on("cpu", mode), "cpu does not say which part of it overflowed"));
  }
  CHECK(contains(refused_on("cpu", DumpDebugMode::kAtomicOverflow),
                 "dump: dump_debug_mode atomic_overflow: "));
}

TEST_SUITE_END();
