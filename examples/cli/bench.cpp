#include "cli/bench.h"

#include <algorithm>
#include <iostream>

#include "cli/commands.h"

namespace keel_cli {
namespace {

struct Suite {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& words);
};

constexpr Suite kSuites[] = {
    {"loop", "what a step costs by loop size, and where its time goes", bench_loop},
    {"feed", "what feeding can do, stage by stage, and what a training waits for", bench_feed},
};

void print_suites(std::ostream& out) {
  out << "usage: keel bench SUITE [flags]\n";
  for (const Suite& suite : kSuites) {
    out << "  " << suite.name << std::string(8 - std::string(suite.name).size(), ' ')
        << suite.summary << "\n";
  }
  out << "\n`keel bench SUITE --help` lists the flags of a suite.\n";
}

}  // namespace

void declare_bench_flags(CommandLine& line) {
  declare_run_flags(line);
  line.add("batch", "N", "images a step (softmax 100, mlp 128)");
  line.add("seconds", "S", "wall time spent on each row (1)");
  line.add("json", "FILE", "the table as one JSON object");
}

BenchFlags read_bench_flags(const CommandLine& line) {
  BenchFlags flags;
  flags.model = &keel_examples::find_model(line.text("model").value_or("softmax"));
  flags.data = line.text("data").value_or(flags.data);
  flags.backend = read_backend(line);
  flags.batch =
      line.integer("batch", 1, int64_t{1} << 30).value_or(flags.model->name == "mlp" ? 128 : 100);
  flags.threads = read_threads(line);
  flags.seconds = line.number("seconds", 1e-3, 1e6).value_or(flags.seconds);
  flags.json = line.text("json").value_or("");
  return flags;
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](size_t quarters) {
    return values[std::min(values.size() - 1, values.size() * quarters / 4)];
  };
  return {at(2), at(2) == 0 ? 0 : (at(3) - at(1)) / 2 / at(2)};
}

int run_bench(const std::vector<std::string>& words) {
  if (words.empty()) {
    print_suites(std::cerr);
    return kExitWrongArgument;
  }
  if (words[0] == "--help") {
    print_suites(std::cout);
    return kExitDone;
  }
  std::vector<std::string> names;
  for (const Suite& suite : kSuites) {
    if (words[0] == suite.name) return suite.run({words.begin() + 1, words.end()});
    names.push_back(suite.name);
  }
  keel::parse_choice(words[0], "keel bench", names);
  return kExitWrongArgument;
}

}  // namespace keel_cli
