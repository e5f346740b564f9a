// `keel import` and `keel run`: ONNX models on NumPy files, directly and as what import makes of
// them. Models are bytes made by hand, expected values computed by hand.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <keel/core/tensor/npy.h>
#include <keel/graph/runtime/safetensors.h>

#include "cli/tool.h"
#include "support/error_of.h"
#include "support/onnx_bytes.h"
#include "support/temp_folder.h"

namespace keel_test {
namespace {

// y = reshape(x w, shape) and flags = x > 0.
std::string small_model() {
  return onnx_model(
      {.nodes = {onnx_node("MatMul", {"x", "w"}, {"xw"}),
                 onnx_node("Reshape", {"xw", "shape"}, {"y"}),
                 onnx_node("Greater", {"x", "zero"}, {"flags/0"})},
       .initializers = {onnx_floats("w", {2, 2}, {1, 2, 3, 4}), onnx_floats("zero", {}, {0})},
       .inputs = {onnx_value("x", 1, {-1, 2}), onnx_value("shape", 7, {1})},
       .outputs = {onnx_value("y", 1, {-1}), onnx_value("flags/0", 9, {-1, 2})}});
}

struct OnnxRunFiles {
  TempFolder temp;
  std::string model = temp.write("m.onnx", small_model());
  std::string x = temp.file("x.npy");
  std::string shape = temp.file("shape.npy");

  OnnxRunFiles() {
    keel::write_npy(x, keel::Tensor::of<float>({2, 2}, {1, 1, 0, -1}));
    keel::write_npy(shape, keel::Tensor::of<int64_t>({1}, {-1}));
  }
  void check_results() const {
    CHECK(bit_equal(keel::read_npy(temp.file("out/y.npy")),
                    keel::Tensor::of<float>({4}, {4, 6, -3, -4})));
    CHECK(bit_equal(keel::read_npy(temp.file("out/flags_0.npy")),
                    keel::Tensor::of<bool>({2, 2}, {true, true, false, false})));
  }
};

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("run gives the outputs of an onnx model on each backend") {
  for (const std::string backend : {"ref", "cpu", "npu"}) {
    const OnnxRunFiles files;
    const ToolResult result =
        run_tool({"run", files.model, "--input", "x=" + files.x, "--bind", "shape=" + files.shape,
                  "--output-dir", files.temp.file("out"), "--backend", backend});
    CAPTURE(result.out + result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(contains(result.out, "y.npy f32[4]"));
    files.check_results();
  }
}

TEST_CASE("import writes a graph and weights that run takes") {
  const OnnxRunFiles files;
  const std::string out = files.temp.file("m.keel");
  const ToolResult imported =
      run_tool({"import", files.model, "--bind", "shape=" + files.shape, "--out", out});
  CAPTURE(imported.out + imported.err);
  REQUIRE(imported.exit_code == 0);
  CHECK(contains(imported.out, "input x f32[?, 2]"));
  CHECK(contains(read_text(out), "\"w\""));
  const ToolResult inspected = run_tool({"inspect", out + ".safetensors"});
  CHECK(inspected.exit_code == 0);
  const ToolResult result = run_tool({"run", out, "--input", "x=" + files.x, "--output-dir",
                                      files.temp.file("out"), "--backend", "cpu"});
  CAPTURE(result.out + result.err);
  REQUIRE(result.exit_code == 0);
  files.check_results();
}

// NumPy has no bf16: its files hold f32. 1 + 2^-8 lies between two numbers of bf16, and goes to the
// even one, 1.
TEST_CASE("run takes and writes bf16 as f32") {
  const TempFolder temp;
  const std::string x = temp.file("x.npy"), out = temp.file("out");
  keel::write_npy(x, keel::Tensor::of<float>({2}, {1.00390625f, -3}));
  const std::string from_f32 = temp.write(
      "from.onnx", onnx_model({.nodes = {onnx_node("Relu", {"x"}, {"a"}),
                                         onnx_node("Cast", {"x"}, {"b"}, {onnx_int("to", 16)})},
                               .inputs = {onnx_value("x", 1, {2})},
                               .outputs = {onnx_value("a", 1, {2}), onnx_value("b", 16, {2})}}));
  const ToolResult written = run_tool({"run", from_f32, "--input", "x=" + x, "--output-dir", out});
  CAPTURE(written.out + written.err);
  REQUIRE(written.exit_code == 0);
  CHECK(contains(written.out, "b.npy f32[2]"));
  CHECK(bit_equal(keel::read_npy(temp.file("out/b.npy")), keel::Tensor::of<float>({2}, {1, -3})));
  const std::string from_bf16 = temp.write(
      "to.onnx", onnx_model({.nodes = {onnx_node("Cast", {"x"}, {"c"}, {onnx_int("to", 1)})},
                             .inputs = {onnx_value("x", 16, {2})},
                             .outputs = {onnx_value("c", 1, {2})}}));
  for (const char* flag : {"--input", "--bind"}) {
    const ToolResult read = run_tool({"run", from_bf16, flag, "x=" + x, "--output-dir", out});
    CAPTURE(read.out + read.err);
    REQUIRE(read.exit_code == 0);
    CHECK(bit_equal(keel::read_npy(temp.file("out/c.npy")), keel::Tensor::of<float>({2}, {1, -3})));
    std::filesystem::remove(temp.file("out/c.npy"));
  }
}

TEST_CASE("run and import say what is missing or wrong") {
  const OnnxRunFiles files;
  const auto run = [&](const Words& words) {
    const ToolResult result = run_tool(words);
    return std::to_string(result.exit_code) + " " + result.err;
  };
  const std::string x = "x=" + files.x, shape = "shape=" + files.shape;
  CHECK(contains(run({"run", files.model, "--input", x}), "bind it"));
  CHECK(contains(run({"run", files.model, "--bind", shape}), "2 "));
  CHECK(contains(run({"run", files.model, "--bind", shape}), "--input x=FILE.npy"));
  CHECK(
      contains(run({"run", files.model, "--bind", shape, "--input", x, "--input", "z=" + files.x}),
               "one of: x"));
  CHECK(contains(run({"run", files.model, "--input", files.x}), "NAME=FILE.npy"));
  CHECK(contains(run({"run", files.temp.file("absent.onnx")}), "absent.onnx"));
  CHECK(contains(run({"run"}), "the model is missing"));
  CHECK(contains(run({"import", files.model}), "--out is missing"));
  CHECK(contains(run({"run", files.temp.write("cut.onnx", small_model().substr(0, 40))}), "1 "));
}

TEST_CASE("import leaves no graph with the weights of another one") {
  const OnnxRunFiles files;
  const std::string out = files.temp.file("m.keel");
  const Words words = {"import", files.model, "--bind", "shape=" + files.shape, "--out", out};
  REQUIRE(run_tool(words).exit_code == 0);
  const std::string first = read_text(out);
  // A second import that was killed between its two files.
  const std::string other = files.temp.write(
      "other.onnx", onnx_model({.nodes = {onnx_node("Add", {"x", "w"}, {"y"})},
                                .initializers = {onnx_floats("w", {2, 2}, {5, 6, 7, 8})},
                                .inputs = {onnx_value("x", 1, {-1, 2})},
                                .outputs = {onnx_value("y", 1, {-1, 2})}}));
  REQUIRE(run_tool({"import", other, "--out", out}).exit_code == 0);
  files.temp.write("m.keel", first);
  const ToolResult result =
      run_tool({"run", out, "--input", "x=" + files.x, "--output-dir", files.temp.file("out")});
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(contains(result.err, "was written with another graph"), result.err);
  CHECK_FALSE(std::filesystem::exists(files.temp.file("out/y.npy")));
}

TEST_CASE("an import that cannot write one of its files leaves both as they were") {
  const OnnxRunFiles files;
  const std::string out = files.temp.file("m.keel");
  REQUIRE(
      run_tool({"import", files.model, "--bind", "shape=" + files.shape, "--out", out}).exit_code ==
      0);
  const std::string graph = read_text(out), weights = read_text(out + ".safetensors");
  // One model with a long graph, and one with large weights.
  std::vector<std::string> chain;
  std::string last = "x";
  for (int i = 0; i < 1000; ++i) {
    const std::string next = "y" + std::to_string(i);
    chain.push_back(onnx_node("Add", {last, "w"}, {next}));
    last = next;
  }
  const std::string long_graph =
      files.temp.write("long.onnx", onnx_model({.nodes = chain,
                                                .initializers = {onnx_floats("w", {2}, {5, 6})},
                                                .inputs = {onnx_value("x", 1, {-1, 2})},
                                                .outputs = {onnx_value(last, 1, {-1, 2})}}));
  const std::string large_weights = files.temp.write(
      "large.onnx",
      onnx_model({.nodes = {onnx_node("Add", {"x", "w"}, {"y"})},
                  .initializers = {onnx_floats("w", {5000}, std::vector<float>(5000))},
                  .inputs = {onnx_value("x", 1, {-1, 5000})},
                  .outputs = {onnx_value("y", 1, {-1, 5000})}}));
  for (const std::string& other : {long_graph, large_weights}) {
    CAPTURE(other);
    const ToolResult refused =
        run_bash(R"(ulimit -f 8; exec "$0" "$@")", {"import", other, "--out", out});
    CHECK(refused.exit_code == 1);
    CHECK_MESSAGE(contains(refused.err, "File too large"), refused.err);
    CHECK((read_text(out) == graph));
    CHECK((read_text(out + ".safetensors") == weights));
  }
  REQUIRE(run_tool({"run", out, "--input", "x=" + files.x, "--output-dir", files.temp.file("out")})
              .exit_code == 0);
  files.check_results();
}

TEST_CASE("run and import write over nothing that they read") {
  const OnnxRunFiles files;
  const std::string out = files.temp.file("out");
  const auto refused = [&](const Words& words, const Words& parts) {
    const ToolResult result = run_tool(words);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    for (const std::string& part : parts) CHECK(contains(result.err, part));
  };
  std::filesystem::create_directory(out);
  std::filesystem::copy_file(files.x, out + "/y.npy");
  std::filesystem::copy_file(files.shape, out + "/flags_0.npy");
  const std::string before = read_text(out + "/y.npy");
  refused({"run", files.model, "--input", "x=" + out + "/y.npy", "--bind", "shape=" + files.shape,
           "--output-dir", out},
          {"--output-dir", "--input", "y.npy"});
  refused({"run", files.model, "--input", "x=" + files.x, "--bind", "shape=" + out + "/flags_0.npy",
           "--output-dir", out},
          {"--output-dir", "--bind", "flags_0.npy"});
  CHECK((read_text(out + "/y.npy") == before));
  // Weights that the file has outside, where the imported ones would go.
  const std::string data = files.temp.write("w.keel.safetensors", std::string(16, '\0'));
  const std::string outside =
      bytes_field(13, bytes_field(1, "location") + bytes_field(2, "w.keel.safetensors")) +
      number_field(14, 1);
  const std::string model = files.temp.write(
      "outside.onnx", onnx_model({.nodes = {onnx_node("Add", {"x", "w"}, {"y"})},
                                  .initializers = {onnx_tensor("w", 1, {2, 2}, outside)},
                                  .inputs = {onnx_value("x", 1, {-1, 2})},
                                  .outputs = {onnx_value("y", 1, {-1, 2})}}));
  refused({"import", model, "--out", files.temp.file("w.keel")},
          {"--out", "keel import", "w.keel.safetensors"});
  CHECK(read_text(data).size() == 16);
  refused({"eval", "--model", model, "--json", data}, {"--json", "--model", "w.keel.safetensors"});
  CHECK(read_text(data).size() == 16);
  refused({"import", model, "--out", files.x}, {"--out", "FILE.keel", "x.npy"});
}

TEST_CASE("run says which array does not fit and which file is damaged") {
  const OnnxRunFiles files;
  const std::string out = files.temp.file("m.keel");
  REQUIRE(
      run_tool({"import", files.model, "--bind", "shape=" + files.shape, "--out", out}).exit_code ==
      0);
  const ToolResult wrong = run_tool({"run", out, "--input", "x=" + files.shape});
  CHECK(wrong.exit_code == 1);
  CHECK_MESSAGE(contains(wrong.err, "--input: x: expected f32[?, 2], got i64[1]"), wrong.err);
  const ToolResult unknown = run_tool({"run", out, "--input", "q=" + files.x});
  CHECK_MESSAGE(contains(unknown.err, "expected one of: x, got q"), unknown.err);
  std::filesystem::remove(out + ".safetensors");
  keel::write_safetensors(out + ".safetensors", {}, {});
  files.temp.write("m.keel", "graph {\n  %0 = \n}\n");
  const ToolResult damaged = run_tool({"run", out, "--input", "x=" + files.x});
  CHECK(damaged.exit_code == 1);
  CHECK_MESSAGE(contains(damaged.err, "m.keel: graph text: 3:1"), damaged.err);
}

TEST_CASE("a training_info that is left out is told of") {
  const TempFolder temp;
  const std::string plain = onnx_model({.nodes = {onnx_node("Relu", {"x"}, {"y"})},
                                        .inputs = {onnx_value("x", 1, {2})},
                                        .outputs = {onnx_value("y", 1, {2})}});
  const std::string trains = plain + bytes_field(20, bytes_field(2, OnnxGraph{}.bytes()));
  for (const bool has : {false, true}) {
    const std::string model = temp.write("m.onnx", has ? trains : plain);
    const ToolResult import = run_tool({"import", model, "--out", temp.file("m.keel")});
    CHECK(import.exit_code == 0);
    CHECK_MESSAGE(contains(import.out, "training_info is left out") == has, import.out);
    const ToolResult migrate = run_tool({"migrate", model, "--out", temp.file("out")});
    CHECK(migrate.exit_code == 0);
    CHECK(contains(read_text(temp.file("out/report.csv")), "keel import leaves it out") == has);
  }
}

// tf2onnx names outputs so; a graph's text has no such names.
TEST_CASE("a model that was imported gives its outputs the names of the file") {
  const TempFolder temp;
  const std::string model =
      temp.write("m.onnx", onnx_model({.nodes = {onnx_node("Relu", {"x"}, {"Identity:0"}),
                                                 onnx_node("Neg", {"x"}, {"Identity_1:0"})},
                                       .initializers = {},
                                       .inputs = {onnx_value("x", 1, {2})},
                                       .outputs = {onnx_value("Identity:0", 1, {2}),
                                                   onnx_value("Identity_1:0", 1, {2})}}));
  keel::write_npy(temp.file("x.npy"), keel::Tensor::of<float>({2}, {1, -1}));
  REQUIRE(run_tool({"import", model, "--out", temp.file("m.keel")}).exit_code == 0);
  for (const std::string file : {"m.onnx", "m.keel"}) {
    CAPTURE(file);
    const ToolResult result =
        run_tool({"run", temp.file(file), "--input", "x=" + temp.file("x.npy"), "--output-dir",
                  temp.file("of_" + file)});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(bit_equal(keel::read_npy(temp.file("of_" + file + "/Identity:0.npy")),
                    keel::Tensor::of<float>({2}, {1, 0})));
    CHECK(bit_equal(keel::read_npy(temp.file("of_" + file + "/Identity_1:0.npy")),
                    keel::Tensor::of<float>({2}, {-1, 1})));
  }
}

TEST_SUITE_END();

}  // namespace keel_test
