#include "cli/base/run_flags.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <keel/core/base/printable.h>
#include <keel/data/formats/data_folder.h>

namespace keel_cli {
namespace {

// A table may have thousands of columns; the first ones show what kind of names they have.
constexpr size_t kMostColumnsListed = 20;

void require_column(const std::string& path, const std::string& label) {
  const std::vector<std::string> columns = keel::csv_columns(path);
  if (std::find(columns.begin(), columns.end(), label) != columns.end()) return;
  std::string list;
  for (size_t i = 0; i < std::min(columns.size(), kMostColumnsListed); ++i)
    list += (i == 0 ? "'" : ", '") + columns[i] + "'";
  if (columns.size() > kMostColumnsListed)
    list += " and " + std::to_string(columns.size() - kMostColumnsListed) + " more";
  throw keel::Error({.op = "--label",
                     .expected = "a column of " + path + ": " + list,
                     .got = "'" + label + "'",
                     .fix = keel::did_you_mean(label, columns)});
}

// Lists a folder's IDX files, as MNIST's are, with what they hold; empty where it has none, and
// where the search for a set does not look into it either.
std::string idx_files_in(const std::string& folder) {
  std::string list;
  for (const std::string& path : keel::few_files_in(folder)) {
    const auto header = keel::look_at_idx(path);
    if (!header) continue;
    const std::string what = header->rank == 3   ? "images"
                             : header->rank == 1 ? "labels"
                                                 : fmt::format("of rank {}", header->rank);
    list += fmt::format("{}{} ({} {})", list.empty() ? "" : ", ",
                        std::filesystem::path(path).filename().string(), header->count, what);
  }
  return list;
}

// Loads a folder with the files of one of the sets.
keel::LabelledSplits load_folder(const std::string& folder) {
  const bool cifar10 = keel::holds_cifar10(folder);
  const bool mnist = keel::holds_mnist(folder);
  if (cifar10 && mnist) {
    throw keel::Error({.op = folder,
                       .message = "holds files of MNIST and of CIFAR-10",
                       .fix = "keep each set in a folder of its own"});
  }
  if (cifar10) return keel::load_cifar10(folder);
  if (mnist) return keel::load_mnist(folder);
  std::error_code failure;
  const bool is_folder = std::filesystem::is_directory(folder, failure);
  if (is_folder) std::filesystem::directory_iterator(folder, failure);  // may it be listed?
  if (const std::string idx = is_folder && !failure ? idx_files_in(folder) : ""; !idx.empty()) {
    throw keel::Error({.op = folder,
                       .expected =
                           "two IDX files of images and two with as many labels, the larger "
                           "ones to train on and the smaller ones for the test",
                       .got = idx,
                       .fix = "put these four files into a folder of their own"});
  }
  throw keel::Error(
      {.op = folder,
       .message = failure     ? failure.message()
                  : is_folder ? "holds no file of MNIST or CIFAR-10"
                              : "is not a folder, and no table, whose name ends in .csv",
       .fix = "give a folder with the files of MNIST or CIFAR-10, a table FILE.csv, or digits"});
}

void require_text(const std::string& flag, const std::string& text) {
  if (keel::printable(text) == text) return;
  throw keel::Error({.op = flag,
                     .expected = "UTF-8 text without control characters, as saved files hold",
                     .got = "'" + text + "'",
                     .fix = "rename it, or train without saving",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

}  // namespace

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

int read_threads(const CommandLine& line, int processes) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int share = std::max(1, cores / processes);
  return static_cast<int>(line.integer("threads", 1, keel::kMaxComputeThreads).value_or(share));
}

void declare_device_flag(CommandLine& line) {
  line.add("device-id", "N",
           "which of the backend's devices (ASCEND_DEVICE_ID, else DEVICE_ID, else 0)");
}

// A rank table tells ranks on a backend with one device nothing about it.
void require_numbered_device(const std::string& backend, const std::string& fix) {
  const keel::JobEnvironment job = keel::read_job_environment();
  const auto devices = static_cast<int>(keel::backend(backend).devices().size());
  if (!job.device || *job.device < devices || (job.place.table && devices == 1)) return;
  throw keel::Error({.op = job.device_variable,
                     .argument = backend,
                     .expected = fmt::format("a device number from 0 to {}", devices - 1),
                     .got = std::to_string(*job.device),
                     .fix = fix,
                     .kind = keel::ErrorKind::kInvalidArgument});
}

keel::Device device_to_run_on(const std::string& backend) {
  require_numbered_device(backend);
  return keel::device(backend, {});
}

std::string read_device(const CommandLine& line) {
  std::string device = read_backend(line);
  const auto id = line.integer("device-id", 0, kMostCount);
  if (!id) {
    require_numbered_device(device, "unset it, or give --device-id 0");
    return device;
  }
  device += ":" + std::to_string(*id);
  try {
    keel::device(device, {});
  } catch (const keel::Error& error) {
    keel::ErrorInfo info = error.info();
    if (info.op != "device") throw;  // it is about a variable
    info.op = "--device-id";
    info.argument.clear();
    info.got = std::to_string(*id);
    throw keel::Error(std::move(info));
  }
  return device;
}

void declare_placement_flag(CommandLine& line) {
  line.add("placement", alternatives(keel::placement_policy_names()),
           "what the device lacks: an error that lists it, or computed by the host (full)");
}

keel::PlacementPolicy read_placement(const CommandLine& line) {
  return keel::placement_policy(
      line.choice("placement", keel::placement_policy_names()).value_or("full"));
}

std::string read_label(const CommandLine& line, const std::string& data) {
  if (line.has("label") && !is_csv(data)) {
    throw keel::Error(
        {.op = "--label",
         .message = "is about a table, a file whose name ends in .csv, and --data is " + data,
         .fix = "drop it, or use --data FILE.csv, not compressed",
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
    require_column(data, label);
    return keel::load_labelled_csv(data, label);
  }
  return load_folder(data);
}

std::string path_to_save(const std::string& flag, const std::string& path) {
  std::string absolute = std::filesystem::absolute(path).string();
  require_text(flag, absolute);
  return absolute;
}

std::string data_to_save(const std::string& data, const std::string& label) {
  require_text("--label", label);
  return data == kDigits ? data : path_to_save("--data", data);
}

keel_examples::ImageFormat format_of(const keel::LabelledImages& set) {
  return {.dtype = set.images.dtype(),
          .height = set.height,
          .width = set.width,
          .channels = set.channels,
          .classes = set.classes};
}

}  // namespace keel_cli
