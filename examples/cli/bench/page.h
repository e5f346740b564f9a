// The page of `keel bench --html`: everything in one file, no scripts, no outer resources. Made of
// a suite's JSON alone, so that what it shows is what was written. Pure but for the machine's
// description and the date.
#ifndef KEEL_EXAMPLES_CLI_BENCH_PAGE_H
#define KEEL_EXAMPLES_CLI_BENCH_PAGE_H

#include <string>
#include <utility>
#include <vector>

#include <keel/core/base/json.h>

namespace keel_cli {

// A plot or several, with what is said about them and the table behind them.
struct Figure {
  std::string title;
  std::string caption;
  std::vector<std::string> plots;  // SVG
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};
struct Section {
  std::string title;
  std::string caption;
  std::vector<Figure> figures;
};

// By suite: from its JSON to what the page shows of it.
Section train_section(const keel::Json& json);
Section kernels_section(const keel::Json& json);
Section loop_section(const keel::Json& json);
// The four timelines of the loop suite; `name` tells its plots from those of other sections.
std::vector<Figure> timeline_figures(const keel::Json& json, const std::string& name);
Section feed_section(const keel::Json& json);
Section compile_section(const keel::Json& json);
Section ranks_section(const keel::Json& json);

// The time of a row in us, as tables show it.
std::string us_of(const keel::Json& row, const char* key);

// The colour of a backend, the same on every plot.
int colour_of_backend(const std::string& backend);

// `result` is what the suite measured; `command` the words of the line that made it.
std::string bench_page(const std::string& suite, const keel::Json& result,
                       const std::vector<std::string>& command);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_PAGE_H
