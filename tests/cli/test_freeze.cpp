// keel freeze: one file that answers as the model with its saved weights does, on every command
// that takes a model, and what is refused.
#include <filesystem>

#include <doctest/doctest.h>
#include <keel/keel.h>

#include "cli/tool.h"
#include "cli/trained_model.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace keel_test {
namespace {

struct FrozenModel : TrainedModel {
  using TrainedModel::TrainedModel;
  std::string keel() const { return file("frozen.keel"); }
  std::string onnx() const { return file("frozen.onnx"); }
};

// Returns what `keel eval` measures, without the names of what it measured.
nlohmann::json scores(const FrozenModel& trained, Words words, const std::string& backend) {
  const std::string path = trained.file("scores.json");
  words.insert(words.begin(), "eval");
  for (const std::string& word : {std::string("--data"), trained.path(), std::string("--backend"),
                                  backend, std::string("--json"), path})
    words.push_back(word);
  done(words);
  nlohmann::json result = read_json(path);
  for (const char* key : {"model", "load", "weights", "precision"}) result.erase(key);
  return result;
}

void check_freeze_refused(const Words& words, int exit_code, const Words& parts) {
  Words all{"freeze"};
  all.insert(all.end(), words.begin(), words.end());
  const ToolResult result = run_tool(all);
  CAPTURE(join(words));
  CAPTURE(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(lines_of(result.err).size() == 1);
  for (const std::string& part : parts) CHECK(contains(result.err, part));
}

// The file with one tensor taken out, or put in another shape.
std::string changed_weights(
    const FrozenModel& trained,
    const std::function<void(std::map<std::string, keel::Tensor>&)>& change) {
  keel::Safetensors file = keel::read_safetensors(trained.weights());
  change(file.tensors);
  std::string path = trained.file("changed");
  keel::write_safetensors(path, file.tensors, file.metadata);
  return path;
}

}  // namespace

TEST_CASE("keel freeze: a frozen model evaluates with the same numbers as its weights") {
  // Dense layers; a norm with statistics; dropout; a loop that puts its states into rows.
  for (const std::string model : {"mlp", "resnet", "lenet", "lstm"}) {
    CAPTURE(model);
    const bool has_convolutions = model == "resnet" || model == "lenet";
    const FrozenModel trained(model);
    const ToolResult frozen =
        done({"freeze", "--load", trained.weights(), "--out", trained.keel()});
    CHECK(contains(frozen.out, "input image u8[?, 784]"));
    CHECK(contains(frozen.out, "output logits f32[?, 10]"));
    CHECK(contains(frozen.out, "wrote " + trained.keel() + ": " + model));
    CHECK_FALSE(std::filesystem::exists(trained.keel() + ".safetensors"));
    done({"freeze", "--load", trained.weights(), "--out", trained.onnx()});
    const std::string text = read_text(trained.keel());
    CHECK_FALSE(contains(text, "= state("));
    CHECK_FALSE(contains(text, "bernoulli"));
    for (const char* backend : {"cpu", "npu"}) {
      CAPTURE(backend);
      const nlohmann::json expected = scores(trained, {"--load", trained.weights()}, backend);
      CHECK(expected.at("images") == 20);
      CHECK(scores(trained, {"--model", trained.keel()}, backend) == expected);
      nlohmann::json onnx = scores(trained, {"--model", trained.onnx()}, backend);
      // ONNX has the channels of images first, so sums of a convolution meet in another order.
      if (has_convolutions) {
        CHECK(onnx.at("loss").get<double>() == doctest::Approx(expected.at("loss").get<double>()));
        onnx["loss"] = expected.at("loss");
      }
      CHECK(onnx == expected);
    }
  }
}

TEST_CASE("keel export: an lstm of any batch evaluates with the same numbers as its weights") {
  const FrozenModel trained("lstm");
  done({"export", "--load", trained.weights(), "--out", trained.onnx()});
  CHECK(scores(trained, {"--model", trained.onnx()}, "npu") ==
        scores(trained, {"--load", trained.weights()}, "npu"));
}

TEST_CASE("keel freeze: the frozen file is one for run graph predict and freeze") {
  const FrozenModel trained("mlp");
  done({"freeze", "--load", trained.weights(), "--out", trained.keel(), "--batch", "2"});
  const std::string image = trained.file("image.npy");
  keel::Tensor pixels(keel::u8, {2, 784});
  for (int64_t i = 0; i < pixels.num_elements(); ++i) pixels.set(i, static_cast<double>(i % 251));
  keel::write_npy(image, pixels);
  const ToolResult ran = done({"run", trained.keel(), "--input", "image=" + image, "--output-dir",
                               trained.path(), "--backend", "cpu"});
  CHECK(contains(ran.out, "logits.npy f32[2, 10]"));
  const ToolResult graph = done({"graph", "--model", trained.keel()});
  CHECK(contains(graph.out, "constant()"));
  CHECK(contains(graph.err, "nothing to train"));
  const ToolResult updated = run_tool({"graph", "--model", trained.keel(), "--optimizer", "adam"});
  CHECK(updated.exit_code == 2);
  CHECK_MESSAGE(contains(updated.err, "--optimizer: has nothing to update"), updated.err);
  CHECK(contains(done({"graph", "--model", trained.keel(), "--compiled", "--batch", "2"}).out,
                 "loop: device"));
  const ToolResult predicted =
      done({"predict", "--model", trained.keel(), "--data", trained.path(), "--index", "3"});
  CHECK(lines_of(predicted.out).size() > 3);
  // Frozen again it is the same graph, and nothing is left to train.
  const std::string again = trained.file("again.onnx");
  done({"freeze", "--model", trained.keel(), "--out", again});
  const ToolResult trains =
      run_tool({"train", "--model", trained.keel(), "--data", trained.path(), "--steps", "1"});
  CAPTURE(trains.err);
  CHECK(trains.exit_code != 0);
  CHECK(lines_of(trains.err).size() == 1);
}

TEST_CASE("keel train: a frozen model has no weights to train") {
  const FrozenModel trained("softmax");
  done({"freeze", "--load", trained.weights(), "--out", trained.keel()});
  const std::string summary = trained.file("summary.json"), save = trained.file("never");
  const ToolResult result =
      run_tool({"train", "--model", trained.keel(), "--data", trained.path(), "--batch", "20",
                "--steps", "3", "--summary", summary, "--save", save});
  CHECK(result.exit_code == 2);
  CHECK(lines_of(result.err).size() == 1);
  CHECK_MESSAGE(contains(result.err, "--model " + trained.keel() + ": has no weights to train"),
                result.err);
  CHECK(!std::filesystem::exists(summary));
  CHECK(!std::filesystem::exists(save));
}

TEST_CASE("keel freeze: weights that are missing or of another shape are all named") {
  const FrozenModel trained("mlp");
  const std::vector<std::string> names = [&] {
    std::vector<std::string> all;
    for (const auto& entry : keel::read_safetensors(trained.weights()).tensors)
      if (!entry.first.starts_with("keel/")) all.push_back(entry.first);
    return all;
  }();
  REQUIRE(names.size() == 6);
  const std::string missing = changed_weights(trained, [&](auto& tensors) {
    for (const std::string& name : names) tensors.erase(name);
  });
  Words parts;
  for (const std::string& name : names) parts.push_back("'" + name + "' is missing");
  check_freeze_refused({"--load", missing, "--out", trained.keel()}, 1, parts);
  const std::string misshapen = changed_weights(trained, [&](auto& tensors) {
    tensors[names[0]] = keel::Tensor(keel::f32, {3});
    tensors.erase(names[1]);
  });
  check_freeze_refused({"--load", misshapen, "--out", trained.onnx()}, 1,
                       {"'" + names[0] + "' is f32[3]", "'" + names[1] + "' is missing"});
  CHECK_FALSE(std::filesystem::exists(trained.keel()));
  CHECK_FALSE(std::filesystem::exists(trained.onnx()));
  // A tensor that the model does not need, such as an optimizer's state, is left aside.
  const std::string more = changed_weights(
      trained, [](auto& tensors) { tensors["adam/other"] = keel::Tensor::scalar(1.0f); });
  done({"freeze", "--load", more, "--out", trained.keel()});
  const std::string bad = changed_weights(trained, [&](auto& tensors) {
    tensors[names[0]].set(0, std::numeric_limits<double>::quiet_NaN());
  });
  check_freeze_refused({"--load", bad, "--out", trained.onnx()}, 1, {names[0], "NaN"});
}

TEST_CASE("keel freeze: what was typed wrong writes nothing") {
  const FrozenModel trained("softmax");
  const std::string load = trained.weights(), out = trained.keel();
  check_freeze_refused({"--out", out}, 2, {"--load", "is missing"});
  check_freeze_refused({"--load", load}, 2, {"--out", "is missing"});
  check_freeze_refused({"--load", load, "--out", trained.file("frozen.pb")}, 2,
                       {"--out", "FILE.keel or FILE.onnx"});
  check_freeze_refused({"--load", load, "--out", load + ".keel", "--batch", "0"}, 2, {"--batch"});
  check_freeze_refused({"--load", load, "--out", trained.file("none/frozen.keel")}, 1,
                       {"--out", "none"});
  check_freeze_refused({"--load", load, "--out", out, "--model", "mlp"}, 1, {"softmax", "mlp"});
  check_freeze_refused({"--load", trained.file("none"), "--out", out}, 1, {"none"});
  check_freeze_refused({"--model", out, "--out", out}, 1, {"frozen.keel"});
  trained.write("frozen.keel.safetensors", "weights of something else");
  check_freeze_refused({"--load", load, "--out", out}, 1, {"has weights beside it"});
  CHECK_FALSE(std::filesystem::exists(out));
}

}  // namespace keel_test

TEST_SUITE_END();
