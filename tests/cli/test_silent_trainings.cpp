// Flags of `keel train` that left something unsaid or said it wrongly: the end of a schedule in the
// middle, a flag that nothing goes by, whose weights are left, and the same loss scale in other
// words; and averages in a file that no step was averaged into.
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <keel/keel.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

ToolResult train_on_small_data(const Words& more) {
  Words words = {"train", "--data", small_data().path(), "--batch", "20"};
  words.insert(words.end(), more.begin(), more.end());
  return run_tool(words);
}

// A program that trains softmax by an update that averages w, by one that averages b, and by one
// that averages neither. Each sets what it is given: of w the weight of the first pixel for class
// 9, of b the bias of class 1.
struct Phases {
  void run(const keel::Update& update, float weight, float bias) {
    keel::Tensor weights(keel::f32, {784, 10}), biases(keel::f32, {10});
    weights.data<float>()[9] = weight;
    biases.data<float>()[1] = bias;
    session.run(update, keel::Values{}, {{to_w, weights}, {to_b, biases}});
  }

  keel::Graph graph;
  keel::Value w = graph.state("w", keel::zeros({784, 10})), b = graph.state("b", keel::zeros({10}));
  keel::Value to_w = graph.input("to_w", keel::f32, {784, 10});
  keel::Value to_b = graph.input("to_b", keel::f32, {10});
  keel::Update both{{{w, to_w}, {b, to_b}}};
  keel::Update averages_w = keel::average_weights({{{w, to_w}}}, 0.9);
  keel::Update averages_b = keel::average_weights({{{b, to_b}}}, 0.9);
  keel::Session session{graph, keel::device("cpu")};
};

}  // namespace

TEST_CASE("an average that no step was averaged into does not count") {
  // Two black images, of class 1 by a bias above 0, and two with a white first pixel, of class 9 by
  // a larger weight. Averages of two numbers are 0.1 of the first and 0.9 of the second.
  const TempFolder files;
  std::string pixels(size_t{4} * 784, '\0');
  pixels[size_t{2} * 784] = pixels[size_t{3} * 784] = static_cast<char>(255);
  for (const std::string& images : {kTrainImages, kTestImages})
    files.write(images, idx_bytes({4, 28, 28}, pixels));
  for (const std::string& labels : {kTrainLabels, kTestLabels})
    files.write(labels, idx_bytes({4}, "\x01\x01\x09\x09"));
  const auto check = [&](Phases& phases, const char* weights, int averages, double right = 1) {
    CAPTURE(weights);
    const std::string file = files.file("states"), summary = files.file("j");
    phases.session.save(file);
    const Words of = {"--model", "softmax", "--data", files.path(), "--json", summary};
    Words eval = {"eval", "--load", file};
    eval.insert(eval.end(), of.begin(), of.end());
    const ToolResult result = run_tool(eval);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(read_json(summary).at("accuracy") == right);
    CHECK(read_json(summary).at("weights") == weights);
    const ToolResult init = run_tool({"train", "--model", "softmax", "--data", files.path(),
                                      "--batch", "2", "--steps", "1", "--init", file});
    CHECK(init.exit_code == 0);
    const std::string said = "; " + std::to_string(averages) + " taken as averages";
    CHECK_MESSAGE(contains(init.out, averages == 0 ? "2 states match" : said), init.out);
    CHECK(contains(init.out, "taken as averages") == (averages > 0));
  };
  Phases neither;
  check(neither, "last", 0, /*right=*/0);
  neither.run(neither.both, 5, 1);
  check(neither, "last", 0);
  // w is averaged in each step, so that the file has no count of its own: 1.1, and -1 at last.
  Phases first;
  first.run(first.averages_w, 20, 0);
  first.run(first.averages_w, -1, 0);
  check(first, "averaged", 1, /*right=*/0.5);
  first.run(first.both, -1, 1);
  check(first, "averaged", 1);
  Phases second;
  second.run(second.both, 5, 0);
  second.run(second.averages_b, 0, 20);
  second.run(second.averages_b, 0, -1);
  check(second, "averaged", 1);
}

TEST_CASE("a schedule that ends before its training is told of") {
  const TempFolder files;
  const ToolResult first =
      train_on_small_data({"--schedule", "linear", "--schedule-steps", "4", "--steps", "10"});
  CHECK(first.exit_code == 0);
  CHECK_MESSAGE(contains(first.err, "warning: the schedule ends at step 4 of 10"), first.err);
  const std::string runs = files.file("runs");
  REQUIRE(train_on_small_data(
              {"--schedule", "cosine", "--steps", "6", "--checkpoint", runs, "--save-every", "2"})
              .exit_code == 0);
  // As if killed before step 6.
  std::filesystem::remove(std::filesystem::path(runs) / "step-0000000006.safetensors");
  const ToolResult resumed = train_on_small_data({"--resume", runs, "--steps", "12"});
  CHECK(resumed.exit_code == 0);
  CHECK_MESSAGE(contains(resumed.err, ".safetensors ends at step 6 of 12"), resumed.err);
  // A schedule counts updates: 9 steps are 3 updates of 4 batches, the last of which is at step 12.
  const Words of_updates = {"--schedule", "linear", "--schedule-steps", "9", "--accumulate", "4"};
  const auto told = [&](const char* steps) {
    Words words = {"--steps", steps};
    words.insert(words.end(), of_updates.begin(), of_updates.end());
    return train_on_small_data(words).err;
  };
  CHECK_FALSE(contains(told("12"), "the schedule ends"));
  CHECK_FALSE(contains(told("15"), "the schedule ends"));
  CHECK(contains(told("16"), "warning: the schedule ends at step 12 of 16"));
  const std::string states = files.file("states");
  REQUIRE(train_on_small_data(
              {"--schedule", "linear", "--accumulate", "4", "--steps", "10", "--save", states})
              .exit_code == 0);
  CHECK_FALSE(contains(train_on_small_data({"--resume", states, "--steps", "12"}).err, "schedule"));
  CHECK(contains(train_on_small_data({"--resume", states, "--steps", "16"}).err,
                 "ends at step 12 of 16"));
  // One that ends with its training, or that is longer, is none to tell of.
  for (const char* steps : {"10", "20"}) {
    CAPTURE(steps);
    CHECK(train_on_small_data({"--schedule", "linear", "--schedule-steps", steps, "--steps", "10"})
              .err.empty());
  }
}

TEST_CASE("a flag about what is best is refused beside a target alone") {
  const ToolResult refused =
      train_on_small_data({"--steps", "5", "--min-gain", "0.1", "--stop-at", "0.9"});
  CHECK(refused.exit_code == 2);
  CHECK_MESSAGE(contains(refused.err, "--min-gain: nothing goes by what is best"), refused.err);
  CHECK(train_on_small_data(
            {"--steps", "2", "--min-gain", "0.1", "--stop-at", "0.9", "--patience", "3"})
            .exit_code == 0);
}

TEST_CASE("pictures of weights that are frozen need no averages") {
  const ToolResult result = train_on_small_data(
      {"--model", "vae", "--steps", "2", "--freeze", "@(decoder|pixels)*", "--average", "0.9"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
}

TEST_CASE("a training that ends on a number tells whose weights are left") {
  const TempFolder files;
  const ToolResult result = run_tool(
      {"train", "--model", "mlp", "--lr", "300", "--steps", "40", "--batch", "20", "--eval-every",
       "1", "--keep-best", "--metric", "loss", "--fail-on-nan", "--summary", files.file("j")});
  CHECK(result.exit_code == 1);
  const int64_t best = read_json(files.file("j")).at("best_step");
  CHECK_MESSAGE(
      contains(result.err, "the weights are those of the best, step " + std::to_string(best) + ";"),
      result.err);
}

TEST_CASE("a loss scale of a resumed training is compared by its numbers") {
  const TempFolder files;
  const std::string states = files.file("states");
  struct Case {
    std::string saved;
    Words same, others;
  };
  const std::vector<Case> cases = {
      {"1024", {"1024.0", "1.024e3"}, {"1024.5", "none", "exponential,1024"}},
      {"exponential",
       {"exponential,65536", "exponential,65536.0,1000,2,2,0.8"},
       {"65536", "exponential,32768", "exponential,65536,1000,2,2,0.7"}},
      {"exponential,1024,50,2,2", {"exponential,1024.0,50"}, {"exponential,1024,51"}}};
  for (const Case& c : cases) {
    CAPTURE(c.saved);
    REQUIRE(train_on_small_data({"--steps", "2", "--loss-scale", c.saved, "--save", states})
                .exit_code == 0);
    for (const std::string& same : c.same) {
      const ToolResult rest =
          train_on_small_data({"--resume", states, "--steps", "3", "--loss-scale", same});
      CHECK_MESSAGE(rest.exit_code == 0, same << ": " << rest.err);
    }
    for (const std::string& other : c.others) {
      const ToolResult rest =
          train_on_small_data({"--resume", states, "--steps", "3", "--loss-scale", other});
      CHECK_MESSAGE(contains(rest.err, "--loss-scale: expected"), other << ": " << rest.err);
    }
  }
}

TEST_SUITE_END();
