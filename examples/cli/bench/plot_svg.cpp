#include "cli/bench/plot_svg.h"

#include <algorithm>

#include <fmt/core.h>

#include "cli/base/html.h"

namespace keel_cli {
namespace {

constexpr double kPlotWidth = 720;
constexpr double kLegendLine = 20;

}  // namespace

std::string text_at(double x, double y, const char* style, const std::string& text,
                    const std::string& more) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\"{}>{}</text>\n", x, y, style,
                     more, escape_html(text));
}

std::string line_between(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2,
      y2, style);
}

std::string shape_at(double x, double y, const Look& look, const std::string& style,
                     const std::string& note) {
  const std::string end =
      fmt::format(" class=\"{}c{}\">{}", style, look.colour,
                  note.empty() ? "" : "<title>" + escape_html(note) + "</title>");
  switch (look.shape % 4) {
    case 1:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"9\" height=\"9\"{}</rect>\n",
                         x - 4.5, y - 4.5, end);
    case 2:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l6 6l-6 6l-6 -6z\"{}</path>\n", x, y - 6, end);
    case 3:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l5.5 10h-11z\"{}</path>\n", x, y - 6, end);
    default:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"{}</circle>\n", x, y, end);
  }
}

std::string legend(const std::vector<LegendEntry>& entries, double left, double& y) {
  size_t letters = 0;
  for (const LegendEntry& entry : entries) letters = std::max(letters, entry.name.size());
  const double column = 30 + kPlotLetter * static_cast<double>(letters) + 16;
  std::string svg;
  double x = left;
  for (const LegendEntry& entry : entries) {
    if (x > left && x + column - 16 > kPlotRight) {
      x = left;
      y += kLegendLine;
    }
    if (entry.line)
      svg += line_between(x, y, x + 22, y, fmt::format("line l{}", entry.look.colour));
    svg += shape_at(x + 11, y, entry.look, "key ", "");
    svg += text_at(x + 30, y + 4, "label", entry.name);
    x += column;
  }
  if (!entries.empty()) y += kLegendLine;
  return svg;
}

std::string open_plot(const std::string& id, const std::string& title, double height) {
  return fmt::format(
      "<svg id=\"{}\" class=\"plot\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-label=\"{}\">\n",
      escape_html(id), kPlotWidth, height, escape_html(title));
}

double left_of_names(const std::vector<std::string>& names) {
  size_t letters = 0;
  for (const std::string& name : names) letters = std::max(letters, name.size());
  return std::min(340.0, 16 + kPlotLetter * static_cast<double>(letters));
}

}  // namespace keel_cli
