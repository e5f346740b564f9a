// `keel bench loop` and `keel bench feed`, and the loop sizes that `keel train` finds by itself.
#include <filesystem>
#include <limits>
#include <regex>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace keel_test {

TEST_SUITE_BEGIN("cli");

TEST_CASE("bench loop: a row for each size whose parts add up") {
  const TempFolder folder;
  const std::string file = folder.file("loop.json");
  for (const std::string backend : {"npu", "cpu"}) {
    CAPTURE(backend);
    const ToolResult run = run_tool({"bench", "loop", "--model", "softmax", "--backend", backend,
                                     "--sizes", "1,5,50", "--seconds", "0.1", "--json", file});
    REQUIRE(run.exit_code == 0);
    CHECK(run.err == "");
    CHECK(contains(run.out, "queue wait"));
    CHECK(contains(run.out, "device clock") == (backend == "npu"));
    const auto json = read_json(file);
    CHECK(json["suite"] == "loop");
    CHECK(json["model"] == "softmax");
    CHECK(json["backend"] == backend);
    REQUIRE(json["sizes"].size() == 3);
    int64_t expected[] = {1, 5, 50};
    for (size_t i = 0; i < 3; ++i) {
      const auto& row = json["sizes"][i];
      CHECK(row["loop_size"] == expected[i]);
      const auto steps = row["steps"].get<int64_t>();
      CHECK(row["launches"] == steps / expected[i]);
      CHECK(row["synchronisations"] == row["launches"]);
      for (const char* part : {"host_us", "launch_us", "copy_us", "queue_wait_us", "busy_us"}) {
        CHECK(row[part].get<double>() >= 0);
        CHECK(row[part].get<double>() < 10 * row["step_us"].get<double>());
      }
      CHECK(row["busy_us"].get<double>() > 0);
      CHECK(row.contains("step_device_us") == (backend == "npu"));
    }
    if (backend != "npu") continue;
    // The same device step in each row, and one launch's cost dealt to its steps.
    const double one = json["sizes"][0]["step_device_us"],
                 five = json["sizes"][1]["step_device_us"],
                 fifty = json["sizes"][2]["step_device_us"];
    CHECK((one - fifty) / (five - fifty) == doctest::Approx((1 - 1.0 / 50) / (0.2 - 1.0 / 50)));
  }
}

TEST_CASE("bench loop: four timelines with the round trips and transfers of a hundred steps") {
  const TempFolder folder;
  const std::string file = folder.file("loop.json");
  constexpr int64_t kBatch = 20;
  struct Timeline {
    const char* name;
    int64_t launches, round_trips, results;
    bool fed_by_host;
  };
  const Timeline expected[] = {{"host-driven", 100, 100, 100, true},
                               {"While on the host", 100, 100, 100, true},
                               {"asynchronous feeding only", 100, 100, 100, false},
                               {"sunk", 1, 1, 1, false}};
  for (const std::string backend : {"npu", "cpu"}) {
    CAPTURE(backend);
    const ToolResult run =
        run_tool({"bench", "loop", "--backend", backend, "--batch", std::to_string(kBatch),
                  "--sizes", "10", "--seconds", "0.02", "--json", file});
    REQUIRE(run.exit_code == 0);
    const auto json = read_json(file);
    REQUIRE(json["timelines"].size() == 4);
    for (size_t i = 0; i < 4; ++i) {
      const auto& row = json["timelines"][i];
      const Timeline& wanted = expected[i];
      CAPTURE(wanted.name);
      CHECK(row["name"] == wanted.name);
      CHECK(contains(run.out, wanted.name));
      CHECK(row["data_sink"] == !wanted.fed_by_host);
      CHECK(row["steps"] == 100);
      CHECK(row["launches"] == wanted.launches);
      CHECK(row["round_trips"] == wanted.round_trips);
      CHECK(row["copies_to_host"] == wanted.results);
      CHECK(row["bytes_to_host"] == wanted.results * 4);
      // The host copies images and labels; a slot of the queue is one copy, its fields at multiples
      // of 64 bytes; on the cpu the producer writes where the device reads.
      const int64_t slot = kBatch * 784 + 64, fields = kBatch * 785;
      const int64_t copies = wanted.fed_by_host ? 200 : backend == "npu" ? 100 : 0;
      CHECK(row["copies_to_device"] == copies);
      CHECK(row["bytes_to_device"] == (wanted.fed_by_host ? 100 * fields : copies * slot));
      CHECK(row["step_us"].get<double>() > 0);
      CHECK(row["busy_us"].get<double>() > 0);
      CHECK(row["launch_us"].get<double>() >= 0);
      CHECK(row.contains("device_us") == (backend == "npu"));
    }
    if (backend != "npu") continue;
    // 25 us a launch on the device clock, and the same work.
    const auto device_us = [&](size_t i) {
      return json["timelines"][i]["device_us"].get<double>();
    };
    CHECK(device_us(0) == device_us(1));
    CHECK(device_us(2) - device_us(3) == doctest::Approx(99 * 25.0).epsilon(0.02));
    CHECK(device_us(3) < device_us(2));
    CHECK(device_us(2) < device_us(0));
  }
}

// Both suites named device 0 whatever the device was.
TEST_CASE("bench loop and feed name the device that the environment chooses") {
  for (const char* suite : {"loop", "feed"}) {
    Words words = {"bench",   suite, "--seconds", "0.01",
                   "--batch", "2",   "--data",    small_data().path()};
    if (std::string(suite) == "loop") words.insert(words.end(), {"--sizes", "10"});
    const ToolResult run = run_tool(words, {{"ASCEND_DEVICE_ID", "3"}});
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    CHECK_MESSAGE(contains(run.out, "softmax on npu:3, "), run.out);
  }
}

// Lines went back and forth in the order of the sizes.
TEST_CASE("bench: lines of a page go from left to right whatever the order of the sizes") {
  const TempFolder folder;
  const std::string html = folder.file("page.html");
  for (const Words& suite :
       {Words{"loop", "--sizes", "100,1,10", "--seconds", "0.01", "--batch", "2"},
        Words{"compile", "--sizes", "60,20,40", "--backends", "ref"}}) {
    CAPTURE(suite[0]);
    Words words = {"bench"};
    words.insert(words.end(), suite.begin(), suite.end());
    words.insert(words.end(), {"--html", html});
    const ToolResult run = run_tool(words);
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    const std::string page = read_text(html);
    size_t lines = 0;
    const std::regex path("<path d=\"([^\"]*)\" class=\"line"), place("[ML]([0-9.]+) ");
    for (std::sregex_iterator it(page.begin(), page.end(), path), end; it != end; ++it, ++lines) {
      const std::string line = (*it)[1];
      double last = 0;
      for (std::sregex_iterator at(line.begin(), line.end(), place); at != end; ++at) {
        CHECK(std::stod((*at)[1]) >= last);
        last = std::stod((*at)[1]);
      }
    }
    CHECK(lines >= 2);
  }
}

// The words of the command stood there without quotes, and with bytes that are no UTF-8.
TEST_CASE("bench: the command on a page can be run again whatever its words are") {
  const TempFolder folder;
  const std::string html = folder.file("it's <a> page");
  for (const std::string name : {"m\xff z's\\n", "$HOME & \"x\" \xc3\xa9", "two\nlines"}) {
    const std::string data = folder.file(name);
    std::filesystem::create_directory_symlink(small_data().path(), data);
    const Words words = {"bench", "feed", "--data", data, "--seconds", "0.01", "--html", html};
    const ToolResult run = run_tool(words);
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    const std::string page = read_text(html);
    CHECK(page.find('\xff') == std::string::npos);
    const size_t begin = page.find("<code>") + 6;
    std::string command = page.substr(begin, page.find("</code>") - begin);
    for (const auto& [entity, character] :
         {std::pair("&lt;", "<"), {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}})
      command = std::regex_replace(command, std::regex(entity), character);
    CAPTURE(command);
    std::string expected;
    for (const std::string& word : words) expected += word + "|";
    CHECK(run_bash("keel() { printf '%s|' \"$@\"; }\n" + command, {}).out == expected);
  }
}

TEST_CASE("bench feed: stages and occupancy and a verdict") {
  const TempFolder folder;
  const std::string file = folder.file("feed.json");
  const ToolResult run = run_tool(
      {"bench", "feed", "--map", "normalise", "--depth", "4", "--seconds", "0.05", "--json", file});
  REQUIRE(run.exit_code == 0);
  const auto json = read_json(file);
  CHECK(json["suite"] == "feed");
  REQUIRE(json["stages"].size() == 5);
  CHECK(json["stages"][2]["name"] == "map(normalise)");
  CHECK(json["stages"][3]["name"] == "copy to the device");
  CHECK(json["stages"][4]["name"] == "hand over to the device");
  double so_far = std::numeric_limits<double>::infinity();
  for (const auto& stage : json["stages"]) {
    CHECK(stage["images_per_second"].get<double>() > 0);
    CHECK(stage["images_per_second"].get<double>() <= so_far);  // a stage more is no faster
    so_far = stage["images_per_second"];
    CHECK(stage["own_us"].get<double>() >= 0);
  }
  CHECK(json["queue_depth"] == 4);
  REQUIRE(json["queue_occupancy"].size() == 5);
  int64_t dequeues = 0;
  for (const auto& count : json["queue_occupancy"]) dequeues += count.get<int64_t>();
  CHECK(dequeues % 100 == 0);  // whole launches of 100 steps
  CHECK(dequeues > 0);
  CHECK(json["verdict"].get<std::string>().starts_with("bound by "));
  CHECK(contains(run.out, json["verdict"].get<std::string>()));
}

TEST_CASE("bench: what is wrong is told and nothing is written") {
  const TempFolder folder;
  const std::string file = folder.file("out.json");
  const struct {
    Words words;
    const char* part;
  } cases[] = {{{"bench", "lop"}, "did you mean 'loop'"},
               {{"bench", "loop", "--sizes", "1,x"}, "--sizes"},
               {{"bench", "loop", "--sizes", "1,"}, "--sizes"},
               {{"bench", "loop", "--sizes", "0"}, "--sizes"},
               {{"bench", "loop", "--seconds", "-1"}, "--seconds"},
               {{"bench", "loop", "--threads", "0"}, "--threads"},
               {{"bench", "loop", "--batch", "0"}, "--batch"},
               {{"bench", "feed", "--threads", "0"}, "--threads"},
               {{"bench", "feed", "--map", "blur"}, "--map"},
               {{"bench", "feed", "--map-threads", "0"}, "--map-threads"},
               {{"train", "--loop-size", "autos"}, "--loop-size"},
               {{"train", "--loop-size", "-5ms"}, "--loop-size"},
               {{"train", "--loop-size", "ms"}, "--loop-size"}};
  for (const auto& c : cases) {
    CAPTURE(join(c.words));
    Words words = c.words;
    if (words[0] == "bench" && words.size() > 2) words.insert(words.end(), {"--json", file});
    const ToolResult run = run_tool(words);
    CHECK(run.exit_code == 2);
    CHECK(contains(run.err, c.part));
    CHECK(lines_of(run.err).size() == 1);
    CHECK_FALSE(std::filesystem::exists(file));
  }
  CHECK(run_tool({"bench"}).exit_code == 2);
  CHECK(run_tool({"bench", "--help"}).exit_code == 0);
}

TEST_CASE("train: a loop size that is found gives the same bits") {
  const TempFolder folder;
  const auto train = [&](const std::string& size) {
    const std::string summary = folder.file("summary.json");
    const ToolResult run =
        run_tool({"train", "--steps", "700", "--loop-size", size, "--summary", summary});
    REQUIRE(run.exit_code == 0);
    const auto json = read_json(summary);
    CHECK(json["loop_size"].get<int64_t>() >= 1);
    CHECK(contains(run.out, "loop size: ") == (size != "100"));
    return json["state_sha256"].get<std::string>();
  };
  const std::string fixed = train("100");
  CHECK(train("auto") == fixed);
  CHECK(train("5ms") == fixed);
}

TEST_SUITE_END();

}  // namespace keel_test
