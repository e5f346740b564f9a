// Models out of files, --model FILE, in train, eval, predict, graph and export: ONNX bytes made by
// hand, whose predictions are known beforehand.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include <doctest/doctest.h>
#include <keel/graph/runtime/safetensors.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"
#include "support/onnx_bytes.h"

namespace keel_test {
namespace {

// scores = flatten(x) w + b with w of zeros, and perhaps a softmax behind it.
std::string linear_model(const std::vector<float>& b, const std::vector<int64_t>& image,
                         bool softmax = false) {
  OnnxGraph graph{
      .nodes = {onnx_node("Flatten", {"x"}, {"flat"}),
                onnx_node("MatMul", {"flat", "head.w"}, {"product"}),
                onnx_node("Add", {"product", "head.b"}, {"sums"})},
      .initializers = {onnx_floats("head.w", {kPixels, 10}, std::vector<float>(kPixels * 10, 0.0f)),
                       onnx_floats("head.b", {10}, b)},
      .inputs = {onnx_value("x", 1, image)},
      .outputs = {onnx_value(softmax ? "shares" : "sums", 1, {-1, 10})}};
  if (softmax) graph.nodes.push_back(onnx_node("Softmax", {"sums"}, {"shares"}));
  return onnx_model(graph);
}

const std::vector<float> kBias = {0, 0, 0, 2, 0, 1, 0, 0, 0, -1};  // class 3 is always the largest

// The scores of a model of that bias on the data's test images.
struct Expected {
  double accuracy = 0, loss = 0;
  explicit Expected(const DataSet& data) {
    double sum = 0;
    for (const float b : kBias) sum += std::exp(static_cast<double>(b));
    for (const char label : data.test_classes) {
      accuracy += label == 3 ? 1.0 : 0.0;
      loss += std::log(sum) - static_cast<double>(kBias[static_cast<size_t>(label)]);
    }
    accuracy /= static_cast<double>(data.test_count);
    loss /= static_cast<double>(data.test_count);
  }
};

struct ModelFiles {
  DataSet data{60, 20};
  TempFolder temp;
  std::string images;

  ModelFiles() : images(temp.file("images")) {
    std::filesystem::create_directory(images);
    const DataFolder& folder = written();
    for (const std::string& name : {kTrainImages, kTrainLabels, kTestImages, kTestLabels})
      std::filesystem::copy_file(folder.file(name), images + "/" + name);
  }
  static const DataFolder& written() {
    static const DataFolder folder(60, 20);
    return folder;
  }
  std::string model(const std::string& bytes, const std::string& name = "m.onnx") const {
    return temp.write(name, bytes);
  }
};

nlohmann::json evaluated(const ModelFiles& files, Words words) {
  words.insert(words.begin(), "eval");
  words.insert(words.end(), {"--data", files.images, "--json", files.temp.file("scores")});
  const ToolResult result = run_tool(words);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  return read_json(files.temp.file("scores"));
}

void check_scores(const nlohmann::json& scores, const Expected& expected) {
  CHECK(scores.at("accuracy") == doctest::Approx(expected.accuracy));
  CHECK(scores.at("loss") == doctest::Approx(expected.loss).epsilon(1e-6));
}

Words trained(const ModelFiles& files, const std::string& model, const std::string& save) {
  return {"train", "--quiet", "--model", model,    "--data", files.images, "--batch",
          "20",    "--steps", "6",       "--save", save,     "--threads",  "1"};
}

void check_model_refused(const Words& words, const Words& parts) {
  const ToolResult result = run_tool(words);
  CAPTURE(result.err);
  CHECK(result.exit_code != 0);
  CHECK(lines_of(result.err).size() == 1);
  for (const std::string& part : parts) CHECK_MESSAGE(contains(result.err, part), part);
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("model files: the summary of a training says the dtype of the weights") {
  const ModelFiles files;
  const std::string model = files.model(onnx_model(
      {.nodes = {onnx_node("Flatten", {"x"}, {"flat"}),
                 onnx_node("MatMul", {"flat", "w"}, {"product"}),
                 onnx_node("Add", {"product", "b"}, {"sums"})},
       .initializers = {onnx_tensor("w", 11, {kPixels, 10},
                                    bytes_field(9, raw_bytes(std::vector<double>(kPixels * 10)))),
                        onnx_tensor("b", 11, {10},
                                    bytes_field(9, raw_bytes(std::vector<double>(10))))},
       .inputs = {onnx_value("x", 11, {-1, kPixels})},
       .outputs = {onnx_value("sums", 11, {-1, 10})}}));
  for (const auto& trained_one : {std::pair(model, "f64"), std::pair(std::string("mlp"), "f32")}) {
    const std::string& name = trained_one.first;
    const char* dtype = trained_one.second;
    CAPTURE(name);
    Words words = trained(files, name, files.temp.file("s"));
    words.insert(words.end(), {"--backend", "cpu", "--summary", files.temp.file("summary")});
    const ToolResult result = run_tool(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(read_json(files.temp.file("summary")).at("dtype") == dtype);
  }
}

TEST_CASE("model files: eval scores a model of any layout as its weights say") {
  const ModelFiles files;
  const Expected expected(files.data);
  int number = 0;
  for (const std::vector<int64_t>& image : std::vector<std::vector<int64_t>>{
           {-1, 1, 28, 28}, {-1, 28, 28, 1}, {-1, 28, 28}, {-1, kPixels}, {8, 1, 28, 28}}) {
    CAPTURE(number);
    const std::string name = "m" + std::to_string(++number) + ".onnx";
    check_scores(evaluated(files, {"--model", files.model(linear_model(kBias, image), name)}),
                 expected);
  }
  // The loss is that of the sums, not of the shares taken for sums.
  const std::string softmax = files.model(linear_model(kBias, {-1, 1, 28, 28}, true));
  check_scores(evaluated(files, {"--model", softmax}), expected);
  // So it is where the softmax is one over channels, and of other floats.
  const std::string channels = files.model(
      onnx_model(
          {.nodes = {onnx_node("Flatten", {"x"}, {"flat"}),
                     onnx_node("MatMul", {"flat", "w"}, {"product"}),
                     onnx_node("Add", {"product", "b"}, {"sums"}),
                     onnx_node("Reshape", {"sums", "shape"}, {"image"}),
                     onnx_node("Softmax", {"image"}, {"shares"}, {onnx_int("axis", 1)}),
                     onnx_node("Cast", {"shares"}, {"y"}, {onnx_int("to", 10)})},
           .initializers = {onnx_floats("w", {kPixels, 10}, std::vector<float>(kPixels * 10, 0.0f)),
                            onnx_floats("b", {10}, kBias),
                            onnx_integers("shape", {4}, {-1, 10, 1, 1})},
           .inputs = {onnx_value("x", 1, {-1, kPixels})},
           .outputs = {onnx_value("y", 10, {-1, 10, 1, 1})}}),
      "channels.onnx");
  check_scores(evaluated(files, {"--model", channels}), expected);
  const std::string imported = files.temp.file("m.keel");
  REQUIRE(run_tool({"import", softmax, "--out", imported}).exit_code == 0);
  check_scores(evaluated(files, {"--model", imported}), expected);
}

TEST_CASE("model files: channels come first where the model has them so") {
  TempFolder temp;
  std::string records;
  for (int label : {0, 1, 2, 2}) {
    records += static_cast<char>(label);
    for (int channel = 0; channel < 3; ++channel)
      records += std::string(1024, channel == label ? '\xff' : '\x10');
  }
  temp.write("data_batch_1.bin", records);
  temp.write("test_batch.bin", records);
  std::vector<float> w(30, 0.0f);
  for (size_t channel = 0; channel < 3; ++channel) w[channel * 10 + channel] = 5;
  const std::string model =
      temp.write("m.onnx", onnx_model({.nodes = {onnx_node("GlobalAveragePool", {"x"}, {"means"}),
                                                 onnx_node("Flatten", {"means"}, {"flat"}),
                                                 onnx_node("MatMul", {"flat", "w"}, {"y"})},
                                       .initializers = {onnx_floats("w", {3, 10}, w)},
                                       .inputs = {onnx_value("x", 1, {-1, 3, -1, -1})},
                                       .outputs = {onnx_value("y", 1, {-1, 10})}}));
  const ToolResult result =
      run_tool({"eval", "--model", model, "--data", temp.path(), "--json", temp.file("scores")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(read_json(temp.file("scores")).at("accuracy") == 1.0);
}

TEST_CASE("model files: training goes on from their weights and freezes what it is told") {
  const ModelFiles files;
  const std::string model = files.model(linear_model(kBias, {-1, 1, 28, 28}));
  const std::string save = files.temp.file("saved");
  Words words = trained(files, model, save);
  words.insert(words.end(), {"--freeze", "*.w", "--optimizer", "sgd", "--lr", "0.5", "--metrics",
                             files.temp.file("metrics")});
  const ToolResult result = run_tool(words);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const auto lines = read_json_lines(files.temp.file("metrics"));
  CHECK(lines.back().at("loss") < lines.front().at("loss"));
  const keel::Safetensors saved = keel::read_safetensors(save);
  const auto weights = saved.tensors.at("head.w").data<float>();
  CHECK(std::all_of(weights.begin(), weights.end(), [](float x) { return x == 0; }));
  // Plain descent keeps the sum of the biases, for each image's gradient sums to 0.
  const auto bias = saved.tensors.at("head.b").data<float>();
  double sum = 0;
  bool same = true;
  for (size_t i = 0; i < bias.size(); ++i) {
    sum += static_cast<double>(bias[i]);
    same = same && bias[i] == kBias[i];
  }
  CHECK(sum == doctest::Approx(2.0).epsilon(1e-5));
  CHECK_FALSE(same);

  // The saved file finds its model; predict and export take both.
  const double loss = evaluated(files, {"--load", save}).at("loss");
  CHECK(loss < Expected(files.data).loss);
  const ToolResult one = run_tool({"predict", "--load", save, "--index", "0", "--data",
                                   files.images, "--json", files.temp.file("one")});
  REQUIRE_MESSAGE(one.exit_code == 0, one.err);
  CHECK(read_json(files.temp.file("one")).at("probabilities").size() == 10);
  const std::string again = files.temp.file("again.onnx");
  const ToolResult exported = run_tool({"export", "--load", save, "--out", again});
  REQUIRE_MESSAGE(exported.exit_code == 0, exported.err);
  CHECK(evaluated(files, {"--model", again}).at("loss") == doctest::Approx(loss).epsilon(1e-6));
}

TEST_CASE("model files: a resumed training is one in one piece and finds a moved file") {
  const ModelFiles files;
  const std::string model = files.model(linear_model(kBias, {-1, 1, 28, 28}));
  const auto run = [&](Words words, const std::string& summary) {
    words.insert(words.end(), {"--summary", files.temp.file(summary)});
    const ToolResult result = run_tool(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return read_json(files.temp.file(summary)).at("state_sha256").get<std::string>();
  };
  Words words = trained(files, model, files.temp.file("whole"));
  *(std::find(words.begin(), words.end(), "--steps") + 1) = "12";
  const std::string whole = run(words, "whole.json");
  run(trained(files, model, files.temp.file("half")), "half.json");
  const Words rest = {"train", "--quiet", "--resume", files.temp.file("half"), "--steps", "12"};
  CHECK(run(rest, "rest.json") == whole);

  const std::string moved = files.temp.file("moved.onnx");
  std::filesystem::rename(model, moved);
  check_model_refused(rest, {"m.onnx"});
  check_model_refused({"eval", "--load", files.temp.file("half")}, {"m.onnx", "--model FILE"});
  Words with_moved = rest;
  with_moved.insert(with_moved.end(), {"--model", moved});
  CHECK(run(with_moved, "moved.json") == whole);
  // Another model under the old name.
  files.model(linear_model(kBias, {-1, 28, 28}));
  check_model_refused(rest, {"--model", "half", "another one"});
  check_model_refused({"eval", "--load", files.temp.file("half")},
                      {"--model", "half", "another one"});
}

TEST_CASE("model files: averages and checkpoints and 16-bit products work as for other models") {
  const ModelFiles files;
  const std::string model = files.model(linear_model(kBias, {-1, 1, 28, 28}));
  const auto run = [&](const std::string& name, const std::string& steps, const Words& more) {
    Words words = {"train",        "--quiet",
                   "--model",      model,
                   "--data",       files.images,
                   "--batch",      "20",
                   "--steps",      steps,
                   "--threads",    "1",
                   "--accumulate", "2",
                   "--average",    "0.9",
                   "--precision",  "mixed_bf16",
                   "--save-every", "3",
                   "--summary",    files.temp.file(name + ".json"),
                   "--checkpoint", files.temp.file(name)};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = run_tool(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return read_json(files.temp.file(name + ".json")).at("state_sha256").get<std::string>();
  };
  const std::string whole = run("whole", "12", {});
  run("parts", "6", {});
  CHECK(run("parts", "12", {"--resume", files.temp.file("parts")}) == whole);
  // The weights of --init replace the file's own.
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(files.temp.file("whole")))
    if (entry.path().filename().string().starts_with("step-"))
      newest = std::max(newest, entry.path().string());
  const ToolResult begun = run_tool({"train", "--quiet", "--model", model, "--data", files.images,
                                     "--steps", "1", "--batch", "20", "--lr", "0", "--optimizer",
                                     "sgd", "--init", newest, "--save", files.temp.file("begun")});
  REQUIRE_MESSAGE(begun.exit_code == 0, begun.err);
  CHECK(keel::read_safetensors(files.temp.file("begun")).tensors.at("head.b").at(3) != 2.0);
}

TEST_CASE("model files: more classes than bytes tell apart are trained and evaluated") {
  const ModelFiles files;
  const std::string model = files.model(onnx_model(
      {.nodes = {onnx_node("MatMul", {"x", "w"}, {"y"})},
       .initializers = {onnx_floats("w", {kPixels, 300}, std::vector<float>(kPixels * 300, 0.0f))},
       .inputs = {onnx_value("x", 1, {-1, kPixels})},
       .outputs = {onnx_value("y", 1, {-1, 300})}}));
  const std::string save = files.temp.file("saved");
  const ToolResult result = run_tool(trained(files, model, save));
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(evaluated(files, {"--load", save}).at("loss") < std::log(300.0));
}

TEST_CASE("model files: weights of another file and files that are read are refused") {
  const ModelFiles files;
  const std::string model = files.model(linear_model(kBias, {-1, 1, 28, 28}));
  const std::string imported = files.temp.file("m.keel");
  REQUIRE(run_tool({"import", model, "--out", imported}).exit_code == 0);
  keel::Safetensors weights = keel::read_safetensors(imported + ".safetensors");
  weights.tensors["other"] = weights.tensors.at("head.w");
  weights.tensors.erase("head.w");
  keel::write_safetensors(imported + ".safetensors", weights.tensors, {});
  check_model_refused(trained(files, imported, files.temp.file("saved")),
                      {"m.keel", "missing", "head.w"});

  const std::string save = files.temp.file("saved");
  REQUIRE(run_tool(trained(files, model, save)).exit_code == 0);
  const std::string before = read_text(model);
  check_model_refused({"export", "--load", save, "--out", model}, {"--out", "--model"});
  check_model_refused({"predict", "--load", save, "--index", "0", "--json", model},
                      {"--json", "--model"});
  check_model_refused({"train", "--resume", save, "--steps", "7", "--save", model},
                      {"--save", "--model"});
  CHECK((read_text(model) == before));
}

TEST_CASE("model files: of several outputs one is kept by import") {
  const ModelFiles files;
  const std::string model = files.model(onnx_model(
      {.nodes = {onnx_node("Neg", {"x"}, {"features"}), onnx_node("MatMul", {"x", "w"}, {"y"}),
                 onnx_node("Add", {"y", "b"}, {"scores"})},
       .initializers = {onnx_floats("w", {kPixels, 10}, std::vector<float>(kPixels * 10, 0.0f)),
                        onnx_floats("b", {10}, kBias)},
       .inputs = {onnx_value("x", 1, {-1, kPixels})},
       .outputs = {onnx_value("features", 1, {-1, kPixels}), onnx_value("scores", 1, {-1, 10})}}));
  check_model_refused({"eval", "--model", model, "--data", files.images},
                      {"outputs", "features f32[?, 784], scores f32[?, 10]", "--outputs"});
  const std::string imported = files.temp.file("m.keel");
  const ToolResult kept = run_tool({"import", model, "--outputs", "scores", "--out", imported});
  REQUIRE_MESSAGE(kept.exit_code == 0, kept.err);
  CHECK_FALSE(contains(kept.out, "features"));
  check_scores(evaluated(files, {"--model", imported}), Expected(files.data));
  check_model_refused({"import", model, "--outputs", "none", "--out", imported},
                      {"--outputs: " + model, "none", "scores"});
}

TEST_CASE("model files: a loop of known length that was exported runs and trains on the npu") {
  const ModelFiles files;
  const std::string save = files.temp.file("saved"), model = files.temp.file("lstm.onnx");
  REQUIRE(run_tool(trained(files, "lstm", save)).exit_code == 0);
  const ToolResult exported = run_tool({"export", "--load", save, "--out", model, "--batch", "20"});
  REQUIRE_MESSAGE(exported.exit_code == 0, exported.err);
  const double loss = evaluated(files, {"--load", save}).at("loss");
  CHECK(evaluated(files, {"--model", model}).at("loss") == doctest::Approx(loss).epsilon(1e-5));
  const ToolResult result = run_tool(trained(files, model, files.temp.file("tuned")));
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(evaluated(files, {"--load", files.temp.file("tuned")}).at("loss") < loss);
}

TEST_CASE("model files: frozen norms of any model keep their running statistics") {
  const ModelFiles files;
  const std::string save = files.temp.file("saved");
  Words words = trained(files, "resnet", save);
  words.insert(words.end(), {"--freeze", "!(logits*)"});
  const ToolResult result = run_tool(words);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  int norms = 0;
  for (const auto& [name, tensor] : keel::read_safetensors(save).tensors) {
    if (!name.ends_with("running_mean")) continue;
    ++norms;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) CHECK(tensor.at(i) == 0);
  }
  CHECK(norms > 3);
}

TEST_CASE("model files: graph prints the training step of a file") {
  const ModelFiles files;
  const std::string model = files.model(linear_model(kBias, {-1, 1, 28, 28}));
  const ToolResult text = run_tool({"graph", "--model", model});
  REQUIRE_MESSAGE(text.exit_code == 0, text.err);
  CHECK(contains(text.out, "\"head.w\""));
  CHECK(contains(text.out, "m.onnx\":2"));  // the line of the product
  const ToolResult tasks = run_tool({"graph", "--model", model, "--compiled", "--batch", "7"});
  REQUIRE_MESSAGE(tasks.exit_code == 0, tasks.err);
  CHECK(contains(tasks.out, "u8[7, 784]"));
}

TEST_CASE("model files: what is no classifier of the images is refused with what it takes") {
  const ModelFiles files;
  const std::vector<std::string> scores = {onnx_value("y", 1, {-1, 10})};
  const auto refused = [&](const std::string& bytes, const Words& parts) {
    check_model_refused({"eval", "--model", files.model(bytes), "--data", files.images}, parts);
  };
  refused(linear_model(kBias, {-1, 1, 14, 56}), {"f32[?, 1, 14, 56]", "28x28x1 u8"});
  refused(onnx_model({.nodes = {onnx_node("Add", {"a", "b"}, {"y"})},
                      .inputs = {onnx_value("a", 1, {-1, 10}), onnx_value("b", 1, {-1, 10})},
                      .outputs = scores}),
          {"inputs", "a f32[?, 10], b f32[?, 10]", "--bind"});
  refused(onnx_model({.nodes = {onnx_node("Neg", {"x"}, {"y"})},
                      .inputs = {onnx_value("x", 1, {-1, 1, 28, 28})},
                      .outputs = {onnx_value("y", 1, {-1, 1, 28, 28})}}),
          {"outputs", "[batch, classes]"});
  refused("no model", {"m.onnx"});
  refused(onnx_model({.nodes = {onnx_node("Flatten", {"x"}, {"flat"}),
                                onnx_node("MatMul", {"flat", "w"}, {"y"})},
                      .initializers = {onnx_floats("w", {kPixels, 3},
                                                   std::vector<float>(kPixels * 3, 0.0f))},
                      .inputs = {onnx_value("x", 1, {-1, kPixels})},
                      .outputs = {onnx_value("y", 1, {-1, 3})}}),
          {"classes", "at most the 3", "10"});
  check_model_refused({"eval", "--model", files.temp.file("none.onnx")}, {"none.onnx"});
  check_model_refused({"eval", "--model", "softmax"}, {"--load", "is missing"});

  const std::string model = files.model(linear_model(kBias, {8, 1, 28, 28}));
  const Words words = trained(files, model, files.temp.file("saved"));
  check_model_refused(words, {"--batch", "8", "20"});
  check_model_refused({"graph", "--model", model, "--compiled", "--batch", "4"},
                      {"--batch", "8", "4"});
  const std::string open = files.model(linear_model(kBias, {-1, 1, 28, 28}), "open.onnx");
  for (const auto& [pattern, what] :
       std::vector<std::pair<std::string, std::string>>{{"*", "all"}, {"tail*", "none"}}) {
    Words frozen = trained(files, open, files.temp.file("saved"));
    frozen.insert(frozen.end(), {"--freeze", pattern});
    check_model_refused(frozen, {"--freeze", "head.w, head.b", "one of " + what});
  }
  std::vector<float> broken = kBias;
  broken[1] = std::nanf("");
  const std::string nan = files.model(linear_model(broken, {-1, 1, 28, 28}), "nan.onnx");
  check_model_refused(trained(files, nan, files.temp.file("saved")),
                      {"nan.onnx", "head.b", "--allow-non-finite"});
  check_model_refused(
      {"train", "--model", open, "--data", files.images, "--steps", "1", "--save", open},
      {"--save", "--model"});
  CHECK_FALSE(std::filesystem::exists(files.temp.file("saved")));
}

TEST_CASE("model files: f16 in branches alone is noted in what is saved") {
  const ModelFiles files;
  const OnnxGraph rounds{.nodes = {onnx_node("Cast", {"sums"}, {"half"}, {onnx_int("to", 10)}),
                                   onnx_node("Cast", {"half"}, {"then"}, {onnx_int("to", 1)})},
                         .outputs = {onnx_value("then", 1, {-1, 10})}};
  const OnnxGraph leaves{.nodes = {onnx_node("Identity", {"sums"}, {"else"})},
                         .outputs = {onnx_value("else", 1, {-1, 10})}};
  const std::string rounded = onnx_model(
      {.nodes = {onnx_node("Flatten", {"x"}, {"flat"}),
                 onnx_node("MatMul", {"flat", "w"}, {"product"}),
                 onnx_node("Add", {"product", "b"}, {"sums"}),
                 onnx_node("ReduceMax", {"sums"}, {"most"}, {onnx_int("keepdims", 0)}),
                 onnx_node("Greater", {"most", "zero"}, {"large"}),
                 onnx_node("If", {"large"}, {"scores"},
                           {onnx_graph("then_branch", rounds), onnx_graph("else_branch", leaves)})},
       .initializers = {onnx_floats("w", {kPixels, 10}, std::vector<float>(kPixels * 10, 0.0f)),
                        onnx_floats("b", {10}, kBias), onnx_floats("zero", {}, {0})},
       .inputs = {onnx_value("x", 1, {-1, kPixels})},
       .outputs = {onnx_value("scores", 1, {-1, 10})}});
  const auto saved = [&](const std::string& model) {
    const std::string states = files.temp.file("states"), report = files.temp.file("report");
    done(with(trained(files, files.model(model), states), {"--backend", "npu"}));
    done({"inspect", states, "--json", report});
    return read_json(report).at("metadata");
  };
  CHECK(saved(rounded).value("f16_overflow", "") == "inf_nan");
  CHECK_FALSE(saved(linear_model(kBias, {-1, kPixels})).contains("f16_overflow"));
}

TEST_CASE("model files: a fixed batch is trained and measured in as many images as it takes") {
  const ModelFiles files;
  const std::string model = files.model(linear_model(kBias, {8, 1, 28, 28}));
  const ToolResult result = run_tool({"train", "--quiet", "--model", model, "--data", files.images,
                                      "--steps", "3", "--summary", files.temp.file("summary")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(read_json(files.temp.file("summary")).at("batch") == 8);
  const ToolResult one =
      run_tool({"predict", "--model", model, "--index", "1", "--data", files.images});
  REQUIRE_MESSAGE(one.exit_code == 0, one.err);
  CHECK(contains(one.out, "    3  0."));
}

TEST_SUITE_END();

}  // namespace keel_test
