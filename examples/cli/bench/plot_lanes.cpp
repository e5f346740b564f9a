#include <algorithm>

#include <fmt/core.h>

#include "cli/base/html.h"
#include "cli/bench/plot.h"
#include "cli/bench/plot_scale.h"
#include "cli/bench/plot_svg.h"

namespace keel_cli {
namespace {

std::string draw_span(const LanePlot& plot, const LanePlot::Span& span, const PlotScale& x,
                      double y, double height) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" class=\"mark "
      "c{}\"><title>{}</title></rect>\n",
      x.place(span.begin), y, x.place(span.end) - x.place(span.begin), height,
      plot.kinds.at(span.kind).colour, escape_html(span.note));
}

}  // namespace

std::string draw(const LanePlot& plot) {
  constexpr double kSpan = 16;  // height
  std::vector<LegendEntry> entries;
  for (const LanePlot::Kind& kind : plot.kinds)
    entries.push_back({kind.name, {kind.colour, 1}, false});
  std::vector<std::string> names;
  std::vector<double> ends;
  for (const LanePlot::Lane& lane : plot.lanes) {
    names.push_back(lane.name);
    for (const LanePlot::Span& span : lane.spans) ends.push_back(span.end);
  }
  const double left = left_of_names(names);
  double top = kPlotTop;
  const std::string keys = legend(entries, std::min(left, 120.0), top);
  const double bottom = top + kPlotRow * static_cast<double>(plot.lanes.size());
  const PlotScale x(ends, false, left, kPlotRight);
  std::string svg = open_plot(plot.id, plot.title, bottom + 48) + keys;
  for (const double tick : x.ticks()) {
    svg += line_between(x.place(tick), top, x.place(tick), bottom, "grid");
    svg += text_at(x.place(tick), bottom + 19, "tick middle", short_number(tick));
  }
  double y = top;
  for (const LanePlot::Lane& lane : plot.lanes) {
    if (lane.first && y > top) svg += line_between(left, y, kPlotRight, y, "axis");
    for (const LanePlot::Span& span : lane.spans)
      svg += draw_span(plot, span, x, y + (kPlotRow - kSpan) / 2, kSpan);
    svg += text_at(left - 8, y + (kPlotRow + kSpan) / 2 - 4, "label end", lane.name);
    y += kPlotRow;
  }
  svg += line_between(left, top, left, bottom, "axis");
  svg += text_at((left + kPlotRight) / 2, bottom + 40, "title middle", plot.axis);
  return svg + "</svg>\n";
}

}  // namespace keel_cli
