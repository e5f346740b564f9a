#include "cli/bench/bench.h"

#include <algorithm>
#include <iostream>

#include <keel/core/base/file.h>
#include <nlohmann/json.hpp>

#include "cli/base/commands.h"
#include "cli/base/output_files.h"
#include "cli/base/pass_flags.h"
#include "cli/bench/page.h"
#include "cli/bench/ranks.h"

namespace keel_cli {
namespace {

constexpr const char* kRanks = "ranks";

void print_suites(std::ostream& out) {
  out << "usage: keel bench SUITE [flags]\n";
  const auto print = [&](const std::string& name, const char* summary) {
    out << "  " << name << std::string(9 - name.size(), ' ') << summary << "\n";
  };
  for (const Suite& suite : suites()) print(suite.name, suite.summary);
  print(all_suite().name, all_suite().summary);
  print(kRanks, kBenchRanksSummary);
  out << "\n`keel bench SUITE --help` lists the flags of a suite.\n";
}

// With the suite's own flags.
CommandLine line_of(const Suite& suite) {
  CommandLine line(std::string("bench ") + suite.name, suite.summary);
  suite.declare(line);
  return line;
}

keel::Json measure(const Suite& suite, const CommandLine& line) {
  keel::Json json = suite.measure(line);
  json["keel_version"] = KEEL_VERSION;
  json["suite"] = suite.name;
  return json;
}

int run_suite(const Suite& suite, const std::vector<std::string>& words) {
  CommandLine line = line_of(suite);
  line.add("json", "FILE", "the tables as one JSON object");
  line.add("html", "FILE", "the tables and their plots as one page without outer resources");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const std::string json = line.text("json").value_or("");
  const std::string html = line.text("html").value_or("");
  std::vector<NamedFile> inputs;
  if (const auto data = line.text("data")) {
    for (NamedFile& file : data_files(*data)) inputs.push_back(std::move(file));
  }
  require_distinct({{"--json", json}, {"--html", html}}, inputs);
  require_writable("--json", json);
  require_writable("--html", html);
  const keel::Json result = measure(suite, line);
  if (!json.empty()) keel::write_file_atomically(json, keel::write_json(result, 2) + "\n");
  if (!html.empty()) {
    std::vector<std::string> command = {"keel", "bench", suite.name};
    command.insert(command.end(), words.begin(), words.end());
    keel::write_file_atomically(html, bench_page(suite.name, result, command));
  }
  return kExitDone;
}

}  // namespace

const std::vector<Suite>& suites() {
  static const std::vector<Suite> all = {train_suite(), kernels_suite(), loop_suite(), feed_suite(),
                                         compile_suite()};
  return all;
}

keel::Json measure(const Suite& suite, const std::vector<std::string>& words) {
  CommandLine line = line_of(suite);
  line.parse(words);
  return measure(suite, line);
}

void declare_bench_flags(CommandLine& line) {
  line.add("model", keel_examples::model_names(), "what to train (softmax)");
  declare_data_flag(line);
  declare_place_flags(line, "where to train");
  line.add("batch", "N", "images a step (softmax 100, mlp 128)");
  declare_seconds(line, "each row", "1");
  declare_pass_flag(line);
}

BenchFlags read_bench_flags(const CommandLine& line) {
  BenchFlags flags;
  flags.model = &keel_examples::find_model(line.text("model").value_or("softmax"));
  flags.data = read_data(line);
  flags.backend = read_backend(line);
  device_to_run_on(flags.backend);  // what is wrong in the environment is told of first
  flags.batch = line.integer("batch", 1, int64_t{1} << 30).value_or(usual_batch(*flags.model));
  flags.threads = read_threads(line);
  flags.seconds = read_seconds(line, flags.seconds);
  flags.disabled_passes = read_disabled_passes(line);
  return flags;
}

void declare_backends(CommandLine& line, const char* without) {
  line.add("backends", "NAME,NAME,...", std::string("of ref, cpu, npu (") + without + ")");
}

std::vector<std::string> read_backends(const CommandLine& line, std::vector<std::string> without) {
  std::vector<std::string> names =
      line.choices("backends", keel::backend_names(), std::move(without));
  // Devices are made before anything is measured: what is wrong in the environment is no reason to
  // leave out a row of a table.
  for (const std::string& name : names) device_to_run_on(name);
  return names;
}

void declare_thread_counts(CommandLine& line, const char* whose, const char* without) {
  line.add("threads", "N,N,...", std::string(whose) + " (" + without + ")");
}

std::vector<int64_t> read_thread_counts(const CommandLine& line, std::vector<int64_t> without) {
  return line.integers("threads", 1, keel::kMaxComputeThreads, std::move(without));
}

void declare_seconds(CommandLine& line, const char* on, const char* without) {
  line.add("seconds", "S", std::string("wall time spent on ") + on + " (" + without + ")");
}

double read_seconds(const CommandLine& line, double without) {
  return line.number("seconds", kLeastSeconds, 1e6).value_or(without);
}

std::vector<std::string> names_of_models() {
  std::vector<std::string> names;
  for (const auto& model : keel_examples::models()) names.push_back(model.name);
  return names;
}

int64_t usual_batch(const keel_examples::Model& model) { return model.name == "mlp" ? 128 : 100; }

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](size_t quarters) {
    return values[std::min(values.size() - 1, values.size() * quarters / 4)];
  };
  return {at(2), at(2) == 0 ? 0 : (at(3) - at(1)) / 2 / at(2)};
}

std::optional<double> step_device_us(const keel::ProgramInfo& program, int64_t loop_size) {
  if (!program.step_device_ns) return std::nullopt;
  const auto launch = static_cast<double>(program.launch_device_ns.value_or(0));
  const auto step = static_cast<double>(*program.step_device_ns);
  return (step + launch / static_cast<double>(loop_size)) * 1e-3;
}

std::vector<std::vector<double>> take_turns(const std::vector<Turn>& contestants, double seconds) {
  std::vector<std::vector<double>> measured(contestants.size());
  for (const Turn& turn : contestants) turn(seconds / kRounds / 4);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      measured[i].push_back(contestants[i](seconds / kRounds));
    }
  }
  return measured;
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
  const std::vector<std::string> flags(words.begin() + 1, words.end());
  std::vector<std::string> names;
  for (const Suite& suite : suites()) {
    if (words[0] == suite.name) return run_suite(suite, flags);
    names.push_back(suite.name);
  }
  if (words[0] == all_suite().name) return run_suite(all_suite(), flags);
  names.push_back(all_suite().name);
  if (words[0] == kRanks) return run_bench_ranks(flags);
  names.push_back(kRanks);
  keel::parse_choice(words[0], "keel bench", names);
  return kExitWrongArgument;
}

}  // namespace keel_cli
