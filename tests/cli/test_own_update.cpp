// `keel train` of imported TensorFlow training graphs, which bring their own update.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <keel/keel.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"
#include "support/graph_def_text.h"
#include "support/sanitizer.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

constexpr int64_t kClasses = 10, kImages = 8;
constexpr double kRate = 0.25;

// The weights that a training begins with, the same here and in the graph.
double first_weight(int64_t i) { return static_cast<float>(static_cast<int>(i % 7) - 3) / 128; }

std::string scalar_text(const std::string& name, double value) {
  return const_text(name, keel::Tensor::scalar<float>(static_cast<float>(value)));
}
std::string slot_text(const std::string& name, const keel::Shape& shape, double value) {
  return variable_text(name, keel::Tensor::full(keel::f32, shape, value));
}

enum class UpdateRule { kDescent, kMomentum, kAdam, kAssign };

// The update of a variable by the gradient of its name, as TensorFlow's optimizers write it.
std::string apply_text(UpdateRule rule, const std::string& w, const keel::Shape& shape) {
  const std::string g = w + "/gradient";
  switch (rule) {
    case UpdateRule::kDescent:
      return node_text(w + "/apply", "ApplyGradientDescent", {w, "rate", g});
    case UpdateRule::kMomentum:
      return slot_text(w + "/Momentum", shape, 0) +
             node_text(w + "/apply", "ApplyMomentum", {w, w + "/Momentum", "rate", g, "share"});
    case UpdateRule::kAdam:
      return slot_text(w + "/Adam", shape, 0) + slot_text(w + "/Adam_1", shape, 0) +
             node_text(w + "/apply", "ApplyAdam",
                       {w, w + "/Adam", w + "/Adam_1", "p1/read", "p2/read", "rate", "b1", "b2",
                        "epsilon", g});
    case UpdateRule::kAssign:
      return node_text(w + "/step", "Mul", {"rate", g}) +
             node_text(w + "/next", "Sub", {w + "/read", w + "/step"}) +
             node_text(w + "/apply", "Assign", {w, w + "/next"});
  }
  return "";
}

// Softmax regression with its mean cross entropy, the gradient written out and an update. The
// labels come first and have the name that one would give the images.
std::string training_graph(UpdateRule rule, bool one_hot = true, const std::string& more = "") {
  keel::Tensor weights(keel::f32, {kPixels, kClasses});
  for (int64_t i = 0; i < weights.num_elements(); ++i) weights.set(i, first_weight(i));
  std::string text =
      (one_hot ? placeholder_text("image", keel::f32, {-1, kClasses})
               : placeholder_text("image", keel::i64, {-1})) +
      placeholder_text("target", keel::f32, {-1, kPixels}) + variable_text("w", weights) +
      variable_text("b", keel::Tensor::full(keel::f32, {kClasses}, 0.0)) +
      scalar_text("rate", kRate) + scalar_text("share", 0.9) +
      node_text("product", "MatMul", {"target", "w/read"}) +
      node_text("logits", "BiasAdd", {"product", "b/read"}) +
      node_text("probabilities", "Softmax", {"logits"}) +
      node_text("losses",
                one_hot ? "SoftmaxCrossEntropyWithLogits" : "SparseSoftmaxCrossEntropyWithLogits",
                {"logits", "image"}) +
      const_text("axis", keel::Tensor::of<int32_t>({1}, {0})) +
      node_text("loss", "Mean", {"losses", "axis"}) + scalar_text("share_of_one", 1.0 / kImages) +
      node_text("by_logits", "Mul", {"losses:1", "share_of_one"}) +
      node_text("w/gradient", "MatMul", {"target", "by_logits"}, {{"transpose_a", "b: true"}}) +
      node_text("b/gradient", "Sum", {"by_logits", "axis"});
  if (rule == UpdateRule::kAdam) {
    text += slot_text("p1", {}, 0.9) + slot_text("p2", {}, 0.999) + scalar_text("b1", 0.9) +
            scalar_text("b2", 0.999) + scalar_text("epsilon", 1e-8) +
            node_text("p1/next", "Mul", {"p1/read", "b1"}) +
            node_text("p1/set", "Assign", {"p1", "p1/next"}) +
            node_text("p2/next", "Mul", {"p2/read", "b2"}) +
            node_text("p2/set", "Assign", {"p2", "p2/next"});
  }
  text += apply_text(rule, "w", {kPixels, kClasses}) + apply_text(rule, "b", {kClasses});
  std::vector<std::string> runs = {"^w/apply", "^b/apply"};
  if (rule == UpdateRule::kAdam) runs.insert(runs.end(), {"^p1/set", "^p2/set"});
  return text + more + node_text("train", "NoOp", runs);
}

// Computes `steps` steps on all images in doubles: every state of the graph by its name.
using States = std::map<std::string, std::vector<double>>;

States trained_by_hand(UpdateRule rule, const DataSet& data, int steps) {
  States s;
  s["w"].resize(kPixels * kClasses);
  for (size_t i = 0; i < s["w"].size(); ++i) s["w"][i] = first_weight(static_cast<int64_t>(i));
  s["b"].resize(kClasses);
  if (rule == UpdateRule::kAdam) s["p1"] = {0.9}, s["p2"] = {0.999};
  const auto pixel = [&](int64_t image, int64_t i) {
    return static_cast<uint8_t>(data.train_pixels[static_cast<size_t>(image * kPixels + i)]) /
           255.0;
  };
  for (int step = 0; step < steps; ++step) {
    std::map<std::string, std::vector<double>> gradient;
    gradient["w"].resize(s["w"].size());
    gradient["b"].resize(kClasses);
    for (int64_t image = 0; image < kImages; ++image) {
      std::vector<double> odds(kClasses);
      double total = 0;
      for (int64_t k = 0; k < kClasses; ++k) {
        double logit = s["b"][static_cast<size_t>(k)];
        for (int64_t i = 0; i < kPixels; ++i)
          logit += pixel(image, i) * s["w"][static_cast<size_t>(i * kClasses + k)];
        total += odds[static_cast<size_t>(k)] = std::exp(logit);
      }
      for (int64_t k = 0; k < kClasses; ++k) {
        const double is_class = data.train_classes[static_cast<size_t>(image)] == k ? 1 : 0;
        const double by_logit = (odds[static_cast<size_t>(k)] / total - is_class) / kImages;
        gradient["b"][static_cast<size_t>(k)] += by_logit;
        for (int64_t i = 0; i < kPixels; ++i)
          gradient["w"][static_cast<size_t>(i * kClasses + k)] += by_logit * pixel(image, i);
      }
    }
    for (const std::string name : {"w", "b"}) {
      std::vector<double>&w = s[name], &g = gradient[name];
      for (const char* slot : {"/Momentum", "/Adam", "/Adam_1"}) s[name + slot].resize(w.size());
      std::vector<double>&sum = s[name + "/Momentum"], &m = s[name + "/Adam"],
      &v = s[name + "/Adam_1"];
      for (size_t i = 0; i < w.size(); ++i) {
        double change = g[i];
        if (rule == UpdateRule::kMomentum) change = sum[i] = 0.9 * sum[i] + g[i];
        if (rule == UpdateRule::kAdam) {
          m[i] = 0.9 * m[i] + 0.1 * g[i];
          v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
          change = std::sqrt(1 - s["p2"][0]) / (1 - s["p1"][0]) * m[i] / (std::sqrt(v[i]) + 1e-8);
        }
        w[i] -= kRate * change;
      }
    }
    if (rule == UpdateRule::kAdam) s["p1"][0] *= 0.9, s["p2"][0] *= 0.999;
  }
  return s;
}

const std::map<UpdateRule, std::vector<std::string>> kStates = {
    {UpdateRule::kDescent, {"w", "b"}},
    {UpdateRule::kAssign, {"w", "b"}},
    {UpdateRule::kMomentum, {"w", "b", "w/Momentum", "b/Momentum"}},
    {UpdateRule::kAdam, {"w", "b", "w/Adam", "w/Adam_1", "b/Adam", "b/Adam_1", "p1", "p2"}}};

// A folder with a training graph, imported as g.keel, and images to train on.
struct Job {
  explicit Job(const std::string& graph, const std::string& outputs = "loss,logits,train") {
    set.write_to(folder);
    folder.write("g.pbtxt", graph);
    done({"import", folder.file("g.pbtxt"), "--outputs", outputs, "--out", model()});
  }
  std::string model() const { return folder.file("g.keel"); }
  std::string file(const std::string& name) const { return folder.file(name); }
  Words train(const Words& more) const {
    Words words{"train",     "--model",       model(),  "--data",     folder.path(),
                "--summary", file("summary"), "--save", file("saved")};
    if (std::find(more.begin(), more.end(), "--batch") == more.end())
      words.insert(words.end(), {"--batch", std::to_string(kImages)});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  json trained(const Words& more) const {
    done(train(more));
    return read_json(file("summary"));
  }

  const DataSet set{kImages, 4};
  const TempFolder folder;
};

// The state "mean" is that over all images of the logits of the first weights.
void check_mean_of_logits(const Job& job, const keel::Safetensors& saved) {
  for (int64_t k = 0; k < kClasses; ++k) {
    double mean = 0;
    for (int64_t image = 0; image < kImages; ++image)
      for (int64_t i = 0; i < kPixels; ++i)
        mean +=
            static_cast<uint8_t>(job.set.train_pixels[static_cast<size_t>(image * kPixels + i)]) /
            255.0 * first_weight(i * kClasses + k) / kImages;
    CHECK(saved.tensors.at("mean").at(k) == doctest::Approx(mean).epsilon(1e-4));
  }
}

}  // namespace

TEST_CASE("a training graph is trained by its own update as plain arithmetic has it") {
  for (const auto& entry : kStates) {
    const UpdateRule rule = entry.first;
    const auto& names = entry.second;
    CAPTURE(static_cast<int>(rule));
    const Job job(training_graph(rule, /*one_hot=*/rule != UpdateRule::kMomentum));
    const States expected = trained_by_hand(rule, job.set, 3);
    for (const char* backend : {"ref", "cpu", "npu"}) {
      CAPTURE(backend);
      std::string bits;
      for (const char* loop_size : {"1", "7"}) {
        const json summary =
            job.trained({"--backend", backend, "--steps", "3", "--loop-size", loop_size});
        CHECK(summary.at("own_update") == true);
        CHECK(summary.at("optimizer") == "own");
        CHECK_FALSE(summary.contains("lr"));
        if (bits.empty()) bits = summary.at("state_sha256");
        CHECK(summary.at("state_sha256") == bits);
      }
      const keel::Safetensors saved = keel::read_safetensors(job.file("saved"));
      for (const std::string& name : names) {
        CAPTURE(name);
        const keel::Tensor& tensor = saved.tensors.at(name);
        const std::vector<double>& wanted = expected.at(name);
        REQUIRE(tensor.num_elements() == static_cast<int64_t>(wanted.size()));
        double worst = 0;
        for (size_t i = 0; i < wanted.size(); ++i)
          worst = std::max(worst, std::fabs(tensor.at(static_cast<int64_t>(i)) - wanted[i]));
        // Adam divides by the root of what may be nearly nothing.
        CHECK(worst < (rule == UpdateRule::kAdam ? 1e-3 : 2e-6));
      }
    }
  }
}

TEST_CASE("a training graph's own update is sunk: loop sizes and the data sink change no bit") {
  const Job job(training_graph(UpdateRule::kAdam));
  const auto bits = [&](const Words& more) {
    Words words{"--batch", "2", "--steps", "15"};
    words.insert(words.end(), more.begin(), more.end());
    return job.trained(words).at("state_sha256").get<std::string>();
  };
  const std::string expected = bits({"--loop-size", "1"});
  for (const char* size : {"7", "100", "auto"}) CHECK(bits({"--loop-size", size}) == expected);
  CHECK(bits({"--data-sink", "off"}) == expected);
  const json sunk = job.trained({"--batch", "1", "--steps", "8", "--loop-size", "4"});
  CHECK(sunk.at("launches") == 2);
  CHECK(sunk.at("loop_kind") == "device");
}

TEST_CASE("keel train says which update trains a training graph") {
  const Job job(training_graph(UpdateRule::kMomentum));
  CHECK(contains(done(job.train({"--steps", "2"})).out,
                 "update: the graph's own, of 4 states (--optimizer NAME puts one of ours"));
  // In the place of it: plain descent at the same rate is what the graph of that rule does.
  CHECK(contains(done(job.train({"--steps", "3", "--optimizer", "sgd", "--lr", "0.25"})).out,
                 "update: sgd, in the place of the graph's own, which is dropped"));
  const json summary = read_json(job.file("summary"));
  CHECK(summary.at("own_update") == false);
  CHECK(summary.at("optimizer") == "sgd");
  CHECK(summary.at("lr") == 0.25);
  const keel::Safetensors saved = keel::read_safetensors(job.file("saved"));
  CHECK(saved.tensors.count("w/Momentum") == 0);
  const States expected = trained_by_hand(UpdateRule::kDescent, job.set, 3);
  for (int64_t i = 0; i < kPixels * kClasses; ++i)
    REQUIRE(saved.tensors.at("w").at(i) ==
            doctest::Approx(expected.at("w")[static_cast<size_t>(i)]).epsilon(1e-4));
  const std::string shown = done({"graph", "--model", job.model()}).out;
  CHECK(contains(shown, "w/Momentum"));
  CHECK_FALSE(
      contains(done({"graph", "--model", job.model(), "--optimizer", "sgd"}).out, "w/Momentum"));
}

TEST_CASE("flags of an update of ours do not go with a graph's own") {
  const Job job(training_graph(UpdateRule::kDescent));
  const ToolResult several =
      run_tool(job.train({"--lr", "0.1", "--schedule", "cosine", "--clip-norm", "1"}));
  CHECK(several.exit_code == 2);
  CHECK(contains(several.err, "--lr, --schedule, --clip-norm: goes with an optimizer of ours"));
  CHECK(contains(several.err, "add --optimizer NAME"));
  CHECK_FALSE(std::filesystem::exists(job.file("summary")));
  for (const Words& flag : std::vector<Words>{{"--lr", "0.1"},
                                              {"--schedule", "linear"},
                                              {"--warmup", "2"},
                                              {"--schedule-steps", "5"},
                                              {"--accumulate", "2"},
                                              {"--clip-norm", "1"},
                                              {"--clip-value", "1"},
                                              {"--loss-scale", "128"},
                                              {"--freeze", "b"},
                                              {"--average", "0.9"}}) {
    CAPTURE(flag[0]);
    const ToolResult refused = run_tool(job.train(flag));
    CHECK(refused.exit_code == 2);
    CHECK(contains(refused.err, "keel: error: " + flag[0] + ": "));
  }
  done(job.train({"--steps", "2", "--optimizer", "momentum", "--lr", "0.1", "--clip-norm", "1"}));
}

TEST_CASE("a graph's own update in mixed precision scales no loss") {
  const Job job(training_graph(UpdateRule::kMomentum));
  const ToolResult refused = run_tool(job.train({"--precision", "mixed_fp16", "--steps", "2"}));
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "gradients are those of the loss as it is"));
  CHECK(contains(refused.err, "--loss-scale none"));
  for (const Words& more : std::vector<Words>{{"--precision", "mixed_fp16", "--loss-scale", "none"},
                                              {"--precision", "mixed_bf16"}}) {
    Words words{"--steps", "4"};
    words.insert(words.end(), more.begin(), more.end());
    const json whole = job.trained(words);
    CHECK_FALSE(whole.contains("loss_scale"));
    done(job.train({"--steps", "2", more[0], more[1], "--loss-scale", "none"}));
    done(
        {"train", "--resume", job.file("saved"), "--steps", "4", "--summary", job.file("resumed")});
    CHECK(read_json(job.file("resumed")).at("state_sha256") == whole.at("state_sha256"));
  }
}

TEST_CASE("a training by a graph's own update is saved and resumed and measured and frozen") {
  const Job job(training_graph(UpdateRule::kAdam));
  const json whole = job.trained({"--steps", "9", "--batch", "4", "--loop-size", "4"});
  CHECK(whole.at("history").size() >= 4);  // of each epoch
  const json part = job.trained({"--steps", "5", "--batch", "4"});
  CHECK(part.at("state_sha256") != whole.at("state_sha256"));
  const Words resume{"train",  "--resume",       job.file("saved"), "--steps",          "9",
                     "--save", job.file("rest"), "--summary",       job.file("resumed")};
  const ToolResult resumed = done(resume);
  CHECK(contains(resumed.out, "update: the graph's own, of 8 states"));
  CHECK(read_json(job.file("resumed")).at("state_sha256") == whole.at("state_sha256"));
  CHECK(read_json(job.file("resumed")).at("own_update") == true);
  // The file decides.
  Words other = resume;
  other.insert(other.end(), {"--optimizer", "sgd"});
  const ToolResult refused = run_tool(other);
  CHECK(refused.exit_code == 1);
  CHECK(contains(refused.err, "--optimizer: expected own, as "));
  other = resume;
  other.insert(other.end(), {"--lr", "0.1"});
  CHECK(run_tool(other).exit_code == 2);

  done({"eval", "--load", job.file("rest"), "--json", job.file("eval")});
  const json measured = read_json(job.file("eval"));
  CHECK(measured.at("accuracy") == read_json(job.file("resumed")).at("test_accuracy"));
  CHECK(measured.at("loss").get<double>() ==
        doctest::Approx(read_json(job.file("resumed")).at("test_loss").get<double>()));
  for (const char* name : {"frozen.keel", "frozen.onnx"}) {
    CAPTURE(name);
    const ToolResult frozen = done({"freeze", "--load", job.file("rest"), "--out", job.file(name)});
    CHECK(contains(frozen.out, "input image u8[?, 784]"));
    CHECK_FALSE(contains(frozen.out, "input label"));
    CHECK(contains(frozen.out, "2 weights as constants"));
    done({"eval", "--model", job.file(name), "--data", job.folder.path(), "--json",
          job.file("frozen_eval")});
    CHECK(read_json(job.file("frozen_eval")).at("confusion") == measured.at("confusion"));
  }
  // As imported, with the graph's initial values.
  done({"eval", "--model", job.model(), "--data", job.folder.path()});
  done({"freeze", "--model", job.model(), "--out", job.file("first.keel")});
}

TEST_CASE("an optimizer of ours may go on with a training graph and be resumed") {
  const Job job(training_graph(UpdateRule::kMomentum));
  const json whole = job.trained({"--steps", "6", "--optimizer", "adam"});
  done(job.train({"--steps", "3", "--optimizer", "adam"}));
  done({"train", "--resume", job.file("saved"), "--steps", "6", "--summary", job.file("resumed")});
  CHECK(read_json(job.file("resumed")).at("state_sha256") == whole.at("state_sha256"));
  CHECK(read_json(job.file("resumed")).at("optimizer") == "adam");
}

TEST_CASE("a graph's own update stops in front of numbers that are none") {
  const std::string graph = training_graph(UpdateRule::kDescent);
  const size_t at = graph.find("float_val: 0.25");
  REQUIRE(at != std::string::npos);
  const Job job(std::string(graph).replace(at, 15, "float_val: 3e38"));
  const ToolResult failed = run_tool(job.train({"--steps", "20", "--fail-on-nan"}));
  CHECK(failed.exit_code == 1);
  CHECK(contains(failed.err, "--fail-on-nan"));
  CHECK(contains(failed.err, "--optimizer NAME --lr RATE"));
  CHECK_FALSE(contains(failed.err, "take a smaller --lr"));
  CHECK_FALSE(read_json(job.file("summary")).contains("non_finite_state"));
}

TEST_CASE("scores are found behind a softmax and under the loss") {
  const std::string graph = training_graph(UpdateRule::kDescent);
  const Job both(graph, "loss,logits,probabilities,train"), none(graph, "train,loss");
  const Job probabilities(graph, "probabilities,loss,w/apply,b/apply");
  const Words words{"--steps", "3"};
  const std::string bits = both.trained(words).at("state_sha256");
  CHECK(none.trained(words).at("state_sha256") == bits);
  CHECK(probabilities.trained(words).at("state_sha256") == bits);
}

TEST_CASE("a training graph for one size of the batch is trained and measured in that size") {
  const Job job(training_graph(UpdateRule::kMomentum));
  const std::string bits = job.trained({"--steps", "3"}).at("state_sha256");
  done({"import", job.file("g.pbtxt"), "--outputs", "loss,logits,train", "--inputs",
        "target:[8,784],image:[8,10]", "--out", job.model()});
  Words words = job.train({"--steps", "3"});
  words.erase(std::find(words.begin(), words.end(), "--batch"), words.end());
  words.insert(words.end(), {"--steps", "3"});
  done(words);
  const json summary = read_json(job.file("summary"));
  CHECK(summary.at("batch") == kImages);
  CHECK(summary.at("state_sha256") == bits);
  done({"eval", "--load", job.file("saved"), "--json", job.file("eval")});
  CHECK(read_json(job.file("eval")).at("accuracy") == summary.at("test_accuracy"));
  const ToolResult other = run_tool(job.train({"--batch", "4"}));
  CHECK(other.exit_code == 2);
  CHECK(contains(other.err, "--batch: expected 8"));
}

TEST_CASE("inputs of a training graph that cannot be told apart are listed") {
  // The loss counts in what nobody gives.
  const std::string graph =
      training_graph(UpdateRule::kDescent, true,
                     placeholder_text("importance", keel::f32, {}) +
                         node_text("weighted", "Mul", {"loss", "importance"}));
  const Job job(graph, "weighted,logits,train");
  const ToolResult refused = run_tool(job.train({"--steps", "2"}));
  CHECK(refused.exit_code == 1);
  CHECK(contains(refused.err,
                 "inputs: expected one with the images and, for the loss, one with "
                 "the labels: class ids [batch], or [batch, 10]"));
  CHECK(contains(refused.err, "target f32[?, 784], image f32[?, 10], importance f32[]"));
  CHECK(contains(refused.err, "keel import MODEL --bind NAME=FILE.npy"));
  // It answers all the same, and trains by what does not need it.
  done({"eval", "--model", job.model(), "--data", job.folder.path()});
  done(job.train({"--steps", "2", "--optimizer", "sgd"}));

  const Job lossless(training_graph(UpdateRule::kDescent), "logits,train");
  const ToolResult no_loss = run_tool(lossless.train({"--steps", "2"}));
  CHECK(no_loss.exit_code == 1);
  CHECK(contains(no_loss.err,
                 "outputs: expected one that is a single float, the loss of this "
                 "training graph"));
  CHECK(contains(no_loss.err, "--outputs LOSS,SCORES,TRAIN"));

  const TempFolder temp;
  const std::string direct = temp.write("g.pbtxt", training_graph(UpdateRule::kDescent));
  const ToolResult whole = run_tool({"train", "--model", direct, "--data", job.folder.path()});
  CHECK(whole.exit_code == 2);
  CHECK(contains(whole.err, "keel import " + direct + " --outputs NAME,... --out model.keel"));
}

TEST_CASE("moving statistics that the scores read go on under an optimizer of ours") {
  // Scores of evaluation read a mean of the logits that training moves.
  const Job job(training_graph(UpdateRule::kDescent, true,
                               slot_text("mean", {kClasses}, 1) +
                                   node_text("now", "Mean", {"logits", "axis"}) +
                                   node_text("difference", "Sub", {"now", "mean/read"}) +
                                   node_text("moved", "AssignAdd", {"mean", "difference"}) +
                                   node_text("answers", "Sub", {"logits", "mean/read"}) +
                                   node_text("all", "NoOp", {"^w/apply", "^b/apply", "^moved"})),
                "loss,answers,all");
  for (const Words& more : std::vector<Words>{{}, {"--optimizer", "sgd", "--lr", "0.25"}}) {
    Words words{"--steps", "1"};
    words.insert(words.end(), more.begin(), more.end());
    job.trained(words);
    const keel::Safetensors saved = keel::read_safetensors(job.file("saved"));
    check_mean_of_logits(job, saved);
  }
}

TEST_CASE("moving statistics that nothing reads go on under an optimizer of ours") {
  // As of a batch norm in training: the mean moves, and neither scores nor loss read it.
  const Job job(training_graph(UpdateRule::kMomentum, true,
                               slot_text("mean", {kClasses}, 1) +
                                   node_text("now", "Mean", {"logits", "axis"}) +
                                   node_text("difference", "Sub", {"now", "mean/read"}) +
                                   node_text("moved", "AssignAdd", {"mean", "difference"}) +
                                   node_text("all", "NoOp", {"^w/apply", "^b/apply", "^moved"})),
                "loss,logits,all");
  job.trained({"--steps", "1", "--optimizer", "sgd", "--lr", "0.25"});
  const keel::Safetensors saved = keel::read_safetensors(job.file("saved"));
  REQUIRE(saved.tensors.count("mean") == 1);
  CHECK(saved.tensors.count("w/Momentum") == 0);
  check_mean_of_logits(job, saved);
}

TEST_CASE("what a moving statistic reads goes on with it under an optimizer of ours") {
  // A sum of the powers of adam's first share: 0.9 + 0.81 + 0.729 in three steps.
  const Job job(training_graph(UpdateRule::kAdam, true,
                               slot_text("total", {}, 0) +
                                   node_text("added", "AssignAdd", {"total", "p1/read"}) +
                                   node_text("all", "NoOp", {"^train", "^added"})),
                "loss,logits,all");
  job.trained({"--steps", "3", "--optimizer", "sgd", "--lr", "0.25"});
  const keel::Safetensors saved = keel::read_safetensors(job.file("saved"));
  REQUIRE(saved.tensors.count("total") == 1);
  REQUIRE(saved.tensors.count("p1") == 1);
  CHECK(saved.tensors.at("total").at(0) == doctest::Approx(0.9 + 0.81 + 0.729));
  CHECK(saved.tensors.at("p1").at(0) == doctest::Approx(0.9 * 0.9 * 0.9 * 0.9));
  CHECK(saved.tensors.count("p2") == 0);
}

TEST_CASE("an accuracy is no loss") {
  const std::string graph =
      training_graph(UpdateRule::kDescent, true,
                     const_text("last", keel::Tensor::scalar<int32_t>(1)) +
                         node_text("guess", "ArgMax", {"logits", "last"}) +
                         node_text("truth", "ArgMax", {"image", "last"}) +
                         node_text("right", "Equal", {"guess", "truth"}) +
                         node_text("counted", "Cast", {"right"}, {{"DstT", "type: DT_FLOAT"}}) +
                         node_text("accuracy", "Mean", {"counted", "axis"}));
  const Job job(graph, "accuracy,logits,train");
  for (const Words& more : std::vector<Words>{{}, {"--optimizer", "sgd"}}) {
    Words words{"--steps", "2"};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult refused = run_tool(job.train(words));
    CHECK(refused.exit_code == 1);
    CHECK(contains(refused.err, "accuracy f32[], through which no gradient reaches a trained"));
    CHECK(contains(refused.err, "--outputs LOSS,SCORES,TRAIN"));
  }
  done({"eval", "--model", job.model(), "--data", job.folder.path()});
  // Beside the loss it is another output.
  const Job both(graph, "accuracy,loss,logits,train");
  done(both.train({"--steps", "2", "--optimizer", "sgd"}));
}

TEST_CASE("the update that keel import made of an optimizer is a graph's own") {
  const TempFolder temp;
  const DataFolder data(kImages, 4);
  const std::string graph = temp.write("g.pbtxt", training_graph(UpdateRule::kDescent));
  done({"import", graph, "--outputs", "loss,logits", "--optimizer", "adam", "--lr", "0.01", "--out",
        temp.file("g.keel")});
  const auto bits = [&](const Words& more) {
    Words words{
        "train", "--model",   temp.file("g.keel"), "--data", data.path(), "--batch", "4", "--steps",
        "5",     "--summary", temp.file("summary")};
    words.insert(words.end(), more.begin(), more.end());
    done(words);
    return read_json(temp.file("summary")).at("state_sha256").get<std::string>();
  };
  const std::string own = bits({});
  CHECK(read_json(temp.file("summary")).at("own_update") == true);
  CHECK(bits({"--loop-size", "2"}) == own);
  // The same optimizer, made by the training.
  CHECK(bits({"--optimizer", "adam", "--lr", "0.01"}) == own);
}

TEST_CASE("a training graph learns real MNIST by its own update") {
  const char* mnist = std::getenv("KEEL_MNIST_DIR");
  if (mnist == nullptr || keel_test::kSanitized) {
    MESSAGE("keel test skipped: KEEL_MNIST_DIR is not set, or sanitized");
    return;
  }
  const Job job(training_graph(UpdateRule::kDescent));
  const json summary = [&] {
    Words words = job.train({"--steps", "1000", "--backend", "cpu"});
    words[4] = mnist;
    done(words);
    return read_json(job.file("summary"));
  }();
  CHECK(summary.at("test_accuracy").get<double>() > 0.85);
}

TEST_SUITE_END();
