#include "cli/run_flags.h"

#include <algorithm>
#include <thread>

#include "models/classifier.h"

namespace keel_cli {

void declare_data_flag(CommandLine& line) {
  line.add("data", "digits|DIR",
           "the built-in digits, or a folder with the four MNIST files (digits)");
}

std::string read_data(const CommandLine& line) { return line.text("data").value_or(kDigits); }

void declare_run_flags(CommandLine& line) {
  line.add("model", keel_examples::model_names(), "what to train (softmax)");
  declare_data_flag(line);
  line.add("backend", "ref|cpu|npu", "where to train (npu)");
  line.add("threads", "N", "compute threads, the device's included (all)");
}

std::string read_backend(const CommandLine& line) {
  return line.choice("backend", keel::backend_names()).value_or("npu");
}

int read_threads(const CommandLine& line) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return static_cast<int>(line.integer("threads", 1, keel::kMaxComputeThreads).value_or(cores));
}

void declare_precision_flag(CommandLine& line) {
  std::string names;
  for (const std::string& name : keel::precision_names())
    names += (names.empty() ? "" : "|") + name;
  line.add("precision", names,
           "mixed: products of 16-bit operands with f32 sums, all else f32 (" +
               std::string(keel::kDefaultPrecision) + ")");
}

std::string read_precision(const CommandLine& line) {
  return line.choice("precision", keel::precision_names()).value_or(keel::kDefaultPrecision);
}

keel::LabelledSplits load_data(const std::string& data) {
  return data == kDigits ? keel::make_digits() : keel::load_mnist(data);
}

}  // namespace keel_cli
