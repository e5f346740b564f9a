#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/base/pass_flags.h"
#include "cli/bench/bench.h"
#include "cli/bench/compile_cases.h"
#include "cli/bench/compile_counts.h"

namespace keel_cli {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// From nothing to a program that can be launched, once, in us of wall time. total also holds the
// states' first values, which the phases leave out.
struct Compilation {
  double build = 0;          // the user's code adds nodes
  double differentiate = 0;  // the gradient is asked for, and expanded by specialise
  double compile = 0;        // all other passes, and the backend's compiler
  double total = 0;
};

struct CompileSuiteFlags {
  std::vector<std::string> backends;
  std::vector<int64_t> sizes;
  int rounds = kRounds;
  std::vector<std::string> disabled_passes;
};

struct CompileRow {
  const CompileCase* graph = nullptr;
  std::string backend;
  int64_t size = 0;
  std::vector<Compilation> rounds = {};
  int64_t built = 0;
  std::vector<std::vector<keel::PassReport>> passes = {};  // by round, each time the same ones
  size_t scratch_bytes = 0, scratch_lower_bound = 0;

  Spread spread(double Compilation::*phase) const { return spread_of(rounds, phase); }
  double pass_us(size_t pass) const {
    std::vector<double> us;
    for (const auto& round : passes) us.push_back(static_cast<double>(round[pass].wall_ns) * 1e-3);
    return spread_of(std::move(us)).median;
  }
  // Scratch against the most bytes that are live at once; 1 where nothing is needed.
  double plan_ratio() const {
    return scratch_lower_bound == 0
               ? 1
               : static_cast<double>(scratch_bytes) / static_cast<double>(scratch_lower_bound);
  }
};

constexpr std::pair<const char*, double Compilation::*> kPhases[] = {
    {"build", &Compilation::build},
    {"differentiate", &Compilation::differentiate},
    {"compile", &Compilation::compile},
    {"total", &Compilation::total}};

void compile_once(CompileRow& row, const std::vector<std::string>& disabled_passes) {
  Compilation took;
  const auto start = Clock::now();
  keel::Graph graph;
  const keel::Value loss = row.graph->build(graph, row.size);
  took.build = us_since(start);
  row.built = static_cast<int64_t>(graph.size());
  const auto asked = Clock::now();
  const keel::Update update = keel::sgd(0.01).minimize(loss);
  took.differentiate = us_since(asked);
  keel::Session session(graph, keel::device(row.backend), {.disabled_passes = disabled_passes});
  const keel::Loop loop = session.sink({.update = update, .fetches = {loss}});
  took.total = us_since(start);
  row.passes.push_back(loop.compile_report().passes);
  for (const keel::PassReport& pass : row.passes.back()) {
    (pass.name == "specialise" ? took.differentiate : took.compile) +=
        static_cast<double>(pass.wall_ns) * 1e-3;
  }
  const keel::ProgramInfo& info = loop.program().info();
  row.scratch_bytes = info.scratch_bytes;
  row.scratch_lower_bound = info.scratch_lower_bound;
  row.rounds.push_back(took);
}

// The slope of log(time) over log(nodes), by least squares: 1 is linear. REQUIRES graphs of
// different sizes.
double exponent(const std::vector<const CompileRow*>& rows, double Compilation::*phase) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const CompileRow* row : rows) {
    const double x = std::log(static_cast<double>(row->built));
    const double y = std::log(std::max(1e-3, row->spread(phase).median));
    n += 1;
    sx += x;
    sy += y;
    sxx += x * x;
    sxy += x * y;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

bool same_size(const std::vector<const CompileRow*>& rows) {
  return std::all_of(rows.begin(), rows.end(),
                     [&](const CompileRow* row) { return row->built == rows.front()->built; });
}

class CompileBench {
 public:
  explicit CompileBench(const CompileSuiteFlags& flags) : flags_(flags) {
    for (const CompileCase& graph : compile_cases()) {
      for (const std::string& backend : flags.backends) {
        for (const int64_t size : flags.sizes) rows_.push_back({&graph, backend, size});
      }
    }
  }

  keel::Json run() {
    for (int round = 0; round < flags_.rounds; ++round) {
      for (CompileRow& row : rows_) compile_once(row, flags_.disabled_passes);
    }
    keel::Json json;
    json["rounds"] = flags_.rounds;
    json["rows"] = keel::Json::array();
    json["growth"] = keel::Json::array();
    std::cout << fmt::format(
        "compiling training steps, wall time in ms, medians of {} rounds\n"
        "{:<10} {:<8} {:>7} {:>8} {:>8} {:>8} {:>9} {:>13} {:>9} {:>9} {:>6} {:>7}\n",
        flags_.rounds, "graph", "backend", "nodes", "gradient", "fused", "tasks", "build",
        "differentiate", "compile", "total", "+-%", "memory");
    for (const CompileRow& row : rows_) add(row, json["rows"]);
    std::cout << "memory: the plan's bytes against the most that are live at once\n";
    add_growth(json["growth"]);
    return json;
  }

 private:
  static void add(const CompileRow& row, keel::Json& table) {
    keel::Json entry;
    entry["graph"] = row.graph->name;
    entry["backend"] = row.backend;
    entry["size"] = row.size;
    entry["nodes"] = row.built;
    for (size_t i = 0; i < row.passes.back().size(); ++i) {
      const keel::PassReport& pass = row.passes.back()[i];
      entry["passes"].push_back({{"name", pass.name},
                                 {pass.name == "backend" ? "tasks" : "nodes", pass.nodes},
                                 {"us", row.pass_us(i)}});
    }
    for (const auto& [name, phase] : kPhases) {
      entry[std::string(name) + "_us"] = row.spread(phase).median;
      entry[std::string(name) + "_spread"] = row.spread(phase).share;
    }
    entry["scratch_bytes"] = row.scratch_bytes;
    entry["scratch_lower_bound"] = row.scratch_lower_bound;
    entry["memory_plan_ratio"] = row.plan_ratio();
    table.push_back(entry);
    const CompileCounts counts = counts_of_passes(entry["passes"]);
    const auto ms = [&](double Compilation::*phase) { return row.spread(phase).median * 1e-3; };
    std::cout << fmt::format(
        "{:<10} {:<8} {:>7} {:>8} {:>8} {:>8} {:>9.2f} {:>13.2f} {:>9.2f} {:>9.2f} {:>6.1f} "
        "{:>7.3f}\n",
        row.graph->name, row.backend, row.built, counts.gradient, counts.fused, counts.tasks,
        ms(&Compilation::build), ms(&Compilation::differentiate), ms(&Compilation::compile),
        ms(&Compilation::total), row.spread(&Compilation::total).share * 100, row.plan_ratio());
  }

  void add_growth(keel::Json& table) const {
    for (const CompileCase& graph : compile_cases()) {
      for (const std::string& backend : flags_.backends) {
        std::vector<const CompileRow*> rows;
        for (const CompileRow& row : rows_) {
          if (row.graph == &graph && row.backend == backend) rows.push_back(&row);
        }
        if (same_size(rows)) continue;
        if (table.empty()) std::cout << "\ntime grows as nodes to the power of\n";
        keel::Json entry{{"graph", graph.name}, {"backend", backend}};
        std::cout << fmt::format("{:<10} {:<8}", graph.name, backend);
        for (const auto& [name, phase] : kPhases) {
          entry[name] = exponent(rows, phase);
          std::cout << fmt::format("  {} {:.2f}", name, exponent(rows, phase));
        }
        std::cout << "\n";
        table.push_back(entry);
      }
    }
  }

  const CompileSuiteFlags& flags_;
  std::vector<CompileRow> rows_;
};

void declare_compile_suite(CommandLine& line) {
  declare_backends(line, "cpu,npu");
  line.add("sizes", "N,N,...", "nodes that the user's code makes, about (100,1000,10000)");
  line.add("rounds", "N", "how often each graph is built and compiled (5)");
  declare_pass_flag(line);
}

keel::Json measure_compile(const CommandLine& line) {
  CompileSuiteFlags flags;
  flags.backends = read_backends(line, {"cpu", "npu"});
  flags.sizes = line.integers("sizes", 1, 1 << 20, {100, 1000, 10000});
  flags.rounds = static_cast<int>(line.integer("rounds", 1, 1000).value_or(kRounds));
  flags.disabled_passes = read_disabled_passes(line);
  return CompileBench(flags).run();
}

}  // namespace

Suite compile_suite() {
  return {"compile", "how building, differentiating and compiling grow with a graph",
          declare_compile_suite, measure_compile};
}

}  // namespace keel_cli
