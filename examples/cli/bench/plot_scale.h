// PlotScale: from values to places on a plot, and where its ticks are. Plain values.
#ifndef KEEL_EXAMPLES_CLI_BENCH_PLOT_SCALE_H
#define KEEL_EXAMPLES_CLI_BENCH_PLOT_SCALE_H

#include <vector>

namespace keel_cli {

class PlotScale {
 public:
  // `values` lie between the places `from` and `to`, with a little room. A linear scale begins
  // at 0. With `own_ticks` a log scale has its ticks at the values themselves where they are few.
  PlotScale(const std::vector<double>& values, bool log, double from, double to,
            bool own_ticks = false);

  double place(double value) const;
  const std::vector<double>& ticks() const noexcept { return ticks_; }

 private:
  void choose_linear(double most);
  void choose_log(double least, double most, const std::vector<double>& own);

  bool log_;
  double from_, to_;
  double low_ = 0, high_ = 1;
  std::vector<double> ticks_;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_PLOT_SCALE_H
