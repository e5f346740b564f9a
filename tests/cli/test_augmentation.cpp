// `keel train --shift --flip --cutout`: training images that change from epoch to epoch.
#include <cmath>
#include <fstream>
#include <utility>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;

// 110 images in batches of 20: 5 steps an epoch.
const TempFolder& data_of_110() {
  static const DataFolder folder(110, 20);
  return folder;
}

ToolResult train_on_110(const Words& words, const char* data = nullptr) {
  Words all = {"train",   "--data", data != nullptr ? data : data_of_110().path(),
               "--batch", "20",     "--backend",
               "cpu"};
  all.insert(all.end(), words.begin(), words.end());
  return run_tool(all);
}

const Words kChanges = {"--shift", "3", "--flip", "--cutout", "5"};

Words changed(Words words) {
  words.insert(words.end(), kChanges.begin(), kChanges.end());
  return words;
}

TEST_CASE("keel train changes training images and no others alike for every loop size") {
  const TempFolder files;
  std::string metrics;
  for (const char* size : {"1", "7", "12"}) {
    CAPTURE(size);
    const std::string file = files.file(size);
    const ToolResult result = train_on_110(
        changed({"--validation", "20", "--model", "mlp", "--steps", "12", "--lr", "0",
                 "--loop-size", size, "--metrics", file, "--summary", files.file("summary")}));
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(result.out.find("of 28x28 are changed anew in each epoch: shift 3, flip, cutout 5\n") !=
          std::string::npos);
    CHECK(result.out.find("feed: streamed (images are changed anew in each epoch)\n") !=
          std::string::npos);
    if (metrics.empty()) metrics = read_text(file);
    CHECK(read_text(file) == metrics);
  }
  const auto summary = read_json(files.file("summary"));
  CHECK(summary.at("shift") == 3);
  CHECK(summary.at("flip") == true);
  CHECK(summary.at("cutout") == 5);
  // Without a rate the weights stay, so only the images can make the losses differ.
  REQUIRE(train_on_110({"--validation", "20", "--model", "mlp", "--steps", "12", "--lr", "0",
                        "--metrics", files.file("plain"), "--summary", files.file("of plain")})
              .exit_code == 0);
  CHECK(read_text(files.file("plain")) != metrics);
  const auto plain = read_json(files.file("of plain"));
  CHECK(plain.at("test_loss") == summary.at("test_loss"));
  CHECK(plain.at("history").back().at("loss") == summary.at("history").back().at("loss"));
  CHECK(plain.at("shift") == 0);
  CHECK(plain.at("flip") == false);
}

TEST_CASE("keel train makes each change by itself and anew in each epoch") {
  const TempFolder files;
  // One batch is the whole epoch and the weights stay, so only the images can make losses differ.
  const auto losses = [&](const std::string& name, const Words& change) {
    Words words = {"train",     "--data",    data_of_110().path(),
                   "--backend", "cpu",       "--model",
                   "mlp",       "--batch",   "110",
                   "--steps",   "2",         "--lr",
                   "0",         "--metrics", files.file(name)};
    words.insert(words.end(), change.begin(), change.end());
    const ToolResult result = run_tool(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    const auto rows = read_json_lines(files.file(name));
    REQUIRE(rows.size() == 2);
    return std::pair{rows[0].at("loss").get<double>(), rows[1].at("loss").get<double>()};
  };
  constexpr double kRounding = 1e-5;  // the order of the items makes last bits differ
  const auto [plain, plain_again] = losses("plain", {});
  CHECK(std::abs(plain - plain_again) < kRounding);
  for (const Words& change : {Words{"--shift", "3"}, Words{"--flip"}, Words{"--cutout", "9"}}) {
    CAPTURE(change[0]);
    const auto [first, second] = losses(change[0].substr(2), change);
    CHECK(std::abs(first - plain) > kRounding);
    CHECK(std::abs(second - first) > kRounding);
  }
  CHECK(train_on_110({"--model", "vae", "--steps", "1", "--shift", "1"}).exit_code == 0);
}

TEST_CASE("keel train sees the same changed images when it resumes") {
  const TempFolder files;
  REQUIRE(train_on_110(changed({"--steps", "13", "--summary", files.file("whole")})).exit_code ==
          0);
  const std::string states = files.file("states");
  REQUIRE(train_on_110(changed({"--steps", "7", "--save", states})).exit_code == 0);
  const ToolResult rest =
      train_on_110({"--resume", states, "--steps", "13", "--summary", files.file("rest")});
  REQUIRE_MESSAGE(rest.exit_code == 0, rest.err);
  const auto whole = read_json(files.file("whole")), resumed = read_json(files.file("rest"));
  CHECK(resumed.at("state_sha256") == whole.at("state_sha256"));
  CHECK(resumed.at("cutout") == 5);
  CHECK(train_on_110(changed({"--resume", states, "--steps", "13"})).exit_code == 0);
  for (const Words& other : {Words{"--shift", "2"}, Words{"--cutout", "0"}}) {
    const ToolResult refused =
        train_on_110({"--resume", states, "--steps", "13", other[0], other[1]});
    CHECK(refused.exit_code == 1);
    CHECK(refused.err.find(other[0] + ": expected") != std::string::npos);
    CHECK(refused.err.find("was trained with") != std::string::npos);
  }
  REQUIRE(train_on_110({"--steps", "7", "--save", files.file("plain")}).exit_code == 0);
  const ToolResult refused =
      train_on_110({"--resume", files.file("plain"), "--steps", "13", "--flip"});
  CHECK(refused.exit_code == 1);
  CHECK(refused.err.find("--flip: " + files.file("plain") + " was trained without it") !=
        std::string::npos);
}

TEST_CASE("keel train refuses changes that the items cannot have") {
  const TempFolder files;
  for (const char* flag : {"--shift", "--cutout"}) {
    CAPTURE(flag);
    const ToolResult large = train_on_110({"--steps", "1", flag, "29"});
    CHECK(large.exit_code == 1);
    CHECK(large.err.find(std::string(flag) + ": expected at most 28 pixels") != std::string::npos);
    CHECK(train_on_110({"--steps", "1", flag, "-1"}).exit_code == 2);
  }
  const std::string text = files.file("text"), table = files.file("table.csv");
  std::ofstream(text) << std::string(4000, 'a') << "b";
  std::string rows = "x,y\n";
  for (int i = 0; i < 50; ++i) rows += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  std::ofstream(table) << rows;
  const ToolResult of_text =
      train_on_110({"--model", "charlm", "--steps", "1", "--flip"}, text.c_str());
  CHECK(of_text.exit_code == 2);
  CHECK(of_text.err.find("--flip: changes images, and the training items are not images") !=
        std::string::npos);
  const ToolResult of_table =
      train_on_110({"--label", "y", "--steps", "1", "--cutout", "2"}, table.c_str());
  CHECK(of_table.exit_code == 2);
  CHECK(of_table.err.find("--cutout: changes images") != std::string::npos);
}

}  // namespace

TEST_SUITE_END();
