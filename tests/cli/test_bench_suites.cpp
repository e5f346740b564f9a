// `keel bench train`, `kernels` and `compile`: what their JSON says, and that it adds up.
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"
#include "support/scale.h"
#include "support/temp_folder.h"

namespace keel_test {
namespace {

using nlohmann::json;

json measured(Words words) {
  const TempFolder folder;
  const std::string suite = words[0];
  const std::string file = folder.file("out.json");
  words.insert(words.begin(), "bench");
  words.insert(words.end(), {"--json", file});
  const ToolResult run = run_tool(words);
  CAPTURE(join(words));
  REQUIRE(run.err == "");
  REQUIRE(run.exit_code == 0);
  const json out = read_json(file);
  CHECK(out["suite"] == suite);
  CHECK(run_tool({"--version"}).out == "keel " + out["keel_version"].get<std::string>() + "\n");
  return out;
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("bench train: a row for each combination and tables that fit them") {
  const json out =
      measured({"train", "--models", "softmax", "--backends", "npu,cpu", "--threads", "1,2",
                "--batches", "1,4096", "--loop-sizes", "1,3", "--seconds", "0.01"});
  REQUIRE(out["rows"].size() == 2 * 2 * 2 * 2);
  for (const json& row : out["rows"]) {
    const double us = row["step_us"], batch = row["batch"];
    CHECK(us > 0);
    CHECK(row["images_per_second"].get<double>() == doctest::Approx(batch * 1e6 / us));
    CHECK(row["steps"].get<int64_t>() % row["loop_size"].get<int64_t>() == 0);
    CHECK(row["step_spread"].get<double>() >= 0);
    CHECK(row["precision"] == "fp32");
    CHECK_FALSE(row.contains("step_device_us"));  // the clocks are never in one row
  }
  // Beside every row of two threads there is one of one thread.
  REQUIRE(out["speed_ups"].size() == 8);
  for (const json& row : out["speed_ups"]) CHECK(row["threads"] == 2);
  // One process for each workload, whatever the loop sizes.
  REQUIRE(out["processes"].size() == 8);
  for (const json& row : out["processes"]) {
    CHECK(row["peak_rss_mib"].get<double>() > 45);  // the data set alone has 45 MiB
    CHECK(row["peak_rss_mib"].get<double>() < 4096);
  }
  // The modelled device knows no threads: two batches, two loop sizes, npu alone.
  REQUIRE(out["modelled"].size() == 4);
  for (const json& row : out["modelled"]) {
    CHECK(row["backend"] == "npu");
    CHECK(row["step_device_us"].get<double>() > 0);
  }
}

TEST_CASE("bench train: what the environment says of a training is not about those of its rows") {
  const TempFolder folder;
  const Variables variables = {{"PROFILING_MODE", "true"},
                               {"PROFILING_OPTIONS", "{}"},
                               {"STEP_NOW", "5"},
                               {"LOSS_NOW", "much"}};
  const ToolResult run =
      run_bash("cd \"$1\" && \"$0\" \"${@:2}\"",
               {folder.path(), "bench", "train", "--models", "softmax", "--backends", "npu,cpu",
                "--batches", "10", "--loop-sizes", "2", "--threads", "1", "--seconds", "0.01",
                "--data", "digits", "--json", "j"},
               variables);
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  CHECK(read_json(folder.file("j")).at("processes").size() == 2);
  CHECK_FALSE(std::filesystem::exists(folder.file("keel_profile")));
}

TEST_CASE("bench train: numbers of threads have shapes of their own on the page") {
  const TempFolder folder;
  const ToolResult run =
      run_tool({"bench", "train", "--models", "softmax", "--backends", "cpu", "--data", "digits",
                "--batches", "10", "--loop-sizes", "1,2", "--threads", "3,5", "--seconds", "0.01",
                "--html", folder.file("page.html")});
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const std::string page = read_text(folder.file("page.html"));
  const size_t begin = page.find("id=\"train-loop_size-softmax\"");
  REQUIRE(begin != std::string::npos);
  const std::string plot = page.substr(begin, page.find("</svg>", begin) - begin);
  std::set<std::string> shapes;
  int count = 0;
  for (const std::string& line : lines_of(plot)) {
    if (!contains(line, "class=\"key ")) continue;
    ++count;
    shapes.insert(line.substr(0, line.find(' ')) + (contains(line, "l6 6") ? " diamond" : ""));
  }
  CHECK(count >= 2);
  CHECK(shapes.size() == static_cast<size_t>(count));
}

TEST_CASE("bench train: precisions are contestants of their own") {
  const json out = measured({"train", "--models", "softmax", "--backends", "npu", "--threads", "1",
                             "--precision", "fp32,mixed_bf16", "--seconds", "0.01"});
  REQUIRE(out["rows"].size() == 2);
  CHECK(out["rows"][0]["precision"] == "fp32");
  CHECK(out["rows"][1]["precision"] == "mixed_bf16");
  CHECK(out["rows"][1]["batch"] == 100);
  CHECK(out["processes"].size() == 2);
  CHECK(out["modelled"].size() == 2);
}

TEST_CASE("bench kernels: work and roofs") {
  // The products of layers take ref ten seconds.
  const std::string backends = long_scale() ? "npu,cpu,ref" : "npu,cpu";
  const json out = measured({"kernels", "--backends", backends, "--sizes", "32", "--kib", "16",
                             "--dtypes", "f32,bf16", "--seconds", "0.005"});
  // Products, four element-wise ops, a sum, three softmaxes; all run on every backend.
  CHECK(out["rows"].size() + out["left_out"].size() ==
        (long_scale() ? 3 : 2) * 2 * (7 + 4 + 1 + 3));
  bool square = false;
  for (const json& row : out["rows"]) {
    CAPTURE(row.dump());
    const double us = row["us"], flop = row["flop"], bytes = row["bytes"];
    CHECK(us > 0);
    CHECK(row["gflops"].get<double>() == doctest::Approx(flop / us * 1e-3));
    CHECK(row["gbytes_per_second"].get<double>() == doctest::Approx(bytes / us * 1e-3));
    CHECK(row["flop_per_byte"].get<double>() == doctest::Approx(flop / bytes));
    if (row.contains("share_of_roof")) {
      CHECK(row["share_of_roof"].get<double>() ==
            doctest::Approx(row["gflops"].get<double>() / row["roof_gflops"].get<double>()));
    }
    if (row["kernel"] != "32x32x32") continue;
    square = true;
    CHECK(flop == 2 * 32 * 32 * 32);
    CHECK(bytes == 3 * 32 * 32 * (row["dtype"] == "f32" ? 4 : 2));
  }
  CHECK(square);
  // Read, copy and triad, from the caches and from memory, and what registers do where it is known.
  CHECK(out["limits"].size() >= 6);
  for (const json& limit : out["limits"]) {
    CHECK(limit["rate"].get<double>() > 0);
    CHECK(limit["name"] != "hand-over");
  }
}

TEST_CASE("bench kernels: two threads hand a line over") {
  const json out = measured({"kernels", "--kernels", "sums", "--kib", "16", "--dtypes", "f32",
                             "--backends", "npu", "--threads", "2", "--seconds", "0.005"});
  const json& limit = out["limits"].back();
  CHECK(limit["name"] == "hand-over");
  CHECK(limit["threads"] == 2);
  CHECK(limit["unit"] == "M/s");
  CHECK(limit["rate"].get<double>() > 0);
  CHECK(limit["rate"].get<double>() < 1e3);  // no processor does it in a nanosecond
}

TEST_CASE("bench compile: nodes and phases and growth") {
  const json out =
      measured({"compile", "--backends", "npu,ref", "--sizes", "50,200", "--rounds", "2"});
  CHECK(out["rounds"] == 2);
  REQUIRE(out["rows"].size() == 2 * 2 * 2);
  for (const json& row : out["rows"]) {
    CAPTURE(row.dump());
    const int64_t nodes = row["nodes"], size = row["size"];
    CHECK(nodes >= size);
    CHECK(nodes < size + 60);
    REQUIRE(row["passes"].size() >= 3);
    CHECK(row["passes"][0]["name"] == "specialise");
    CHECK(row["passes"][0]["nodes"].get<int64_t>() > nodes);  // the gradient's among them
    CHECK(row["passes"].back()["name"] == "backend");
    CHECK(row["passes"].back()["tasks"].get<int64_t>() > 0);
    const double phases = row["build_us"].get<double>() + row["differentiate_us"].get<double>() +
                          row["compile_us"].get<double>();
    CHECK(phases > 0);
    const double scratch = row["scratch_bytes"], bound = row["scratch_lower_bound"];
    CHECK(scratch >= bound);
    if (bound > 0)
      CHECK(row["memory_plan_ratio"].get<double>() == doctest::Approx(scratch / bound));
    // The median of two rounds is the longer one, and no whole takes longer than its longest parts.
    double parts = 0;
    for (const json& pass : row["passes"])
      parts += pass["name"] == "specialise" ? 0 : pass["us"].get<double>();
    CHECK(parts >= row["compile_us"].get<double>() * (1 - 1e-9));
  }
  REQUIRE(out["growth"].size() == 4);
  // Between two sizes the exponent is the ratio of the logarithms.
  for (size_t i = 0; i < 4; ++i) {
    const json& small = out["rows"][2 * i];
    const json& large = out["rows"][2 * i + 1];
    const auto ratio = [&](const char* key) {
      return std::log(large[key].get<double>() / small[key].get<double>());
    };
    CHECK(out["growth"][i]["total"].get<double>() ==
          doctest::Approx(ratio("total_us") / ratio("nodes")));
  }
  const json one = measured({"compile", "--backends", "npu", "--sizes", "50", "--rounds", "1"});
  CHECK(one["growth"].empty());
  // The smallest graphs there are: no fewer nodes than one layer has, and no growth between equals.
  const json least = measured({"compile", "--backends", "ref", "--sizes", "1,2", "--rounds", "1"});
  REQUIRE(least["rows"].size() == 4);
  CHECK(least["rows"][0]["nodes"] == least["rows"][1]["nodes"]);
  CHECK(least["growth"].empty());
}

TEST_CASE("bench suites: what is wrong is told and nothing is written") {
  const TempFolder folder;
  const std::string json_file = folder.file("out.json"), html = folder.file("out.html");
  const struct {
    Words words;
    const char* part;
  } cases[] = {{{"train", "--backends", "gpu"}, "--backends"},
               {{"train", "--backends", ""}, "--backends"},
               {{"train", "--backends", "cpu,"}, "--backends"},
               {{"train", "--backends", "cpu,cpu"}, "twice"},
               {{"train", "--models", "perceptron"}, "--models"},
               {{"train", "--threads", "0"}, "--threads"},
               {{"train", "--threads", "1,x"}, "--threads"},
               {{"train", "--batches", "0"}, "--batches"},
               {{"train", "--batches", "-1"}, "--batches"},
               {{"train", "--loop-sizes", "0"}, "--loop-sizes"},
               {{"train", "--precision", "int4"}, "--precision"},
               {{"train", "--seconds", "0"}, "--seconds"},
               {{"train", "--batch", "10"}, "did you mean '--batches'"},
               {{"kernels", "--sizes", "0"}, "--sizes"},
               {{"kernels", "--threads", "0"}, "--threads"},
               {{"kernels", "--kernels", "conv"}, "--kernels"},
               {{"kernels", "--dtypes", "f64"}, "--dtypes"},
               {{"kernels", "--kib", "1.5"}, "--kib"},
               {{"compile", "--sizes", ""}, "--sizes"},
               {{"compile", "--sizes", "10,,20"}, "--sizes"},
               {{"compile", "--rounds", "0"}, "--rounds"},
               {{"all", "--threads", "two"}, "--threads"},
               {{"all", "--precision", "fp8"}, "--precision"}};
  for (const auto& c : cases) {
    Words words = c.words;
    words.insert(words.begin(), "bench");
    words.insert(words.end(), {"--json", json_file, "--html", html});
    CAPTURE(join(words));
    const ToolResult run = run_tool(words);
    CHECK(run.exit_code == 2);
    CHECK(run.out == "");
    CHECK(contains(run.err, c.part));
    CHECK(lines_of(run.err).size() == 1);
    CHECK(folder.empty());
  }
}

namespace {

// Ends with one line that says `part`, before anything is measured, and leaves nothing behind.
void check_bench_refused(const TempFolder& folder, Words words, int exit_code,
                         const std::string& part) {
  words.insert(words.begin(), "bench");
  CAPTURE(join(words));
  const ToolResult run = run_tool(words);
  CHECK(run.exit_code == exit_code);
  CHECK_FALSE(contains(run.out, " us"));  // a table's head
  CHECK(contains(run.err, part));
  CHECK(lines_of(run.err).size() == 1);
  CHECK(folder.empty());
}

}  // namespace

TEST_CASE("bench suites: files that cannot be written are known before anything is measured") {
  const TempFolder folder;
  for (const std::string flag : {"--json", "--html"}) {
    for (const std::string& bad :
         {folder.path(), folder.file("none/out"), std::string("/dev/null")}) {
      check_bench_refused(folder, {"compile", "--sizes", "50", flag, bad}, 1, flag + ": " + bad);
    }
  }
  const std::string file = folder.file("out");
  check_bench_refused(folder, {"compile", "--sizes", "50", "--json", file, "--html", file}, 2,
                      "--json");
  std::filesystem::create_symlink("nowhere", folder.file("link"));
  const ToolResult run = run_tool({"bench", "compile", "--json", folder.file("link")});
  CHECK(run.exit_code == 1);
  CHECK(run.out == "");
  CHECK(contains(run.err, "--json: " + folder.file("link")));
}

TEST_CASE("bench suites: data that are not there end it before anything is measured") {
  const TempFolder folder;
  const std::string file = folder.file("out.json"), missing = folder.file("none");
  for (const char* suite : {"train", "loop", "feed", "all"}) {
    check_bench_refused(folder, {suite, "--data", missing, "--json", file}, 1, missing);
    check_bench_refused(folder, {suite, "--data", folder.path(), "--json", file}, 1, folder.path());
  }
  // Whatever could be measured before the batch that is too large.
  check_bench_refused(folder, {"train", "--batches", "1,70000", "--json", file}, 1, "60000");
  for (const char* suite : {"loop", "feed"})
    check_bench_refused(folder, {suite, "--batch", "70000", "--json", file}, 1, "60000");
}

TEST_CASE("bench suites: help lists the flags and measures nothing") {
  for (const char* suite : {"train", "kernels", "loop", "feed", "compile", "all"}) {
    CAPTURE(suite);
    const ToolResult run = run_tool({"bench", suite, "--help"});
    CHECK(run.exit_code == 0);
    CHECK(run.err == "");
    CHECK(contains(run.out, std::string("keel bench ") + suite + ": "));
    for (const char* flag : {"--json FILE", "--html FILE", "--help"})
      CHECK(contains(run.out, flag));
    CHECK(contains(run_tool({"bench", "--help"}).out, std::string("\n  ") + suite + " "));
  }
}

// It named two of them as the default, where all are measured.
TEST_CASE("bench train: help says which models there are and that all of them are measured") {
  const std::string help = run_tool({"bench", "train", "--help"}).out;
  const size_t at = help.find("--models NAME,NAME,...");
  REQUIRE(at != std::string::npos);
  const std::string line = help.substr(at, help.find('\n', at) - at);
  CHECK_MESSAGE(contains(line, " (all of them)"), line);
  CHECK_MESSAGE(contains(line, "of softmax|mlp|lenet|resnet|transformer|lstm"), line);
}

// The table had the nodes of the loop, two, where the page had those of the step.
TEST_CASE("bench compile: the table and the page count the nodes behind the last pass of a step") {
  const TempFolder folder;
  const ToolResult run =
      run_tool({"bench", "compile", "--backends", "npu,ref", "--sizes", "50", "--rounds", "1",
                "--json", folder.file("json"), "--html", folder.file("html")});
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const std::string page = read_text(folder.file("html"));
  const std::vector<std::string> lines = lines_of(run.out);
  const json out = read_json(folder.file("json"));
  REQUIRE(out["rows"].size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    int64_t gradient = 0, fused = 0, tasks = 0;
    for (const json& pass : out["rows"][i]["passes"]) {
      if (pass["name"] == "specialise") gradient = pass["nodes"];
      if (pass["name"] == "fuse") fused = pass["nodes"];
      if (pass["name"] == "backend") tasks = pass["tasks"];
    }
    CHECK(fused > 20);
    std::istringstream cells(lines.at(i + 2));
    std::string graph, backend;
    int64_t nodes = 0, shown_gradient = 0, shown_fused = 0, shown_tasks = 0;
    cells >> graph >> backend >> nodes >> shown_gradient >> shown_fused >> shown_tasks;
    CAPTURE(lines.at(i + 2));
    CHECK(graph == out["rows"][i]["graph"]);
    CHECK(nodes == out["rows"][i]["nodes"]);
    CHECK(shown_gradient == gradient);
    CHECK(shown_fused == fused);
    CHECK(shown_tasks == tasks);
    const std::string in_page = "<td>" + std::to_string(nodes) + "</td><td>" +
                                std::to_string(fused) + "</td><td>" + std::to_string(tasks);
    CHECK_MESSAGE(contains(page, in_page), in_page);
  }
}

// They became rows that were left out, with exit code 0.
TEST_CASE("bench suites: what is wrong in the environment ends them before anything is measured") {
  const TempFolder folder;
  const struct {
    Variables variables;
    const char* part;
  } cases[] = {{{{"KEEL_NPU_PRESET", "nonsense"}}, "KEEL_NPU_PRESET"},
               {{{"ASCEND_DEVICE_ID", "99"}}, "ASCEND_DEVICE_ID"},
               {{{"CM_WORKER_SIZE", "2"}}, "CM_WORKER_SIZE"},
               {{{"KEEL_NPU_STRICT", "perhaps"}}, "KEEL_NPU_STRICT"}};
  const Words suites[] = {
      {"kernels", "--kernels", "sums", "--kib", "4", "--dtypes", "f32", "--backends", "npu"},
      {"compile", "--sizes", "10", "--backends", "npu"},
      {"all", "--tiny", "--backends", "npu"}};
  for (const auto& c : cases) {
    for (const Words& suite : suites) {
      Words words = {"bench"};
      words.insert(words.end(), suite.begin(), suite.end());
      words.insert(words.end(), {"--json", folder.file("out.json")});
      CAPTURE(join(words));
      CAPTURE(c.part);
      const ToolResult run = run_tool(words, c.variables);
      CHECK(run.exit_code == 2);
      CHECK(run.out.empty());
      CHECK_MESSAGE(contains(run.err, c.part), run.err);
      CHECK(folder.empty());
    }
  }
}

// It ended behind a table, without its files: by a third of --seconds, or a batch of its own.
TEST_CASE("bench all: short turns and small data are no errors behind the first table") {
  const TempFolder folder;
  const std::string file = folder.file("out.json");
  const ToolResult run =
      run_tool({"bench", "all", "--tiny", "--seconds", "0.001", "--backends", "npu", "--threads",
                "1", "--data", small_data().path(), "--json", file});
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const json train = read_json(file)["suites"]["train"];
  std::set<int64_t> batches;
  for (const json& row : train["rows"]) batches.insert(row["batch"].get<int64_t>());
  CHECK(batches == std::set<int64_t>{16, 100});  // the set has 200 images
  REQUIRE(train["left_out"].size() == 1);
  CHECK(train["left_out"][0]["batch"] == 256);
  CHECK(contains(run.out, "left out: trainings with batches of 256"));
  std::filesystem::remove(file);
  const DataFolder smaller(50, 10);
  check_bench_refused(folder, {"all", "--data", smaller.path(), "--json", file}, 1,
                      "--data: " + smaller.path() + ": expected at least 100 training images");
}

TEST_CASE("bench suites: flags about what is not measured are refused") {
  const TempFolder folder;
  const std::string file = folder.file("out.json");
  check_bench_refused(folder, {"kernels", "--kernels", "sums", "--sizes", "64", "--json", file}, 2,
                      "--sizes: is about products");
  check_bench_refused(folder,
                      {"kernels", "--kernels", "products,softmax", "--kib", "64", "--json", file},
                      2, "--kib: is about elementwise and sums");
  check_bench_refused(folder, {"feed", "--map-threads", "3", "--json", file}, 2,
                      "--map-threads: is about a map");
  check_bench_refused(folder, {"feed", "--map", "none", "--map-threads", "3", "--json", file}, 2,
                      "--map-threads: is about a map");
}

TEST_SUITE_END();

}  // namespace keel_test
