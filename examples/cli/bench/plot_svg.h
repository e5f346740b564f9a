// The pieces of plots: texts, lines, marks and legends as SVG, and where they lie. Pure
// functions; any thread.
#ifndef KEEL_EXAMPLES_CLI_BENCH_PLOT_SVG_H
#define KEEL_EXAMPLES_CLI_BENCH_PLOT_SVG_H

#include <string>
#include <vector>

#include "cli/bench/plot.h"

namespace keel_cli {

inline constexpr double kPlotRight = 700;
inline constexpr double kPlotTop = 16;
inline constexpr double kPlotLetter = 6.7;  // width of a letter of the plots' text, about
inline constexpr double kPlotRow = 26;      // height of a category of bars

// `style` is a class of the page; `more` further attributes.
std::string text_at(double x, double y, const char* style, const std::string& text,
                    const std::string& more = "");
std::string line_between(double x1, double y1, double x2, double y2, const std::string& style);
// The mark of a shape around a place.
std::string shape_at(double x, double y, const Look& look, const std::string& style,
                     const std::string& note);

struct LegendEntry {
  std::string name;
  Look look;
  bool line;
};
// Rows and columns of entries from (left, y) on; y moves below them.
std::string legend(const std::vector<LegendEntry>& entries, double left, double& y);
// The beginning of a plot of that height.
std::string open_plot(const std::string& id, const std::string& title, double height);
// Where rows begin whose names stand before them.
double left_of_names(const std::vector<std::string>& names);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_PLOT_SVG_H
