#include "cli/run_flags.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <thread>

namespace keel_cli {

void declare_data_flag(CommandLine& line) {
  line.add("data", "digits|DIR",
           "the built-in digits, or a folder with the files of MNIST or CIFAR-10 (digits)");
}

std::string read_data(const CommandLine& line) {
  std::string data = line.text("data").value_or(kDigits);
  if (!is_csv(data)) return data;
  throw keel::Error({.op = "--data",
                     .argument = data,
                     .message = "is a table, and this command takes images",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

void declare_backend_flag(CommandLine& line, const std::string& purpose) {
  line.add("backend", "ref|cpu|npu", purpose + " (npu)");
}

void declare_place_flags(CommandLine& line, const std::string& purpose) {
  declare_backend_flag(line, purpose);
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
  line.add("precision", alternatives(keel::precision_names()),
           "mixed: products of 16-bit operands with f32 sums, all else f32 (" +
               std::string(keel::kDefaultPrecision) + ")");
}

std::string read_precision(const CommandLine& line) {
  return line.choice("precision", keel::precision_names()).value_or(keel::kDefaultPrecision);
}

std::string read_label(const CommandLine& line, const std::string& data) {
  if (line.has("label") && !is_csv(data)) {
    throw keel::Error({.op = "--label",
                       .message = "is about a table, and --data is " + data,
                       .fix = "drop it, or use --data FILE.csv",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  return line.text("label").value_or("");
}

bool is_csv(const std::string& data) {
  std::string ending = std::filesystem::path(data).extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::error_code unknown;
  return ending == ".csv" && !std::filesystem::is_directory(data, unknown);
}

keel::LabelledSplits load_data(const std::string& data, const std::string& label) {
  if (data == kDigits) return keel::make_digits();
  if (is_csv(data)) {
    if (label.empty()) {
      throw keel::Error({.op = "--data",
                         .argument = data,
                         .message = "is a table, and nothing says which column holds the classes",
                         .fix = "add --label COLUMN",
                         .kind = keel::ErrorKind::kInvalidArgument});
    }
    return keel::load_labelled_csv(data, label);
  }
  return keel::holds_cifar10(data) ? keel::load_cifar10(data) : keel::load_mnist(data);
}

keel_examples::ImageFormat format_of(const keel::LabelledImages& set) {
  return {.dtype = set.images.dtype(),
          .height = set.height,
          .width = set.width,
          .channels = set.channels,
          .classes = set.classes};
}

}  // namespace keel_cli
