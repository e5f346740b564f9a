// The models of the tool beyond softmax and mlp: each trains on every backend, to the same losses
// within rounding, and to the same bits for every loop size and number of threads.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

constexpr int kSteps = 20;
// How far losses may be from those of ref, relative. ref computes each op in double and rounds
// once; f32's sums of up to some thousand products are right to about 1e-6, and what is left of
// that in a loss was at most 7e-7 for each of these models.
constexpr double kBound = 1e-5;

struct TrainingTrace {
  std::string hash;
  std::vector<double> losses;
};

// Every third pixel of the digits, 9x9, so that ref is quick.
void write_small_digits(const TempFolder& folder, int64_t train, int64_t test) {
  const DataSet digits(train, test);
  const auto shrunk = [](const std::string& pixels) {
    std::string small;
    for (size_t image = 0; image < pixels.size(); image += 784) {
      for (size_t y = 1; y < 28; y += 3)
        for (size_t x = 1; x < 28; x += 3) small += pixels[image + y * 28 + x];
    }
    return small;
  };
  folder.write(kTrainImages,
               idx_bytes({static_cast<uint32_t>(train), 9, 9}, shrunk(digits.train_pixels)));
  folder.write(kTestImages,
               idx_bytes({static_cast<uint32_t>(test), 9, 9}, shrunk(digits.test_pixels)));
  folder.write(kTrainLabels, idx_bytes({static_cast<uint32_t>(train)}, digits.train_classes));
  folder.write(kTestLabels, idx_bytes({static_cast<uint32_t>(test)}, digits.test_classes));
}

// Trains one model for a few steps.
class ShortTrainings {
 public:
  explicit ShortTrainings(const std::string& model) {
    // With seeds 0 and 1 an activation of resnet comes within rounding of relu's corner, where the
    // last bit decides what all later losses are.
    words_ = {"train",     "--quiet",
              "--seed",    "2",
              "--model",   model,
              "--steps",   "20",
              "--summary", files_.file("summary"),
              "--metrics", files_.file("metrics"),
              "--batch"};
    if (model == "charlm") {
      std::string text;
      for (int i = 0; text.size() < 3000; ++i) text += "line " + std::to_string(i * i) + ". ";
      with({"2", "--data", data_.write("text", text)});
    } else if (model == "vae") {  // which takes images of 28x28 alone
      DataSet(40, 10).write_to(data_);
      with({"4", "--data", data_.path()});
    } else {
      write_small_digits(data_, 40, 10);
      with({"4", "--data", data_.path()});
    }
  }

  TrainingTrace run(const Words& words) const {
    Words all = words_;
    all.insert(all.end(), words.begin(), words.end());
    const ToolResult result = run_tool(all);
    CAPTURE(join(all));
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    TrainingTrace trained{read_json(files_.file("summary")).at("state_sha256").get<std::string>(),
                          {}};
    for (const json& row : read_json_lines(files_.file("metrics")))
      trained.losses.push_back(row.at("loss").get<double>());
    REQUIRE(trained.losses.size() == kSteps);
    return trained;
  }

 private:
  void with(const Words& words) { words_.insert(words_.end(), words.begin(), words.end()); }

  TempFolder data_, files_;
  Words words_;
};

void check_losses(const std::string& model) {
  const ShortTrainings trainings(model);
  const TrainingTrace expected = trainings.run({"--backend", "ref"});
  CHECK(expected.losses.back() < expected.losses.front());
  for (const char* backend : {"cpu", "npu"}) {
    CAPTURE(std::string(backend));
    const TrainingTrace got = trainings.run({"--backend", backend});
    double farthest = 0;
    for (size_t i = 0; i < got.losses.size(); ++i) {
      REQUIRE(std::isfinite(got.losses[i]));
      farthest = std::max(farthest, std::fabs(got.losses[i] / expected.losses[i] - 1));
    }
    MESSAGE(model << " on " << std::string(backend) << ": losses within " << farthest
                  << " of ref's");
    CHECK(farthest <= kBound);
  }
}

void check_bits(const std::string& model) {
  const ShortTrainings trainings(model);
  for (const char* backend : {"cpu", "npu"}) {
    CAPTURE(std::string(backend));
    const auto run = [&](const char* loop_size, const char* threads) {
      return trainings.run({"--backend", backend, "--loop-size", loop_size, "--threads", threads});
    };
    const TrainingTrace expected = run("1", "1");
    using Pair = std::pair<const char*, const char*>;
    for (const Pair& other : {Pair{"7", "1"}, {"20", "1"}, {"1", "2"}, {"20", "2"}}) {
      CAPTURE(std::string(other.first));
      CAPTURE(std::string(other.second));
      const TrainingTrace got = run(other.first, other.second);
      CHECK(got.hash == expected.hash);
      CHECK(got.losses == expected.losses);
    }
  }
}

}  // namespace

TEST_CASE("models: lenet has the first losses of ref") { check_losses("lenet"); }
TEST_CASE("models: resnet has the first losses of ref") { check_losses("resnet"); }
TEST_CASE("models: transformer has the first losses of ref") { check_losses("transformer"); }
TEST_CASE("models: lstm has the first losses of ref") { check_losses("lstm"); }
TEST_CASE("models: vae has the first losses of ref") { check_losses("vae"); }
TEST_CASE("models: charlm has the first losses of ref") { check_losses("charlm"); }

TEST_CASE("models: lenet has the same bits for loop sizes and threads") { check_bits("lenet"); }
TEST_CASE("models: resnet has the same bits for loop sizes and threads") { check_bits("resnet"); }
TEST_CASE("models: transformer has the same bits for loop sizes and threads") {
  check_bits("transformer");
}
TEST_CASE("models: lstm has the same bits for loop sizes and threads") { check_bits("lstm"); }
TEST_CASE("models: vae has the same bits for loop sizes and threads") { check_bits("vae"); }
TEST_CASE("models: charlm has the same bits for loop sizes and threads") { check_bits("charlm"); }

TEST_SUITE_END();
