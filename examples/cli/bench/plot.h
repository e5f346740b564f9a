// Plots as SVG text: lines and points on linear or log axes, bars, and lanes. Colours are CSS
// classes (c1 .. c8 of the page's style), so that a page chooses them for light and dark. Every
// datum is one element of class "mark". Pure functions; any thread.
#ifndef KEEL_EXAMPLES_CLI_BENCH_PLOT_H
#define KEEL_EXAMPLES_CLI_BENCH_PLOT_H

#include <string>
#include <utility>
#include <vector>

namespace keel_cli {

struct Axis {
  std::string title;  // with its unit
  bool log = false;   // positive values only
};

// A series is told from the others by a colour from 1 to 8 and a shape from 0 to 3.
struct Look {
  int colour = 1;
  int shape = 0;
};

struct Mark {
  double x = 0;
  double y = 0;
  double spread = 0;      // of y, as a share of it: drawn as a whisker to both sides
  std::string note = {};  // what a reader sees who points at it
};

struct Series {
  std::string name;
  Look look;
  std::vector<Mark> marks;
  bool line = true;  // between the marks
};

// The one of that name, added behind the others where there is none yet.
Series& series_named(std::vector<Series>& all, const std::string& name, const Look& look);

// A line without data of its own, such as a limit, drawn dashed and named at its end.
struct Guide {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

struct LinePlot {
  std::string id;
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::vector<Guide> guides = {};
};
// The marks of a series may come in any order.
std::string draw(LinePlot plot);

// Horizontal bars, one row for each category, made of the layers one after the other.
struct BarPlot {
  struct Layer {
    std::string name;  // "" where a legend would say nothing
    int colour = 1;
    std::vector<double> values = {};  // by category
  };
  std::string id;
  std::string title;
  std::string axis;  // its title, with the unit
  std::vector<std::string> categories;
  std::vector<Layer> layers;
  std::vector<double> spreads = {};  // of the whole bar, as a share; may be empty
  std::vector<int> colours = {};     // by category, instead of the only layer's
};
std::string draw(const BarPlot& plot);

// Lanes on one axis of time that begins at 0: what happens beside what, and for how long.
struct LanePlot {
  struct Kind {
    std::string name;  // in the legend
    int colour = 1;
  };
  struct Span {
    double begin = 0, end = 0;
    size_t kind = 0;   // its place among the kinds
    std::string note;  // what a reader sees who points at it
  };
  struct Lane {
    std::string name;
    std::vector<Span> spans = {};
    bool first = false;  // of a group of lanes: a line is above it
  };
  std::string id;
  std::string title;
  std::string axis;  // its title, with the unit
  std::vector<Kind> kinds;
  std::vector<Lane> lanes = {};
};
std::string draw(const LanePlot& plot);

// "1.25M", "640", "0.031": three digits at most that mean something.
std::string short_number(double value);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_PLOT_H
