// `keel train --model vae|charlm` and `keel sample`.
#include <cmath>
#include <fstream>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;

// 200 images.
const TempFolder& small_data() {
  static const DataFolder folder(200, 20);
  return folder;
}

double loss_of(const nlohmann::json& row) { return row.at("loss").get<double>(); }

// The losses of the same training in launches of 1, 7 and all steps.
std::vector<nlohmann::json> train_in_launches(const Words& words) {
  const TempFolder files;
  std::string expected;
  for (const char* size : {"1", "7", "100"}) {
    CAPTURE(size);
    Words all = {"train", "--quiet", "--loop-size", size, "--metrics", files.file(size)};
    all.insert(all.end(), words.begin(), words.end());
    const ToolResult result = run_tool(all);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    if (expected.empty()) expected = read_text(files.file(size));
    CHECK(read_text(files.file(size)) == expected);
  }
  return read_json_lines(files.file("7"));
}

TEST_CASE("keel train raises the bound of a vae whatever the loop size and shows samples") {
  const Words words = {"--model", "vae",     "--data", small_data().path(), "--backend",
                       "cpu",     "--batch", "20",     "--steps",           "40"};
  const auto rows = train_in_launches(words);
  REQUIRE(rows.size() == 40);
  // A pixel that may be anything costs log 2.
  CHECK(loss_of(rows.front()) > 0.8 * 784 * std::log(2.0));
  CHECK(loss_of(rows.back()) < 0.6 * loss_of(rows.front()));
  Words shown = {"train"};
  shown.insert(shown.end(), words.begin(), words.end());
  const ToolResult result = run_tool(shown);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("test bound -") != std::string::npos);
  CHECK(lines_of(result.out).size() > 14);
}

// Each of "abcdefgh" follows the one before it, so after a while nothing is left to guess.
TEST_CASE("a charlm learns an alphabet and keel sample writes it") {
  const TempFolder files;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "abcdefgh";
  std::ofstream(files.file("text"), std::ios::binary) << text;
  const Words words = {"--model",   "charlm", "--data",  files.file("text"),
                       "--backend", "cpu",    "--batch", "8",
                       "--steps",   "30",     "--lr",    "0.01"};
  const auto rows = train_in_launches(words);
  CHECK(loss_of(rows.front()) == doctest::Approx(std::log(256.0)).epsilon(0.15));
  CHECK(loss_of(rows.back()) < 0.2);
  const std::string states = files.file("states");
  Words saved = {"train", "--average", "0.5", "--save", states};
  saved.insert(saved.end(), words.begin(), words.end());
  const ToolResult result = run_tool(saved);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  // Of 2,880 characters seen each is followed 360 times by the same one: log(368 / 361).
  CHECK(result.out.find("a bigram model needs 0.0192 nats") != std::string::npos);
  const auto sample = [&](const Words& more) {
    Words all = {"sample", "--load", states, "--backend", "cpu", "--chars", "20"};
    all.insert(all.end(), more.begin(), more.end());
    return run_tool(all);
  };
  CHECK(sample({"--prompt", "cde", "--temperature", "0"}).out == "cdefghabcdefghabcdefgha\n");
  const std::string drawn = sample({"--seed", "1", "--temperature", "30"}).out;
  CHECK(sample({"--seed", "1", "--temperature", "30"}).out == drawn);
  CHECK(sample({"--seed", "2", "--temperature", "30"}).out != drawn);
}

TEST_CASE("generative models refuse what they are not about") {
  const TempFolder files;
  std::ofstream(files.file("short")) << "too short";
  const auto check = [](const Words& words, int exit_code, const std::string& message) {
    CAPTURE(join(words));
    const ToolResult result = run_tool(words);
    CHECK(result.exit_code == exit_code);
    CAPTURE(result.err);
    CHECK(result.err.find(message) != std::string::npos);
  };
  check({"train", "--model", "charlm"}, 2, "--data: expected a text file for charlm");
  check({"train", "--model", "charlm", "--data", files.file("short")}, 1,
        "a text of at least 1280 bytes");
  check({"train", "--model", "charlm", "--data", files.file("none")}, 1, "cannot open");
  check({"train", "--model", "vae", "--steps", "1", "--epochs", "1"}, 2, "--epochs is given");
  check({"train", "--model", "vae", "--resume", "x"}, 2, "--resume");
  check({"train", "--model", "vae", "--data", small_data().path(), "--batch", "201"}, 1,
        "at most the 200 items");
  check({"sample"}, 2, "--load: expected a file of a trained charlm");
  check({"sample", "--load", files.file("none")}, 1, "cannot open");
  const std::string states = files.file("states");
  const ToolResult vae =
      run_tool({"train", "--model", "vae", "--data", small_data().path(), "--backend", "cpu",
                "--quiet", "--steps", "1", "--save", states});
  REQUIRE_MESSAGE(vae.exit_code == 0, vae.err);
  check({"sample", "--load", states}, 1, "one of the model vae");
}

}  // namespace

TEST_SUITE_END();
