#include "cli/bench/plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "cli/base/html.h"
#include "cli/bench/plot_scale.h"
#include "cli/bench/plot_svg.h"

namespace keel_cli {
namespace {

constexpr double kMostSpread = 1.5;  // that a whisker shows, as a share of its value
constexpr double kLeft = 66;         // of line plots; that of bars depends on their names

std::string note_of(const LinePlot& plot, const Series& series, const Mark& mark) {
  if (!mark.note.empty()) return mark.note;
  std::string note =
      fmt::format("{}: {} at {}", series.name, short_number(mark.y), short_number(mark.x));
  if (mark.spread > 0) note += fmt::format(", +-{:.1f} %", mark.spread * 100);
  return note + " (" + plot.y.title + " at " + plot.x.title + ")";
}

// Its ends, no longer than a plot can show.
std::pair<double, double> whisker(const Mark& mark) {
  return {mark.y * (1 - std::min(mark.spread, 0.6)),
          mark.y * (1 + std::min(mark.spread, kMostSpread))};
}

// Lines and whiskers, which lie under the marks of all series.
std::string draw_lines(const Series& series, const PlotScale& x, const PlotScale& y) {
  std::string svg, path;
  for (const Mark& m : series.marks) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x.place(m.x), y.place(m.y));
  }
  if (series.line && series.marks.size() > 1)
    svg += fmt::format("<path d=\"{}\" class=\"line l{}\"/>\n", path, series.look.colour);
  for (const Mark& m : series.marks) {
    if (m.spread <= 0) continue;
    const auto [low, high] = whisker(m);
    svg += line_between(x.place(m.x), y.place(low), x.place(m.x), y.place(high),
                        fmt::format("whisker l{}", series.look.colour));
  }
  return svg;
}

std::string draw_marks(const LinePlot& plot, const Series& series, const PlotScale& x,
                       const PlotScale& y) {
  std::string svg;
  for (const Mark& m : series.marks) {
    svg += shape_at(x.place(m.x), y.place(m.y), series.look, "mark ", note_of(plot, series, m));
  }
  return svg;
}

// Named above its end where it is level, above its middle where it climbs.
std::string draw_guide(const Guide& guide, const PlotScale& x, const PlotScale& y) {
  constexpr double kDegrees = 57.29578;
  std::string path;
  for (const auto& [px, py] : guide.points) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x.place(px), y.place(py));
  }
  const double x1 = x.place(guide.points.front().first), y1 = y.place(guide.points.front().second);
  const double x2 = x.place(guide.points.back().first), y2 = y.place(guide.points.back().second);
  const double slope = std::atan2(y2 - y1, x2 - x1) * kDegrees;
  const bool level = std::abs(slope) < 1;
  const double tx = level ? x2 - 4 : (x1 + x2) / 2, ty = level ? y2 - 5 : (y1 + y2) / 2 - 5;
  return fmt::format("<path d=\"{}\" class=\"guide\"/>\n", path) +
         text_at(tx, ty, level ? "guide-name end" : "guide-name middle", guide.name,
                 fmt::format(" transform=\"rotate({:.1f} {:.1f} {:.1f})\"", slope, tx, ty));
}

// Grid, ticks and titles around the place between `top` and `bottom`.
std::string draw_axes(const LinePlot& plot, const PlotScale& x, const PlotScale& y, double top,
                      double bottom) {
  std::string svg;
  for (const double tick : y.ticks()) {
    svg += line_between(kLeft, y.place(tick), kPlotRight, y.place(tick), "grid");
    svg += text_at(kLeft - 8, y.place(tick) + 4, "tick end", short_number(tick));
  }
  for (const double tick : x.ticks()) {
    svg += line_between(x.place(tick), bottom, x.place(tick), bottom + 5, "axis");
    svg += text_at(x.place(tick), bottom + 19, "tick middle", short_number(tick));
  }
  svg += line_between(kLeft, bottom, kPlotRight, bottom, "axis");
  svg += text_at((kLeft + kPlotRight) / 2, bottom + 40, "title middle", plot.x.title);
  const double middle = (top + bottom) / 2;
  return svg + text_at(14, middle, "title middle", plot.y.title,
                       fmt::format(" transform=\"rotate(-90 14 {:.1f})\"", middle));
}

std::string bar_note(const BarPlot& plot, const BarPlot::Layer& layer, size_t row) {
  std::string note = plot.categories[row];
  if (!layer.name.empty()) note += ", " + layer.name;
  return note + ": " + short_number(layer.values[row]) + " (" + plot.axis + ")";
}

double whole(const BarPlot& plot, size_t row) {
  double sum = 0;
  for (const BarPlot::Layer& layer : plot.layers) sum += std::max(0.0, layer.values[row]);
  return sum;
}

// How far the whisker of a bar reaches, no longer than a plot can show; without one the bar's end.
double reach(const BarPlot& plot, size_t row) {
  const double spread = row < plot.spreads.size() ? std::max(0.0, plot.spreads[row]) : 0;
  return whole(plot, row) * (1 + std::min(spread, kMostSpread));
}

// The bars of a category and its name and value, in the row whose upper edge is `top`.
std::string draw_row(const BarPlot& plot, size_t row, const PlotScale& x, double top) {
  constexpr double kBar = 16;
  const double y = top + (kPlotRow - kBar) / 2;
  std::string svg;
  double from = 0;
  for (const BarPlot::Layer& layer : plot.layers) {
    const double to = from + std::max(0.0, layer.values[row]);
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" class=\"mark "
        "c{}\"><title>{}</title></rect>\n",
        x.place(from), y, x.place(to) - x.place(from), kBar,
        plot.colours.empty() ? layer.colour : plot.colours[row],
        escape_html(bar_note(plot, layer, row)));
    from = to;
  }
  double end = x.place(from);
  if (row < plot.spreads.size() && plot.spreads[row] > 0) {
    const double low = x.place(from * (1 - std::min(1.0, plot.spreads[row])));
    end = x.place(reach(plot, row));
    svg += line_between(low, y + kBar / 2, end, y + kBar / 2, "whisker ink");
  }
  return svg + text_at(x.place(0) - 8, y + kBar - 4, "label end", plot.categories[row]) +
         text_at(end + 6, y + kBar - 4, "value", short_number(from));
}

}  // namespace

Series& series_named(std::vector<Series>& all, const std::string& name, const Look& look) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Series& series) { return series.name == name; });
  if (found != all.end()) return *found;
  return all.emplace_back(Series{name, look, {}});
}

std::string draw(LinePlot plot) {
  constexpr double kPlotHeight = 320;
  // Lines go from left to right, in whatever order their marks were measured.
  for (Series& series : plot.series) {
    std::stable_sort(series.marks.begin(), series.marks.end(),
                     [](const Mark& a, const Mark& b) { return a.x < b.x; });
  }
  std::vector<double> xs, ys;
  std::vector<LegendEntry> entries;
  for (const Series& series : plot.series) {
    entries.push_back({series.name, series.look, series.line});
    for (const Mark& m : series.marks) {
      const auto [low, high] = whisker(m);
      xs.push_back(m.x);
      ys.insert(ys.end(), {low, high});
    }
  }
  for (const Guide& guide : plot.guides) {
    for (const auto& [px, py] : guide.points) {
      xs.push_back(px);
      ys.push_back(py);
    }
  }
  double y0 = kPlotTop;
  const std::string keys = legend(entries, kLeft, y0);
  const double bottom = y0 + kPlotHeight;
  const PlotScale x(xs, plot.x.log, kLeft, kPlotRight, plot.guides.empty());
  const PlotScale y(ys, plot.y.log, bottom, y0 + 4);
  std::string svg = open_plot(plot.id, plot.title, bottom + 48) + keys;
  svg += draw_axes(plot, x, y, y0, bottom);
  for (const Guide& guide : plot.guides) svg += draw_guide(guide, x, y);
  for (const Series& series : plot.series) svg += draw_lines(series, x, y);
  for (const Series& series : plot.series) svg += draw_marks(plot, series, x, y);
  return svg + "</svg>\n";
}

std::string draw(const BarPlot& plot) {
  const double left = left_of_names(plot.categories);
  std::vector<LegendEntry> entries;
  for (const BarPlot::Layer& layer : plot.layers) {
    if (!layer.name.empty()) entries.push_back({layer.name, {layer.colour, 1}, false});
  }
  double top = kPlotTop;
  const std::string keys = legend(entries, std::min(left, 120.0), top);
  const double bottom = top + kPlotRow * static_cast<double>(plot.categories.size());
  std::vector<double> ends;
  for (size_t row = 0; row < plot.categories.size(); ++row) ends.push_back(reach(plot, row));
  const PlotScale x(ends, false, left, kPlotRight - 62);
  std::string svg = open_plot(plot.id, plot.title, bottom + 48) + keys;
  for (const double tick : x.ticks()) {
    svg += line_between(x.place(tick), top, x.place(tick), bottom, "grid");
    svg += text_at(x.place(tick), bottom + 19, "tick middle", short_number(tick));
  }
  for (size_t row = 0; row < plot.categories.size(); ++row)
    svg += draw_row(plot, row, x, top + kPlotRow * static_cast<double>(row));
  svg += line_between(left, top, left, bottom, "axis");
  svg += text_at((left + kPlotRight - 62) / 2, bottom + 40, "title middle", plot.axis);
  return svg + "</svg>\n";
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) return "-";
  if (size >= 1e9) return fmt::format("{:.3g}G", value * 1e-9);
  if (size >= 1e6) return fmt::format("{:.3g}M", value * 1e-6);
  if (size >= 1e4) return fmt::format("{:.3g}k", value * 1e-3);
  if (size >= 999.5) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

}  // namespace keel_cli
