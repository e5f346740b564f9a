// `--enable-dump`, `--enable-dump-debug` and `--check-numerics`: what they write and name, for
// every loop size, and that the training is as it would be without.
#include <algorithm>
#include <functional>
#include <set>

#include <doctest/doctest.h>

#include "keel/core/base/csv.h"
#include "keel/core/tensor/npy.h"

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

struct QuietTraining {
  ToolResult result;
  json summary;
  std::string metrics;
};

QuietTraining train_quietly(const Words& more) {
  const TempFolder files;
  Words words = {
      "train", "--quiet", "--summary", files.file("summary"), "--metrics", files.file("metrics")};
  words.insert(words.end(), more.begin(), more.end());
  const ToolResult result = run_tool(words);
  CHECK_MESSAGE(result.exit_code == 0, join(words) << "\n" << result.err);
  return {result, read_json(files.file("summary")), read_text(files.file("metrics"))};
}

constexpr int kTableRows = 150;
constexpr int kStep = 57;

// Two numbers of about 1 and a class in each row; 1e30, which is infinite in f16, in planted ones.
std::string planted_table(const std::function<bool(int)>& planted) {
  std::string text = "a,b,kind\n";
  for (int row = 0; row < kTableRows; ++row) {
    text += (planted(row) ? "1e30" : std::to_string(0.5 + 0.001 * row)) + ",0.25," +
            std::to_string(row % 2) + "\n";
  }
  return text;
}

Words table_words(const std::string& path, const std::string& backend = "npu") {
  return {"--data",  path,  "--label",   "kind",  "--batch",     "1",
          "--steps", "100", "--backend", backend, "--precision", "mixed_fp16"};
}

// Which row a step takes is found bit by bit: of a training in which the rows with that bit are
// planted, its loss says whether it took one.
int row_of_step(const TempFolder& files) {
  int found = 0;
  for (int bit = 1; bit < kTableRows; bit *= 2) {
    const std::string path =
        files.write("search.csv", planted_table([&](int row) { return row & bit; }));
    const QuietTraining run = train_quietly(with(table_words(path), {"--loop-size", "1"}));
    const json line = json::parse(lines_of(run.metrics).at(kStep - 1));
    REQUIRE(line.at("step") == kStep);
    if (line.at("loss").is_null()) found |= bit;
  }
  return found;
}

}  // namespace

TEST_CASE("dump: files exist for the listed steps and nodes alone for every loop size") {
  const Words words = {"--steps", "9", "--batch", "20"};
  const QuietTraining plain = train_quietly(words);
  for (const char* loop_size : {"1", "4", "auto", "9"}) {
    CAPTURE(loop_size);
    const TempFolder folder;
    const QuietTraining run = train_quietly(
        with(words, {"--loop-size", loop_size, "--enable-dump", "--dump-path", folder.path(),
                     "--dump-step", "0|2|5-6|40", "--dump-mode", "all", "--dump-layer", "matmul"}));
    CHECK(run.summary.at("state_sha256") == plain.summary.at("state_sha256"));
    CHECK(run.metrics == plain.metrics);
    CHECK(run.summary.at("dumped_steps") == 3);
    const std::string root = run.summary.at("dump_folder");
    REQUIRE(names_in(folder.path()).size() == 1);
    CHECK(root == folder.file(*names_in(folder.path()).begin()));
    CHECK(names_in(root + "/0/softmax/0") == Words{"2", "5", "6"});
    for (const char* step : {"2", "5", "6"}) {
      const std::string at = root + "/0/softmax/0/" + step;
      std::set<std::string> files;
      for (const std::string& name : names_in(at)) files.insert(name.substr(7));
      CHECK(files == std::set<std::string>{"matmul.matmul.input.0.npy", "matmul.matmul.input.1.npy",
                                           "matmul.matmul.output.0.npy"});
      for (const std::string& name : names_in(at)) {
        const keel::Tensor tensor = keel::read_npy(at + "/" + name);
        if (contains(name, "input.0"))
          CHECK(tensor.shape() == keel::Shape{20, 784});
        else
          CHECK(tensor.shape().back() == 10);
      }
    }
  }
}

TEST_CASE("dump: statistics of every node on every backend") {
  for (const char* backend : {"npu", "cpu", "ref"}) {
    CAPTURE(backend);
    const TempFolder folder;
    const QuietTraining run =
        train_quietly({"--backend", backend, "--steps", "3", "--batch", "20", "--enable-dump",
                       "--dump-path", folder.path(), "--dump-step", "2", "--dump-data", "stats"});
    const std::string at = run.summary.at("dump_folder").get<std::string>() + "/0/softmax/0";
    CHECK(names_in(at) == Words{"2"});
    CHECK(names_in(at + "/2") == Words{"stats.csv"});
    const auto table = keel::parse_csv(read_text(at + "/2/stats.csv"), "stats.csv");
    CHECK(table.at(0) == keel::CsvRow{"task", "node", "op", "io", "index", "dtype", "shape",
                                      "elements", "min", "max", "mean", "infinite", "nan", "line"});
    const auto of_product = [](const keel::CsvRow& row) {
      return row.at(1) == "matmul" && row.at(3) == "output" && row.at(6) == "[20, 10]";
    };
    CHECK(std::count_if(table.begin(), table.end(), of_product) == 1);
  }
}

TEST_CASE("dump: words that are wrong are refused before anything is written") {
  const TempFolder folder;
  std::string sets = "1";
  for (int i = 0; i < 100; ++i) sets += "|1";
  const std::string path = folder.path();
  const Words dump = {"--enable-dump", "--dump-path", path};
  const Words debug = {"--enable-dump-debug", "--dump-path", path};
  struct Case {
    Words words;
    std::string message;
  };
  const std::vector<Case> cases = {
      {with(dump, {"--dump-step", sets}),
       "--dump-step: expected at most 100 steps and ranges, got 101"},
      {with(dump, {"--dump-step", "20-10"}), "--dump-step: expected ranges whose first step"},
      {with(dump, {"--dump-step", "a"}), "--dump-step: expected an integer"},
      {with(dump, {"--dump-mode", "inputs"}), "did you mean 'input'?"},
      {with(dump, {"--dump-data", "csv"}), "--dump-data: expected one of"},
      {with(dump, {"--dump-layer", " "}), "--dump-layer: expected names of nodes"},
      {with(dump, {"--enable-dump-debug"}), "--enable-dump-debug: --enable-dump is given as well"},
      {{"--enable-dump"}, "--enable-dump: --dump-path is not given"},
      {{"--enable-dump-debug"}, "--enable-dump-debug: --dump-path is not given"},
      {{"--dump-path", path}, "--dump-path: nothing is dumped without --enable-dump or"},
      {with(debug, {"--dump-step", "1"}), "--dump-step: nothing is dumped without --enable-dump;"},
      {with(debug, {"--dump-mode", "all"}), "--dump-mode: nothing is dumped without"},
      {with(debug, {"--dump-layer", "a"}), "--dump-layer: nothing is dumped without"},
      {with(debug, {"--dump-data", "stats"}), "--dump-data: nothing is dumped without"},
      {with(dump, {"--dump-debug-mode", "all"}), "--dump-debug-mode: nothing is dumped without"},
      {with(debug, {"--dump-debug-mode", "aicore_overflow", "--preset", "ascend910b1"}),
       "ascend910b1 is of series 910B, which has none but all"},
      {with(debug, {"--dump-debug-mode", "atomic_overflow", "--preset", "ascend910"}),
       "one status word for each op"},
      {with(debug, {"--dump-debug-mode", "atomic_overflow", "--backend", "cpu"}),
       "cpu does not say which part of it overflowed; it has all"},
      {with(dump, {"--dump-layer", "matmull"}), "did you mean 'matmul'?"},
  };
  for (const Case& c : cases) {
    CAPTURE(join(c.words));
    const ToolResult result = run_tool(with({"train", "--quiet", "--steps", "2"}, c.words));
    CHECK(result.exit_code == 2);
    CHECK_MESSAGE(contains(result.err, c.message), result.err);
    CHECK(folder.empty());
  }
}

TEST_CASE("dump: a folder that is none or cannot be made is refused") {
  const TempFolder folder;
  const std::string file = folder.write("file", "x");
  for (const char* flag : {"--enable-dump", "--enable-dump-debug"}) {
    for (const std::string& path : {file, file + "/below"}) {
      const ToolResult result =
          run_tool({"train", "--quiet", "--steps", "2", flag, "--dump-path", path});
      CHECK(result.exit_code == 1);
      CHECK_MESSAGE(contains(result.err, "--dump-path: expected a folder"), result.err);
      CHECK_MESSAGE(contains(result.err, "Not a directory"), result.err);
    }
  }
  CHECK(names_in(folder.path()) == Words{"file"});
}

TEST_CASE("dump: a folder that is missing is made with what is written in it") {
  const TempFolder folder;
  const Words words = {"--steps", "2", "--enable-dump", "--dump-path", folder.file("a/b")};
  const ToolResult wrong =
      run_tool(with({"train", "--quiet"}, with(words, {"--dump-layer", "matmull"})));
  CHECK(wrong.exit_code == 2);
  CHECK_MESSAGE(contains(wrong.err, "error: --dump-layer: expected names of nodes"), wrong.err);
  CHECK(folder.empty());
  const QuietTraining run = train_quietly(with(words, {"--dump-layer", "matmul loss"}));
  CHECK(run.summary.at("dump_folder").get<std::string>().starts_with(folder.file("a/b/")));
  CHECK(run.summary.at("dumped_steps") == 2);
}

TEST_CASE("dump: where there is no room for a file the training goes on told at once and fails") {
  const TempFolder files, folder;
  const Words words = {"train",   "--quiet", "--steps",   "6",
                       "--batch", "100",     "--summary", files.file("summary")};
  CHECK(run_tool(words).exit_code == 0);
  const json plain = read_json(files.file("summary"));
  // The images of a step take more than 64 KiB.
  const ToolResult result =
      run_bash(R"(ulimit -f 64; exec "$0" "$@")",
               with(words, {"--enable-dump", "--dump-path", folder.path(), "--dump-step", "2-4",
                            "--dump-mode", "input", "--dump-layer", "matmul"}));
  CHECK(result.exit_code == 1);
  CHECK(lines_of(result.err).size() == 1);
  CHECK_MESSAGE(contains(result.err, "dump: "), result.err);
  CHECK_MESSAGE(contains(result.err, "File too large"), result.err);
  const json summary = read_json(files.file("summary"));
  CHECK(summary.at("steps") == 6);
  CHECK(summary.at("state_sha256") == plain.at("state_sha256"));
  CHECK(summary.at("errors").size() == 1);
  CHECK(folder.empty());
}

TEST_CASE("dump: a resumed training dumps by the number of the step") {
  const TempFolder files, folder;
  const std::string saved = files.file("states");
  train_quietly({"--steps", "4", "--save", saved});
  const QuietTraining run =
      train_quietly({"--resume", saved, "--steps", "8", "--enable-dump", "--dump-path",
                     folder.path(), "--dump-step", "2|6-7", "--dump-layer", "matmul"});
  CHECK(run.summary.at("state_sha256") ==
        train_quietly({"--steps", "8"}).summary.at("state_sha256"));
  CHECK(names_in(run.summary.at("dump_folder").get<std::string>() + "/0/softmax/0") ==
        Words{"6", "7"});
}

TEST_CASE("numerics: an overflow planted at step 57 is named there for loop sizes 1 7 100 all") {
  const TempFolder files;
  const int row = row_of_step(files);
  const std::string path =
      files.write("planted.csv", planted_table([&](int r) { return r == row; }));
  for (const char* backend : {"npu", "cpu"}) {
    CAPTURE(backend);
    const Words words = table_words(path, backend);
    const QuietTraining plain = train_quietly(with(words, {"--loop-size", "1"}));
    CHECK(!plain.summary.contains("numerics"));
    for (const char* loop_size : {"1", "7", "100", "1000000"}) {
      CAPTURE(loop_size);
      const auto check_named = [&](const QuietTraining& run) {
        REQUIRE(run.summary.at("numerics").size() == 1);
        const json& finding = run.summary.at("numerics").at(0);
        CHECK(finding.at("step") == kStep);
        CHECK(finding.at("op") == "cast");
        CHECK(contains(run.result.err, "step 57: "));
        CHECK(contains(run.result.err, "1 infinite numbers"));
        CHECK(contains(run.result.err, "input 0 f32[2] from 0.25 to 1.0000000150474662e+30"));
        CHECK(run.metrics == plain.metrics);
        CHECK(run.summary.at("state_sha256") == plain.summary.at("state_sha256"));
      };
      check_named(
          train_quietly(with(words, {"--loop-size", loop_size, "--check-numerics", "first"})));
      const TempFolder folder;
      const QuietTraining debug = train_quietly(with(
          words, {"--loop-size", loop_size, "--enable-dump-debug", "--dump-path", folder.path()}));
      check_named(debug);
      CHECK(debug.summary.at("dumped_steps") == 1);
      const std::string at = debug.summary.at("dump_folder").get<std::string>() + "/0/softmax/0";
      CHECK(names_in(at) == Words{"57"});
      const json report = read_json(at + "/57/overflow.json");
      CHECK(report.at("op") == "cast");
      CHECK(report.at("step") == kStep);
      CHECK(report.at("kind") == "infinite");
      const json& input = report.at("inputs").at(0);
      CHECK(input.at("max").get<float>() == 1e30f);
      CHECK(input.at("min") == 0.25);
      const keel::Tensor x = keel::read_npy(at + "/57/" + input.at("file").get<std::string>());
      CHECK(x.data<float>()[0] == 1e30f);
    }
  }
}

TEST_CASE("dump: steps that the loss scaling skips are steps with overflow") {
  const Words words = {
      "--model",     "mlp",        "--steps",      "20",
      "--precision", "mixed_fp16", "--loss-scale", "exponential,16777216,6,2,2,0.5",
      "--loop-size", "7"};
  const TempFolder folder;
  const QuietTraining plain = train_quietly(words);
  const QuietTraining run =
      train_quietly(with(words, {"--enable-dump-debug", "--dump-path", folder.path()}));
  CHECK(run.summary.at("state_sha256") == plain.summary.at("state_sha256"));
  const int64_t skipped = plain.summary.at("skipped_steps");
  CHECK(skipped > 0);
  CHECK(run.summary.at("dumped_steps") == skipped);
  const std::string at = run.summary.at("dump_folder").get<std::string>() + "/0/mlp/0";
  std::set<std::string> skipped_ones;
  for (const std::string& line : lines_of(run.metrics)) {
    const json row = json::parse(line);
    if (row.contains("skipped")) skipped_ones.insert(std::to_string(row.at("step").get<int>()));
  }
  CHECK(names_in(at) == Words(skipped_ones.begin(), skipped_ones.end()));
}

TEST_CASE("numerics: steps that the loss scaling skips are named") {
  const Words words = {"--model",      "mlp",
                       "--steps",      "20",
                       "--precision",  "mixed_fp16",
                       "--loss-scale", "exponential,16777216,6,2,2,0.5",
                       "--loop-size",  "7",
                       "--batch",      "16",
                       "--data",       small_data().path()};
  for (const char* preset : {"ascend910b1", "ascend910"}) {
    CAPTURE(preset);
    const Words all = with(words, {"--preset", preset});
    const QuietTraining plain = train_quietly(all);
    const QuietTraining every = train_quietly(with(all, {"--check-numerics", "every"}));
    CHECK(every.summary.at("state_sha256") == plain.summary.at("state_sha256"));
    std::vector<int> skipped, named;
    for (const std::string& line : lines_of(every.metrics)) {
      const json row = json::parse(line);
      if (row.contains("skipped")) skipped.push_back(row.at("step"));
    }
    for (const json& finding : every.summary.at("numerics")) named.push_back(finding.at("step"));
    CHECK(skipped.size() > 1);
    CHECK(named == skipped);
    const QuietTraining first = train_quietly(with(all, {"--check-numerics", "first"}));
    REQUIRE(first.summary.at("numerics").size() == 1);
    CHECK(first.summary.at("numerics").at(0).at("step") == skipped.at(0));
  }
}

TEST_CASE("numerics: a training without overflow makes no folder and names nothing") {
  const TempFolder folder;
  const QuietTraining run = train_quietly({"--steps", "20", "--precision", "mixed_fp16",
                                           "--enable-dump-debug", "--dump-path", folder.path()});
  CHECK(folder.empty());
  CHECK(!run.summary.contains("numerics"));
  CHECK(!run.summary.contains("dump_folder"));
}

TEST_SUITE_END();
