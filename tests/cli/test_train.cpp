#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/built_in_backends.h"
#include "support/error_of.h"
#include "support/safetensors_bytes.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

// Runs of `keel train` on a small data set, with files in a folder of their own.
class Runs {
 public:
  Runs(int64_t train_count, int64_t test_count) : set_(train_count, test_count) {
    set_.write_to(data_);
  }

  std::string file(const std::string& name) const { return files_.file(name); }
  const DataSet& set() const { return set_; }
  const std::string data_folder() const { return data_.path(); }

  // Returns the summary; metrics and states are in the files "metrics" and "states".
  json train(const Words& words, const Variables& variables = {}) const {
    Words all = {"train",     "--data",        data_.path(), "--summary",   file("summary"),
                 "--metrics", file("metrics"), "--save",     file("states")};
    all.insert(all.end(), words.begin(), words.end());
    CAPTURE(join(all));
    const ToolResult result = run_tool(all, variables);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(result.err.empty());
    return read_json(file("summary"));
  }

 private:
  TempFolder data_;
  TempFolder files_;
  DataSet set_;
};

// A safetensors file, read by its format's definition.
struct SavedStates {
  explicit SavedStates(const std::string& path) {
    const std::string bytes = read_text(path);
    REQUIRE(bytes.size() > 8);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    header = json::parse(bytes.substr(8, length));
    metadata = header.at("__metadata__");
    header.erase("__metadata__");
    data = bytes.substr(8 + length);
  }
  std::string bytes(const std::string& name) const {
    const auto& place = header.at(name).at("data_offsets");
    return data.substr(place[0], place[1].get<size_t>() - place[0].get<size_t>());
  }
  std::vector<float> floats(const std::string& name) const {
    const std::string raw = bytes(name);
    std::vector<float> values(raw.size() / sizeof(float));
    std::memcpy(values.data(), raw.data(), raw.size());
    return values;
  }

  json header;
  json metadata;
  std::string data;
};

// As the summary's state_sha256 is defined.
std::string hash_of(const SavedStates& states) {
  const std::map<std::string, std::string> dtypes = {{"F32", "f32"}, {"I64", "i64"}};
  std::string text;
  for (const auto& [name, entry] : states.header.items()) {  // in name order
    std::string dims;
    for (const auto& dim : entry.at("shape")) dims += (dims.empty() ? "" : ", ") + dim.dump();
    text += name + "\n" + dtypes.at(entry.at("dtype")) + "[" + dims + "]\n" + states.bytes(name);
  }
  return sha256_by_openssl(text);
}

// Share of the test images whose largest logit is at their class, from the saved softmax weights.
double softmax_accuracy(const SavedStates& states, const DataSet& set) {
  const std::vector<float> w = states.floats("w");
  const std::vector<float> b = states.floats("b");
  int64_t correct = 0;
  for (int64_t i = 0; i < set.test_count; ++i) {
    std::vector<double> logits(b.begin(), b.end());
    for (size_t k = 0; k < 784; ++k) {
      const auto pixel =
          static_cast<unsigned char>(set.test_pixels[static_cast<size_t>(i) * 784 + k]);
      for (size_t c = 0; c < 10; ++c)
        logits[c] += pixel / 255.0 * static_cast<double>(w[k * 10 + c]);
    }
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    correct += best == set.test_classes[static_cast<size_t>(i)];
  }
  return static_cast<double>(correct) / static_cast<double>(set.test_count);
}

void check_metrics(const std::vector<json>& rows, int64_t steps, int64_t steps_per_epoch) {
  REQUIRE(rows.size() == static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const json& row = rows[static_cast<size_t>(i)];
    CHECK(row.size() == 3);
    CHECK(row.at("step") == i + 1);
    CHECK(row.at("epoch") == i / steps_per_epoch + 1);
    CHECK(row.at("loss").is_number_float());
  }
}

// Launches end at epochs.
int64_t launches_of(int64_t steps, int64_t steps_per_epoch, int64_t loop_size) {
  int64_t launches = 0;
  for (int64_t done = 0; done < steps; ++launches) {
    const int64_t to_epoch = steps_per_epoch - done % steps_per_epoch;
    done += std::min({loop_size, to_epoch, steps - done});
  }
  return launches;
}

}  // namespace

TEST_CASE("train: built-in digits on each backend") {
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    const TempFolder temp;
    const ToolResult result = run_tool({"train", "--steps", "4", "--batch", "32", "--backend",
                                        backend, "--summary", temp.file("s")});
    REQUIRE(result.exit_code == 0);
    CHECK(result.err.empty());
    CHECK(result.out.find("built-in digits") != std::string::npos);
    CHECK(result.out.find("test accuracy") != std::string::npos);
    const json summary = read_json(temp.file("s"));
    CHECK(summary.at("data").get<std::string>().find("built-in digits") != std::string::npos);
    CHECK(summary.at("steps") == 4);
    CHECK(summary.at("backend") == backend);
    CHECK(summary.at("test_accuracy") > 0.2);  // four steps beat guessing
  }
}

TEST_CASE("train: the summary has its fields and they agree with each other") {
  const Runs runs(500, 700);
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    const json s = runs.train({"--backend", backend, "--batch", "40", "--steps", "20",
                               "--loop-size", "5", "--threads", "2", "--seed", "3"});
    CHECK(s.at("keel_version").is_string());
    CHECK(s.at("backend") == backend);
    CHECK(s.at("device") == backend + ":0");
    CHECK(s.at("model") == "softmax");
    CHECK(s.at("data").get<std::string>().find(runs.data_folder()) != std::string::npos);
    CHECK(s.at("dtype") == "f32");
    CHECK(s.at("batch") == 40);
    CHECK(s.at("loop_size") == 5);
    CHECK(s.at("epochs") == 1);  // 12 steps each, the second one not to its end
    CHECK(s.at("steps") == 20);
    CHECK(s.at("launches") == 5);  // 5 5 2 and 5 3
    CHECK(s.at("compiles") == 2);  // the training step and the evaluation
    CHECK(s.at("train_loss").is_number_float());
    const double seconds = s.at("train_seconds");
    CHECK(seconds > 0);
    CHECK(s.at("step_us").get<double>() == doctest::Approx(seconds * 1e6 / 20));
    CHECK(s.at("images_per_second").get<double>() == doctest::Approx(20 * 40 / seconds));
    CHECK(s.at("optimizer") == "sgd");
    CHECK(s.at("lr") == 0.5);
    CHECK(s.at("seed") == 3);
    CHECK(s.at("threads") == 2);

    const SavedStates states(runs.file("states"));
    CHECK(s.at("state_sha256") == hash_of(states));
    CHECK(s.at("test_accuracy").get<double>() ==
          doctest::Approx(softmax_accuracy(states, runs.set())).epsilon(1e-12));
    const auto rows = read_json_lines(runs.file("metrics"));
    check_metrics(rows, 20, 12);
    // Both are the same f32, once as such and once as a double.
    CHECK(s.at("train_loss").get<float>() == rows.back().at("loss").get<float>());
    CHECK(rows.front().at("loss").get<double>() == doctest::Approx(std::log(10.0)));
    CHECK(rows.back().at("loss") < rows.front().at("loss"));
  }
}

TEST_CASE("train: saved states are named typed and shaped as in the model") {
  const Runs runs(200, 50);
  const std::set<std::string> reserved = {"keel/seed", "keel/step"};
  const auto names = [&] {
    std::set<std::string> found;
    const SavedStates states(runs.file("states"));
    for (const auto& [name, entry] : states.header.items()) {
      if (reserved.count(name) == 0) CHECK(entry.at("dtype") == "F32");
      found.insert(name);
    }
    return found;
  };
  runs.train({"--batch", "20", "--steps", "3", "--seed", "9"});
  CHECK(names() == std::set<std::string>{"b", "keel/seed", "keel/step", "w"});
  const SavedStates softmax(runs.file("states"));
  CHECK(softmax.header.at("w").at("shape") == json({784, 10}));
  CHECK(softmax.header.at("b").at("shape") == json::array({10}));
  CHECK(softmax.metadata.at("model") == "softmax");
  CHECK(softmax.metadata.at("step") == "3");
  int64_t step = 0;
  std::memcpy(&step, softmax.bytes("keel/step").data(), 8);
  CHECK(step == 3);

  runs.train({"--model", "mlp", "--batch", "20", "--steps", "1"});
  std::vector<json> shapes;
  const SavedStates mlp(runs.file("states"));
  for (const auto& [name, entry] : mlp.header.items()) {
    if (reserved.count(name) == 0) shapes.push_back(entry.at("shape"));
  }
  std::sort(shapes.begin(), shapes.end());
  CHECK(shapes == std::vector<json>{json::array({10}), json::array({512}), json::array({512}),
                                    json({512, 10}), json({512, 512}), json({784, 512})});
}

TEST_CASE("train: quiet prints nothing and writes the same") {
  const Runs runs(200, 50);
  const json loud = runs.train({"--batch", "20", "--steps", "12"});
  const ToolResult quiet = run_tool({"train", "--quiet", "--data", runs.data_folder(), "--batch",
                                     "20", "--steps", "12", "--summary", runs.file("quiet")});
  CHECK(quiet.exit_code == 0);
  CHECK(quiet.out.empty());
  CHECK(quiet.err.empty());
  CHECK(read_json(runs.file("quiet")).at("state_sha256") == loud.at("state_sha256"));
}

TEST_CASE("train: output that is no terminal has neither colours nor carriage returns") {
  const Runs runs(200, 50);
  const ToolResult result =
      run_tool({"train", "--data", runs.data_folder(), "--batch", "60", "--epochs", "2"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find('\033') == std::string::npos);
  CHECK(result.out.find('\r') == std::string::npos);
  CHECK(result.out.find(runs.data_folder()) != std::string::npos);
  CHECK(result.out.find("epoch 1") != std::string::npos);
  CHECK(result.out.find("epoch 2") != std::string::npos);
  CHECK(result.out.find("last 20 images") != std::string::npos);  // 200 = 3 * 60 + 20
}

namespace {

// One training for each loop size and thread count: launches as computed here, all else equal.
void check_loop_sizes(const Runs& runs, const Words& words, int64_t steps,
                      int64_t steps_per_epoch) {
  std::string metrics;
  json first;
  for (const int64_t loop_size : {int64_t{1}, int64_t{7}, int64_t{100}, steps}) {
    for (const char* threads : {"1", "2"}) {
      CAPTURE(loop_size);
      CAPTURE(threads);
      Words all = {"--steps",     std::to_string(steps),
                   "--loop-size", std::to_string(loop_size),
                   "--threads",   threads};
      all.insert(all.end(), words.begin(), words.end());
      const json summary = runs.train(all);
      CHECK(summary.at("launches") == launches_of(steps, steps_per_epoch, loop_size));
      CHECK(summary.at("steps") == steps);
      CHECK(summary.at("compiles") == 2);
      const std::string written = read_text(runs.file("metrics"));
      if (metrics.empty()) {
        metrics = written;
        first = summary;
        check_metrics(read_json_lines(runs.file("metrics")), steps, steps_per_epoch);
        continue;
      }
      CHECK_MESSAGE(written == metrics, "the losses differ");
      CHECK(summary.at("state_sha256") == first.at("state_sha256"));
      CHECK(summary.at("test_accuracy") == first.at("test_accuracy"));
    }
  }
}

}  // namespace

TEST_CASE("train: loop sizes and threads change no bit on ref") {
  const Runs runs(200, 50);
  check_loop_sizes(runs, {"--backend", "ref", "--batch", "10"}, 24, 20);
}

TEST_CASE("train: loop sizes and threads change no bit on cpu") {
  const Runs runs(5000, 100);
  check_loop_sizes(runs, {"--backend", "cpu", "--batch", "20"}, 310, 250);
  check_loop_sizes(runs,
                   {"--backend", "cpu", "--batch", "32", "--model", "mlp", "--optimizer", "adam"},
                   12, 156);
}

TEST_CASE("train: loop sizes and threads change no bit on npu") {
  const Runs runs(5000, 100);
  check_loop_sizes(runs, {"--backend", "npu", "--batch", "20"}, 310, 250);
  check_loop_sizes(runs,
                   {"--backend", "npu", "--batch", "32", "--model", "mlp", "--optimizer", "adam"},
                   12, 156);
}

TEST_CASE("train: NPU_LOOP_SIZE is the default loop size and the flag wins") {
  const Runs runs(200, 50);
  const Words words = {"--batch", "20", "--steps", "10"};
  const Words with_flag = {"--batch", "20", "--steps", "10", "--loop-size", "4"};
  CHECK(runs.train(words).at("loop_size") == 100);
  const json from_variable = runs.train(words, {{"NPU_LOOP_SIZE", "3"}});
  CHECK(from_variable.at("loop_size") == 3);
  CHECK(from_variable.at("launches") == 4);
  const json from_flag = runs.train(with_flag, {{"NPU_LOOP_SIZE", "3"}});
  CHECK(from_flag.at("loop_size") == 4);
  CHECK(from_flag.at("launches") == 3);
}

TEST_CASE("train: the seed decides the result") {
  const Runs runs(400, 50);
  for (const char* model : {"softmax", "mlp"}) {
    const auto losses = [&](const char* seed) {
      runs.train({"--model", model, "--batch", "20", "--steps", "10", "--seed", seed});
      return read_text(runs.file("metrics"));
    };
    const std::string seven = losses("7");
    CHECK(losses("7") == seven);
    CHECK(losses("8") != seven);
  }
}

TEST_CASE("train: epochs are counted and the default optimizer rates are used") {
  const Runs runs(210, 50);
  const json epochs = runs.train({"--batch", "20", "--epochs", "3"});
  CHECK(epochs.at("epochs") == 3);
  CHECK(epochs.at("steps") == 30);  // ten an epoch, the last ten images of each left out
  CHECK(epochs.at("launches") == 3);
  check_metrics(read_json_lines(runs.file("metrics")), 30, 10);

  const std::vector<std::pair<Words, double>> rates = {
      {{"--model", "mlp"}, 0.1},
      {{"--optimizer", "momentum"}, 0.5},
      {{"--optimizer", "adam"}, 0.001},
      {{"--optimizer", "adamw", "--model", "mlp"}, 0.001},
      {{"--optimizer", "adam", "--lr", "0.01"}, 0.01}};
  std::set<std::string> hashes;
  for (const auto& [words, rate] : rates) {
    Words all = {"--batch", "20", "--steps", "2"};
    all.insert(all.end(), words.begin(), words.end());
    const json summary = runs.train(all);
    CHECK(summary.at("lr") == rate);
    hashes.insert(summary.at("state_sha256").get<std::string>());
  }
  CHECK(hashes.size() == rates.size());
}

TEST_CASE("train: data files may be plain or gzip and give the same training") {
  const Runs runs(200, 50);
  const json plain = runs.train({"--batch", "20", "--steps", "5"});
  const TempFolder packed;
  for (const std::string& name : {kTrainImages, kTrainLabels, kTestImages, kTestLabels}) {
    packed.write(name + ".gz", gzip(read_text(runs.data_folder() + "/" + name)));
  }
  const ToolResult result = run_tool({"train", "--data", packed.path(), "--batch", "20", "--steps",
                                      "5", "--summary", runs.file("packed")});
  REQUIRE(result.exit_code == 0);
  const json summary = read_json(runs.file("packed"));
  CHECK(summary.at("state_sha256") == plain.at("state_sha256"));
  CHECK(summary.at("test_accuracy") == plain.at("test_accuracy"));
}

TEST_CASE("train: file names may hold commas and equal signs") {
  const Runs runs(200, 50);
  const TempFolder temp;
  for (const char* name : {",leading", "two,,commas", "trailing,", "a=b"}) {
    const std::string path = temp.file(name);
    const Words words = {"train", "--data", runs.data_folder(), "--batch", "20", "--steps", "1"};
    for (const Words& flag : {Words{"--summary", path}, Words{"--summary=" + path}}) {
      Words all = words;
      all.insert(all.end(), flag.begin(), flag.end());
      CAPTURE(join(all));
      CHECK(run_tool(all).exit_code == 0);
      CHECK(read_json(path).at("steps") == 1);
      std::filesystem::remove(path);
    }
  }
}

TEST_CASE("train: a loss that is no number is null in both files and warned of") {
  const Runs runs(200, 50);
  const ToolResult result =
      run_tool({"train", "--data", runs.data_folder(), "--model", "mlp", "--lr", "1e6", "--batch",
                "20", "--steps", "6", "--summary", runs.file("summary"), "--metrics",
                runs.file("metrics"), "--save", runs.file("states")});
  CHECK(result.exit_code == 0);
  const json summary = read_json(runs.file("summary"));
  CHECK(summary.at("train_loss").is_null());
  const auto rows = read_json_lines(runs.file("metrics"));
  REQUIRE(rows.size() == 6);
  CHECK(rows.front().at("loss").is_number_float());
  CHECK(rows.back().at("loss").is_null());
  const auto bad = std::find_if(rows.begin(), rows.end(),
                                [](const json& row) { return row.at("loss").is_null(); });
  CHECK(summary.at("first_non_finite_step") == bad->at("step"));
  CHECK(summary.at("float_status") == "fetched numbers were infinite or NaN");
  CHECK(summary.at("float_status_step") == bad->at("step"));
  CHECK(bad->at("float_status") == summary.at("float_status"));
  CHECK_FALSE(rows.front().contains("float_status"));
  CHECK(summary.at("warnings").size() == 1);
  CHECK(contains(result.err, "step " + bad->at("step").dump() + ": fetched numbers were"));
  CHECK(contains(result.out, "first in step " + bad->at("step").dump()));
  // The weights' loss on the test images is none, either.
  REQUIRE(lines_of(result.err).size() == 2);
  CHECK(contains(lines_of(result.err)[1], "evaluation on npu:0, step 1: fetched numbers were"));
}
