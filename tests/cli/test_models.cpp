// The models of the tool beyond softmax and mlp: each trains on every backend, to the same losses
// within rounding, and to the same bits for every loop size and number of threads.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

const Words kModels = {"lenet", "resnet", "transformer", "lstm"};

struct Training {
  json summary;
  std::vector<double> losses;
};

class Trainings {
 public:
  Trainings() { DataSet(40, 20).write_to(data_); }

  Training run(const Words& words) const {
    Words all = {"train",
                 "--data",
                 data_.path(),
                 "--batch",
                 "10",
                 "--steps",
                 "3",
                 "--summary",
                 files_.file("summary"),
                 "--metrics",
                 files_.file("metrics")};
    all.insert(all.end(), words.begin(), words.end());
    const ToolResult result = run_tool(all);
    CAPTURE(join(all));
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    Training training{read_json(files_.file("summary")), {}};
    for (const json& row : read_json_lines(files_.file("metrics")))
      training.losses.push_back(row.at("loss").get<double>());
    return training;
  }

 private:
  TempFolder data_, files_;
};

}  // namespace

TEST_CASE("models: every backend trains each with the losses of ref") {
  const Trainings trainings;
  for (const std::string& model : kModels) {
    CAPTURE(model);
    const Training expected = trainings.run({"--model", model, "--backend", "ref"});
    REQUIRE(expected.losses.size() == 3);
    for (const char* backend : {"cpu", "npu"}) {
      CAPTURE(backend);
      const Training got = trainings.run({"--model", model, "--backend", backend});
      REQUIRE(got.losses.size() == 3);
      for (size_t i = 0; i < 3; ++i) {
        CHECK(std::isfinite(got.losses[i]));
        CHECK(got.losses[i] == doctest::Approx(expected.losses[i]).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("models: bits are the same for loop sizes and threads") {
  const Trainings trainings;
  for (const std::string& model : kModels) {
    for (const char* backend : {"cpu", "npu"}) {
      CAPTURE(model);
      CAPTURE(backend);
      const Words words = {"--model", model, "--backend", backend};
      const auto hash = [&](Words more) {
        more.insert(more.begin(), words.begin(), words.end());
        return trainings.run(more).summary.at("state_sha256").get<std::string>();
      };
      const std::string expected = hash({"--loop-size", "1", "--threads", "1"});
      CHECK(hash({"--loop-size", "3", "--threads", "2"}) == expected);
    }
  }
}

TEST_SUITE_END();
