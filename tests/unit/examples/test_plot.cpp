// Plots of `keel bench --html`: where values lie, where ticks are, and what becomes of text.
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/bench/plot.h"
#include "cli/bench/plot_scale.h"
#include "support/count_of.h"
#include "support/error_of.h"

namespace keel_test {
namespace {

using keel_cli::PlotScale;

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("plot scale: linear from zero with round ticks") {
  const PlotScale scale({12, 95, 3}, false, 100, 500);
  CHECK(scale.ticks() == std::vector<double>{0, 20, 40, 60, 80});
  CHECK(scale.place(0) == 100);
  CHECK(scale.place(95) < 500);
  CHECK(scale.place(95) > 470);
  // Equal differences lie equally far apart.
  CHECK(scale.place(40) - scale.place(20) == doctest::Approx(scale.place(80) - scale.place(60)));
  // From below, as y axes are.
  CHECK(PlotScale({1}, false, 300, 0).place(0) == 300);
}

TEST_CASE("plot scale: equal factors lie equally far apart where it is logarithmic") {
  const PlotScale scale({1, 1000}, true, 0, 600);
  CHECK(scale.ticks() == std::vector<double>{1, 10, 100, 1000});
  CHECK(scale.place(10) - scale.place(1) == doctest::Approx(scale.place(1000) - scale.place(100)));
  CHECK(scale.place(1) > 0);
  CHECK(scale.place(1000) < 600);
  const PlotScale own({1, 16, 100}, true, 0, 600, true);
  CHECK(own.ticks() == std::vector<double>{1, 16, 100});
}

TEST_CASE("plot scale: nothing and what is no number leaves a scale that works") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<double>& values : {std::vector<double>{}, {nan}, {0}, {-1}}) {
    for (const bool log : {false, true}) {
      const PlotScale scale(values, log, 0, 100);
      CHECK(scale.place(1) == scale.place(1));
      CHECK(scale.ticks().size() < 20);
    }
  }
}

TEST_CASE("plots: one mark for each datum and text that is safe") {
  const std::string lines = keel_cli::draw(
      keel_cli::LinePlot{"id",
                         "t",
                         {"x <b>", true},
                         {"y & y"},
                         {{"a\"", {1, 0}, {{1, 2}, {10, 3, 0.1}}}, {"b", {2, 1}, {{1, 5}}}}});
  CHECK(count_of("class=\"mark ", lines) == 3);
  CHECK(count_of("class=\"line l1\"", lines) == 2);  // the legend's and the plot's
  CHECK(count_of("whisker l1", lines) == 1);
  CHECK(contains(lines, "x &lt;b&gt;"));
  CHECK(contains(lines, "y &amp; y"));
  CHECK_FALSE(contains(lines, "<b>"));
  const std::string bars = keel_cli::draw(keel_cli::BarPlot{
      "id", "t", "us", {"one", "two"}, {{"p", 1, {1, 0}}, {"q", 2, {2, 3}}}, {}, {}});
  CHECK(count_of("class=\"mark ", bars) == 4);
  CHECK(contains(bars, "two, q: 3 (us)"));
}

// The places along x of all elements with the attribute, and behind a value's place its text.
std::vector<double> places_of(const std::string& svg, const std::string& attribute) {
  std::vector<double> places;
  for (size_t at = svg.find(attribute); at != std::string::npos; at = svg.find(attribute, at + 1))
    places.push_back(std::stod(svg.substr(at + attribute.size())));
  return places;
}

TEST_CASE("plots: bars and their whiskers and values stay in the picture") {
  for (const double spread : {0.0, 0.3, 1.157, 40.0}) {
    CAPTURE(spread);
    keel_cli::BarPlot plot{"id", "t", "us", {"3 threads", "1 thread"}, {{"", 1, {78.21, 71.66}}}};
    plot.spreads = {spread, 0.3};
    const std::string svg = keel_cli::draw(plot);
    CHECK(contains(svg, "viewBox=\"0 0 720 "));
    for (const double x : places_of(svg, " x2=\"")) CHECK(x <= 720);
    // Values have room for some digits.
    for (const double x : places_of(svg, "<text x=\"")) CHECK(x <= 720 - 30);
  }
}

TEST_CASE("plots: lanes have a mark for each span where and as long as it is") {
  using keel_cli::LanePlot;
  LanePlot plot{"id", "t", "wall time, us", {{"launch", 6}, {"busy <all>", 8}}};
  plot.lanes = {{"host", {{0, 25, 0, "a launch"}}},
                {"device", {{25, 75, 1, ""}, {75, 100, 1, ""}}}};
  const std::string lanes = keel_cli::draw(plot);
  CHECK(count_of("class=\"mark ", lanes) == 3);
  CHECK(count_of("class=\"mark c8\"", lanes) == 2);
  CHECK(contains(lanes, "<title>a launch</title>"));
  CHECK(contains(lanes, "busy &lt;all&gt;"));
  CHECK(contains(lanes, ">wall time, us<"));
  // Widths are as the lengths, which have two digits.
  const auto width_of = [&](size_t mark) {
    size_t at = 0;
    for (size_t i = 0; i <= mark; ++i) at = lanes.find("class=\"mark ", at + 1);
    at = lanes.rfind("width=\"", at) + 7;
    return std::stod(lanes.substr(at));
  };
  CHECK(width_of(1) == doctest::Approx(2 * width_of(0)).epsilon(0.01));
  CHECK(width_of(0) == doctest::Approx(width_of(2)).epsilon(0.01));
}

TEST_CASE("plots: a series is found by its name or added behind the others") {
  std::vector<keel_cli::Series> all;
  keel_cli::series_named(all, "a", {3, 1}).marks.push_back({1, 2});
  keel_cli::series_named(all, "b", {2, 0}).marks.push_back({1, 5});
  keel_cli::series_named(all, "a", {7, 7}).marks.push_back({2, 3});
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "a");
  CHECK(all[0].look.colour == 3);
  CHECK(all[0].marks.size() == 2);
  CHECK(all[1].marks[0].y == 5);
}

TEST_CASE("plots: numbers are short") {
  CHECK(keel_cli::short_number(0) == "0");
  CHECK(keel_cli::short_number(0.03125) == "0.0312");
  CHECK(keel_cli::short_number(640.4) == "640");
  CHECK(keel_cli::short_number(1003) == "1003");
  CHECK(keel_cli::short_number(1.25e6) == "1.25M");
  CHECK(keel_cli::short_number(std::numeric_limits<double>::infinity()) == "-");
}

TEST_SUITE_END();

}  // namespace keel_test
