// keel train judges itself: mean losses, validation images, early stops, the best states, --init.
#include <cmath>
#include <filesystem>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/refusals.h"
#include "cli/tool.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;
namespace fs = std::filesystem;

class JudgedTrainings {
 public:
  JudgedTrainings() { DataSet(240, 50).write_to(data_); }

  std::string file(const std::string& name) const { return files_.file(name); }
  std::string data() const { return data_.path(); }
  ToolResult run(const Words& words) const {
    Words all = {"train", "--data", data(), "--batch", "20"};
    all.insert(all.end(), words.begin(), words.end());
    return run_tool(all);
  }
  // The summary of one that must go well; metrics are in the file "metrics".
  json train(const Words& words) const {
    Words all = {"--summary", file("summary"), "--metrics", file("metrics")};
    all.insert(all.end(), words.begin(), words.end());
    const ToolResult result = run(all);
    CAPTURE(join(all));
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return read_json(file("summary"));
  }
  // Mean of the losses of the steps first .. last in the metrics file.
  double mean_loss(size_t first, size_t last) const {
    const auto rows = read_json_lines(file("metrics"));
    double sum = 0;
    for (size_t i = first; i <= last; ++i) sum += rows.at(i - 1).at("loss").get<double>();
    return sum / static_cast<double>(last - first + 1);
  }

 private:
  TempFolder data_, files_;
};

}  // namespace

TEST_CASE("judging: the loss of an epoch is the mean of its steps and the summary keeps the last") {
  const JudgedTrainings trainings;
  const json s = trainings.train({"--steps", "30", "--loop-size", "7"});  // 12 an epoch
  const auto rows = read_json_lines(trainings.file("metrics"));
  CHECK(s.at("train_loss").get<float>() == rows.back().at("loss").get<float>());
  REQUIRE(s.at("history").size() == 3);
  const size_t ends[] = {0, 12, 24, 30};
  for (size_t e = 0; e < 3; ++e) {
    const json& entry = s.at("history")[e];
    CHECK(entry.at("step") == ends[e + 1]);
    CHECK(entry.at("epoch") == e + 1);
    CHECK(entry.at("epoch_steps") == ends[e + 1] - ends[e]);
    CHECK(entry.at("epoch_loss").get<double>() ==
          doctest::Approx(trainings.mean_loss(ends[e] + 1, ends[e + 1])).epsilon(1e-6));
  }
  CHECK(s.at("epoch_loss") == s.at("history")[2].at("epoch_loss"));
  CHECK(s.at("history")[2].at("accuracy") == s.at("test_accuracy"));
  CHECK(s.at("history")[2].at("loss") == s.at("test_loss"));
  CHECK(s.at("test_top_k_accuracy") >= s.at("test_accuracy"));
  CHECK(s.at("compiles") == 2);
}

TEST_CASE("judging: the default trains as ever and validation images are not trained on") {
  const JudgedTrainings trainings;
  const json plain = trainings.train({"--steps", "12"});
  const json judged = trainings.train({"--steps", "12", "--eval-every", "5"});
  CHECK(judged.at("state_sha256") == plain.at("state_sha256"));
  CHECK(judged.at("history").size() == 3);  // 5, 10, 12
  CHECK(plain.at("judged_on") == "test");
  const json aside = trainings.train({"--epochs", "1", "--validation", "40"});
  CHECK(aside.at("steps") == 10);
  CHECK(aside.at("judged_on") == "validation");
  CHECK(aside.at("validation_images") == 40);
  CHECK(aside.at("compiles") == 2);
  CHECK(aside.at("state_sha256") != plain.at("state_sha256"));
  // A set without those images trains to the same states.
  const TempFolder fewer;
  DataSet set(240, 50);
  fewer.write(kTrainImages, idx_bytes({200, 28, 28}, set.train_pixels.substr(0, 200 * 784)));
  fewer.write(kTrainLabels, idx_bytes({200}, set.train_classes.substr(0, 200)));
  fewer.write(kTestImages, idx_bytes({50, 28, 28}, set.test_pixels));
  fewer.write(kTestLabels, idx_bytes({50}, set.test_classes));
  const ToolResult result = run_tool({"train", "--data", fewer.path(), "--batch", "20", "--epochs",
                                      "1", "--summary", trainings.file("fewer")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(read_json(trainings.file("fewer")).at("state_sha256") == aside.at("state_sha256"));
}

TEST_CASE("judging: patience and stop-at end the training and the best is written") {
  const JudgedTrainings trainings;
  // A rate of 0 changes nothing, so that the first judgement stays the best.
  const json patient =
      trainings.train({"--epochs", "50", "--lr", "0", "--patience", "2", "--save-best",
                       trainings.file("best"), "--save", trainings.file("last")});
  CHECK(patient.at("steps") == 36);
  CHECK(patient.at("stopped_by") == "patience");
  CHECK(patient.at("best_step") == 12);
  CHECK(fs::exists(trainings.file("best")));
  const ToolResult best = run_tool({"inspect", trainings.file("best")});
  CHECK(best.exit_code == 0);
  CHECK(best.out.find("step: 12\n") != std::string::npos);
  CHECK(best.out.find("best_metric: test accuracy") != std::string::npos);
  const json stopped = trainings.train(
      {"--epochs", "50", "--metric", "loss", "--stop-at", "2.2", "--eval-every", "3"});
  CHECK(stopped.at("stopped_by") == "stop-at");
  CHECK(stopped.at("steps").get<int64_t>() % 3 == 0);
  CHECK(stopped.at("test_loss") <= 2.2);
  CHECK(stopped.at("history").back().at("loss") <= 2.2);
}

TEST_CASE("judging: images whose logits are no numbers are found in no class") {
  const JudgedTrainings trainings;
  // Class 0, which an argmax of NaN gives, is a tenth of the test.
  const json s = trainings.train({"--model", "mlp", "--lr", "1e6", "--steps", "24", "--eval-every",
                                  "12", "--stop-at", "0.05", "--metric", "top-k"});
  REQUIRE(s.at("test_loss").is_null());
  CHECK(s.at("steps") == 24);
  CHECK(!s.contains("stopped_by"));
  CHECK(s.at("history").back().at("accuracy") == 0);
  CHECK(s.at("history").back().at("top_k_accuracy") == 0);
}

TEST_CASE("judging: the best states are kept and equal the file that was written of them") {
  const JudgedTrainings trainings;
  const json s = trainings.train({"--steps", "40", "--lr", "3", "--eval-every", "2", "--metric",
                                  "loss", "--validation", "40", "--keep-best", "--save-best",
                                  trainings.file("best"), "--save", trainings.file("kept")});
  int64_t best = 0;
  double least = 1e300;
  for (const json& entry : s.at("history")) {
    if (entry.at("loss").get<double>() >= least) continue;
    least = entry.at("loss");
    best = entry.at("step");
  }
  CHECK(s.at("best_step") == best);
  CHECK(s.at("kept_best") == (best != 40));
  const auto tensors = [&](const char* name) {
    const ToolResult result =
        run_tool({"inspect", trainings.file(name), "--json", trainings.file("json")});
    REQUIRE(result.exit_code == 0);
    return read_json(trainings.file("json")).at("tensors");
  };
  CHECK(tensors("kept") == tensors("best"));
  // Going on from it is going on from there.
  CHECK(trainings.run({"--resume", trainings.file("best"), "--steps", std::to_string(best + 2)})
            .exit_code == 0);
}

TEST_CASE("judging: a resumed training goes on with its validation images and its patience") {
  const JudgedTrainings trainings;
  const Words flags = {"--lr", "0", "--patience", "4", "--validation", "40"};
  const auto with = [&](Words words) {
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  };
  const json whole = trainings.train(with({"--epochs", "20"}));
  CHECK(whole.at("steps") == 50);
  trainings.train(with({"--epochs", "3", "--save", trainings.file("states")}));
  const json rest = trainings.train(with({"--epochs", "20", "--resume", trainings.file("states")}));
  CHECK(rest.at("steps") == 20);
  CHECK(rest.at("state_sha256") == whole.at("state_sha256"));
  CHECK(rest.at("validation_images") == 40);
  check_failed(
      trainings.run({"--resume", trainings.file("states"), "--validation", "20", "--epochs", "20"}),
      1, {"--validation", "40", "20"});
}

TEST_CASE(
    "judging: a resumed training ends with the best that it began with or says where that is") {
  const JudgedTrainings trainings;
  const Words judged = {"--validation", "40", "--metric", "loss", "--keep-best"};
  const auto with = [&](Words words) {
    words.insert(words.end(), judged.begin(), judged.end());
    return words;
  };
  const auto tensors = [&](const char* name) {
    const ToolResult result =
        run_tool({"inspect", trainings.file(name), "--json", trainings.file("json")});
    REQUIRE(result.exit_code == 0);
    return read_json(trainings.file("json")).at("tensors");
  };
  trainings.train(with({"--epochs", "1", "--save", trainings.file("best")}));
  // A rate that makes everything worse.
  const json kept =
      trainings.train(with({"--epochs", "3", "--lr", "1000", "--resume", trainings.file("best"),
                            "--save", trainings.file("kept")}));
  CHECK(kept.at("best_step") == 10);
  CHECK(kept.at("kept_best") == true);
  CHECK(tensors("kept") == tensors("best"));

  // A rate of 0: the first judgement stays the best, and the file is of the third.
  trainings.train({"--epochs", "3", "--lr", "0", "--validation", "40", "--metric", "loss",
                   "--patience", "9", "--save", trainings.file("third")});
  const ToolResult elsewhere =
      trainings.run(with({"--epochs", "4", "--resume", trainings.file("third")}));
  CHECK(elsewhere.exit_code == 0);
  check_failed(elsewhere, 0, {"--keep-best", "step 10", "step 30", "another file"});
}

TEST_CASE("judging: a training with all its steps done was not stopped") {
  const JudgedTrainings trainings;
  const json done = trainings.train({"--epochs", "3", "--lr", "0", "--patience", "2"});
  CHECK(done.at("steps") == 36);
  CHECK_FALSE(done.contains("stopped_by"));
}

TEST_CASE("judging: a training that was killed when it had ended is at its end when resumed") {
  const JudgedTrainings trainings;
  for (const Words& judged : {Words{"--lr", "0", "--patience", "2"}, Words{"--stop-at", "0.01"}}) {
    CAPTURE(join(judged));
    const auto with = [&](Words words) {
      words.insert(words.end(), judged.begin(), judged.end());
      return words;
    };
    const std::string folder = trainings.file("checkpoints of " + judged[0]);
    const json whole =
        trainings.train(with({"--epochs", "20", "--eval-every", "5", "--checkpoint", folder}));
    REQUIRE(whole.contains("stopped_by"));
    // The file of the step that ended it is the last thing that such a training left.
    const json rest = trainings.train(
        with({"--epochs", "20", "--eval-every", "5", "--resume", folder, "--checkpoint", folder}));
    CHECK(rest.at("steps") == 0);
    CHECK(rest.at("state_sha256") == whole.at("state_sha256"));
    CHECK(rest.at("stopped_by") == whole.at("stopped_by"));
    const json on = trainings.train({"--epochs", "20", "--resume", folder});
    CHECK(on.at("steps").get<int64_t>() > 0);
  }
}

TEST_CASE("judging: a best by another metric is forgotten aloud") {
  const JudgedTrainings trainings;
  trainings.train({"--epochs", "1", "--patience", "3", "--save", trainings.file("states")});
  const ToolResult other = trainings.run({"--epochs", "2", "--patience", "3", "--metric", "loss",
                                          "--resume", trainings.file("states")});
  check_failed(other, 0, {"cannot be compared", "test accuracy", "test loss", "step 12"});
  const ToolResult same =
      trainings.run({"--epochs", "2", "--patience", "3", "--resume", trainings.file("states")});
  CHECK(same.err.empty());
}

TEST_CASE("judging: weights to begin with are matched and the rest is told") {
  const JudgedTrainings trainings;
  trainings.train(
      {"--model", "mlp", "--optimizer", "adam", "--steps", "5", "--save", trainings.file("mlp")});
  const json s = trainings.train({"--model", "mlp", "--steps", "1", "--lr", "0", "--init",
                                  trainings.file("mlp"), "--save", trainings.file("again")});
  CHECK(s.at("init").at("matched").size() == 6);
  CHECK(s.at("init").at("missing").empty());
  CHECK(s.at("init").at("left_aside").size() >= 12);  // two states of adam for each weight
  const auto norms = [&](const char* name) {
    REQUIRE(
        run_tool({"inspect", trainings.file(name), "--json", trainings.file("json")}).exit_code ==
        0);
    std::map<std::string, double> found;
    const json inspected = read_json(trainings.file("json"));
    for (const json& entry : inspected.at("tensors")) found[entry.at("name")] = entry.at("norm");
    return found;
  };
  const auto before = norms("mlp"), after = norms("again");
  for (const json& name : s.at("init").at("matched"))
    CHECK(before.at(name.get<std::string>()) == after.at(name.get<std::string>()));
  CHECK(after.at("keel/step") == 1);

  const Words to_files = {"--steps", "1", "--save", trainings.file("none")};
  const auto refused = [&](Words words, int code, const Words& parts) {
    words.insert(words.end(), to_files.begin(), to_files.end());
    CAPTURE(join(words));
    check_failed(trainings.run(words), code, parts);
    CHECK_FALSE(fs::exists(trainings.file("none")));
  };
  refused({"--model", "lenet", "--init", trainings.file("mlp")}, 1, {"--init", "no state"});
  refused({"--init", trainings.file("nothing")}, 1, {"nothing"});
  refused({"--init", trainings.file("mlp"), "--resume", trainings.file("mlp")}, 2, {"--init"});
}

TEST_CASE("judging: bad flags are refused and nothing is written") {
  const JudgedTrainings trainings;
  const TempFolder out;
  const auto refused = [&](Words words, int code, const Words& parts) {
    words.insert(words.end(),
                 {"--steps", "2", "--save", out.file("s"), "--summary", out.file("j")});
    CAPTURE(join(words));
    check_failed(trainings.run(words), code, parts);
    CHECK(out.empty());
  };
  refused({"--validation", "240"}, 1, {"--validation", "240"});
  refused({"--validation", "230"}, 1, {"--batch", "10", "--validation 230"});
  refused({"--keep-best=yes"}, 2, {"--keep-best", "accuracy", "'yes'"});
  refused({"--keep-best="}, 2, {"--keep-best", "without a value"});
  refused({"--keep-best", "false"}, 2, {"--keep-best", "accuracy", "'false'"});
  refused({"--keep-best", "loss", "--metric", "accuracy"}, 2, {"--keep-best", "--metric"});
  refused({"--validation", "-1"}, 2, {"--validation"});
  refused({"--patience", "0"}, 2, {"--patience"});
  refused({"--eval-every", "0"}, 2, {"--eval-every"});
  refused({"--metric", "acuracy", "--keep-best"}, 2, {"--metric", "accuracy"});
  refused({"--metric", "loss"}, 2, {"--metric"});
  refused({"--stop-at", "1.5"}, 2, {"--stop-at"});
  refused({"--min-gain", "0.1"}, 2, {"--min-gain"});
  refused({"--top-k", "0"}, 2, {"--top-k"});
  refused({"--save-best", out.file("s")}, 2, {"--save-best", "--save"});
  refused({"--save-best", out.path() + "/no/such"}, 1, {"--save-best"});
}

TEST_SUITE_END();
