// The page of `keel bench --html`, opened by a headless browser: every plot is there, with as many
// marks as the JSON has rows, and a reader sees each mark in its colour where it should be, in
// light and dark.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "cli/browser.h"
#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace keel_test {
namespace {

using nlohmann::json;

size_t rows_where(const json& rows, const json& wanted) {
  return static_cast<size_t>(std::count_if(rows.begin(), rows.end(), [&](const json& row) {
    for (const auto& [key, value] : wanted.items()) {
      if (row[key] != value) return false;
    }
    return true;
  }));
}

// How many marks each plot has to have, by id, from the JSON of `keel bench all --tiny`.
std::map<std::string, size_t> expected_marks(const json& all) {
  const json& train = all["suites"]["train"];
  std::map<std::string, size_t> marks = {
      {"train-loop_size-softmax", rows_where(train["rows"], {{"batch", 100}})},
      {"train-batch-softmax", rows_where(train["rows"], {{"loop_size", 10}})},
      {"train-steps-softmax", rows_where(train["rows"], {{"batch", 100}, {"loop_size", 10}})},
      {"train-speed-up-batch-softmax", rows_where(train["speed_ups"], {{"loop_size", 10}})},
      {"train-memory-batch-softmax", train["processes"].size()},
      {"train-device-loop_size-softmax", rows_where(train["modelled"], {{"batch", 100}})}};
  const json& kernels = all["suites"]["kernels"]["rows"];
  marks["kernels-roofline-f32-1"] = kernels.size();
  size_t shares = 0;
  for (const json& row : kernels) shares += row.contains("share_of_roof");
  if (shares > 0) marks["kernels-share-f32-1"] = shares;
  for (const json& loop : all["suites"]["loop"]) {
    const std::string name = "softmax-" + loop["backend"].get<std::string>();
    marks["loop-split-" + name] = 4 * loop["sizes"].size();
    marks["loop-throughput-" + name] = loop["sizes"].size();
    if (loop["backend"] == "npu") marks["loop-device-" + name] = loop["sizes"].size();
    marks["loop-round-trips-" + name] = 3 * loop["timelines"].size();
    // Four steps of each timeline: the wait and the work of each, and the launches.
    size_t& wall = marks["loop-timelines-" + name];
    for (const json& row : loop["timelines"]) {
      wall += row["launches"] == row["steps"] ? 4 : 1;
      for (const char* part : {"queue_wait_us", "busy_us"}) wall += row[part] > 0 ? 4 : 0;
      if (loop["backend"] == "npu")
        marks["loop-device-timelines-" + name] += row["device_lanes"].size();
    }
  }
  for (const json& feed : all["suites"]["feed"]) {
    const std::string name = "softmax-" + feed["backend"].get<std::string>();
    marks["feed-rates-" + name] = feed["stages"].size() + 1;
    marks["feed-queue-" + name] = 6;  // empty, four quarters, full
  }
  const size_t compiled = all["suites"]["compile"]["rows"].size();
  marks["compile-growth"] = compiled;
  marks["compile-phases"] = 3 * compiled;
  marks["compile-memory"] = compiled;
  return marks;
}

int distance(const Colour& a, const Colour& b) {
  return std::max({std::abs(a[0] - b[0]), std::abs(a[1] - b[1]), std::abs(a[2] - b[2])});
}

// Says whether a pixel inside the mark is close to the colour. Labels, whiskers and other marks may
// lie on parts of it.
bool shows(const Picture& picture, const LaidOutMark& mark, const Colour& colour) {
  constexpr int kNear = 12, kSteps = 7;
  for (int i = 1; i < kSteps; ++i) {
    for (int j = 1; j < kSteps; ++j) {
      const Colour pixel =
          picture.at(mark.x + mark.width * i / kSteps, mark.y + mark.height * j / kSteps);
      if (distance(pixel, colour) <= kNear) return true;
    }
  }
  return false;
}

// In each plot marks may hide each other, but where one is, some mark's colour is seen; and most
// show their own.
void check_ink(const Layout& layout, const Picture& picture) {
  constexpr double kVisible = 3;  // pixels; a bar of nothing has no ink
  for (const std::string& plot : layout.plots) {
    CAPTURE(plot);
    size_t visible = 0, own = 0;
    for (const LaidOutMark& mark : layout.marks) {
      if (mark.plot != plot || mark.width < kVisible) continue;
      ++visible;
      own += shows(picture, mark, mark.colour);
      const bool inked = std::any_of(layout.marks.begin(), layout.marks.end(), [&](const auto& m) {
        return m.plot == plot && shows(picture, mark, m.colour);
      });
      CHECK(inked);
    }
    CHECK(visible > 0);
    CHECK(2 * own >= visible);
  }
}

}  // namespace

TEST_SUITE_BEGIN("browser");

TEST_CASE("bench page: every plot is there and can be seen") {
  const auto browser = Browser::find();
  if (!browser) {
    MESSAGE("keel test skipped: " << Browser::missing());
    return;
  }
  const TempFolder folder;
  const std::string html = folder.file("page.html"), file = folder.file("all.json");
  // Each of the processes that it measures would draw all of the digits.
  const DataFolder images(300, 20);
  const ToolResult run =
      run_tool({"bench", "all", "--tiny", "--backends", "npu,cpu", "--data", images.path(),
                "--seconds", "0.02", "--html", html, "--json", file});
  REQUIRE(run.err == "");
  REQUIRE(run.exit_code == 0);
  const std::string page = read_text(html);
  // Nothing runs and nothing is loaded; the page says what it shows and how it was made.
  for (const char* outer : {"<script", "http", "src=", "url(", "@import"})
    CHECK_FALSE(contains(page, outer));
  CHECK(contains(page, "keel bench all --tiny --backends npu,cpu"));
  CHECK(contains(page, "<dt>processor</dt>"));

  const auto expected = expected_marks(read_json(file));
  for (const bool dark : {false, true}) {
    CAPTURE(dark);
    const Layout layout = browser->layout(page, dark);
    std::map<std::string, size_t> marks;
    for (const LaidOutMark& mark : layout.marks) ++marks[mark.plot];
    for (const auto& plot : expected) {
      CAPTURE(plot.first);
      CHECK(marks[plot.first] == plot.second);
    }
    CHECK(marks.size() == expected.size());
    CHECK(layout.plots.size() == expected.size());
    const Picture picture = browser->picture(page, layout.height, dark);
    CHECK(picture.height == layout.height);
    const Colour paper = picture.at(5, 5);
    CHECK((paper[0] + paper[1] + paper[2] < 3 * 64) == dark);
    check_ink(layout, picture);
  }
}

TEST_CASE("bench page: wall time and device time are never on one plot") {
  const TempFolder folder;
  const std::string html = folder.file("page.html");
  const ToolResult run =
      run_tool({"bench", "loop", "--sizes", "1,10", "--seconds", "0.02", "--html", html});
  REQUIRE(run.exit_code == 0);
  const std::string page = read_text(html);
  size_t plots = 0, of_device = 0;
  for (size_t at = 0; (at = page.find("<svg", at)) != std::string::npos;) {
    const size_t end = page.find("</svg>", at);
    const std::string svg = page.substr(at, end - at);
    if (contains(svg, "id=\"loop-round-trips")) {
      CHECK_FALSE(contains(svg, " time"));
    } else {
      CHECK(contains(svg, "wall time") != contains(svg, "device time"));
      CHECK(contains(svg, "device clock") <= contains(svg, "device time"));
    }
    of_device += contains(svg, "device time");
    ++plots;
    at = end;
  }
  CHECK(plots == 6);
  CHECK(of_device == 2);
}

TEST_SUITE_END();

}  // namespace keel_test
