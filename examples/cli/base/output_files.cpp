#include "cli/base/output_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <keel/backends/npu/presets/preset.h>
#include <keel/core/base/file.h>
#include <keel/keel.h>
#include <sys/stat.h>

#include "cli/base/config_file.h"
#include "cli/base/run_flags.h"

namespace keel_cli {
namespace {

namespace fs = std::filesystem;

// Returns the file that a write to `path` would create, where its last part is a link to nothing.
fs::path follow_links(fs::path path) {
  constexpr int kMostLinks = 40;  // as the kernel
  std::error_code unknown;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, unknown); ++i) {
    const fs::path target = fs::read_symlink(path, unknown);
    if (unknown) break;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

// One file, whatever it is called. Files that are not there yet have a path only.
struct Identity {
  explicit Identity(const std::string& name) {
    struct stat status {};
    if (::stat(name.c_str(), &status) == 0) inode.emplace(status.st_dev, status.st_ino);
    std::error_code unknown;
    path = fs::weakly_canonical(fs::absolute(follow_links(name), unknown), unknown);
    if (unknown) path = fs::absolute(name, unknown).lexically_normal();
  }
  explicit Identity(const struct stat& status) : inode({status.st_dev, status.st_ino}) {}
  bool operator==(const Identity& other) const {
    return (inode && inode == other.inode) || (!path.empty() && path == other.path);
  }

  std::optional<std::pair<dev_t, ino_t>> inode;
  fs::path path;
};

constexpr const char* kPresetFlag = "--preset";
constexpr const char* kPresetVariable = "KEEL_NPU_PRESET";
constexpr const char* kRankTableVariable = "RANK_TABLE_FILE";

// The files that flags of this process's command line name.
std::vector<NamedFile>& remembered() {
  static std::vector<NamedFile> files;
  return files;
}

struct Known {
  NamedFile file;
  Identity identity;
};

// Returns the files that the shell has opened for what this process prints.
std::vector<Known> printed_files() {
  std::vector<Known> files;
  for (const auto& [descriptor, name] :
       {std::pair(STDOUT_FILENO, "standard output"), std::pair(STDERR_FILENO, "standard error")}) {
    struct stat status {};
    if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
      files.push_back({{name, ""}, Identity(status)});
  }
  return files;
}

[[noreturn]] void refuse(const NamedFile& output, const NamedFile& other, bool read) {
  throw keel::Error(
      {.op = output.flag,
       .argument = output.path,
       .message = read ? "would overwrite the file that " + other.flag + " reads, " + other.path
                       : "is the file of " + other.flag + ", too",
       .fix = read && other.flag == "--resume" && output.flag == "--save"
                  ? "give it a file of its own, or add --replace"
              : other.path.empty() ? "give it another file: this one takes what is printed"
                                   : "give it a file of its own",
       .kind = keel::ErrorKind::kInvalidArgument});
}

}  // namespace

void require_distinct(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs) {
  const auto known = [](const std::vector<NamedFile>& files) {
    std::vector<Known> list;
    for (const NamedFile& file : files) {
      if (!file.path.empty()) list.push_back({file, Identity(file.path)});
    }
    return list;
  };
  std::vector<NamedFile> all_inputs = inputs;
  for (NamedFile& file : common_inputs()) all_inputs.push_back(std::move(file));
  const std::vector<Known> read = known(all_inputs);
  std::vector<Known> written = printed_files();
  for (const Known& output : known(outputs)) {
    const auto same = [&](const Known& other) { return other.identity == output.identity; };
    if (const auto other = std::find_if(written.begin(), written.end(), same);
        other != written.end())
      refuse(output.file, other->file, false);
    if (const auto other = std::find_if(read.begin(), read.end(), same); other != read.end())
      refuse(output.file, other->file, true);
    written.push_back(output);
  }
}

std::vector<NamedFile> data_files(const std::string& data) {
  std::vector<NamedFile> files;
  if (data == kDigits) return files;
  std::error_code unknown;
  if (is_csv(data) || fs::is_regular_file(data, unknown)) return {{"--data", data}};
  for (const std::string& path : keel::cifar10_files(data)) files.push_back({"--data", path});
  for (const std::string& path : keel::mnist_files(data)) files.push_back({"--data", path});
  return files;
}

std::vector<NamedFile> common_inputs() {
  const std::vector<std::string> presets = keel::npu::preset_names();
  std::vector<NamedFile> named = remembered();
  for (const char* variable : {kPresetVariable, kRankTableVariable})
    named.push_back({variable, keel::environment_text(variable).value_or("")});
  for (const std::string& plugin : keel::backend_plugins()) named.push_back({"--plugin", plugin});
  std::vector<NamedFile> files;
  for (NamedFile& file : named) {
    const bool names_preset = file.flag == kPresetFlag || file.flag == kPresetVariable;
    const bool built_in =
        names_preset && std::find(presets.begin(), presets.end(), file.path) != presets.end();
    if (!built_in && !file.path.empty()) files.push_back(std::move(file));
  }
  return files;
}

void remember_common_input(NamedFile file) { remembered().push_back(std::move(file)); }

const std::vector<std::string>& common_input_flags() {
  static const std::vector<std::string> names = {kConfigFlag, "preset", "modify-mixlist",
                                                 "customize-dtypes"};
  return names;
}

void require_writable(const std::string& flag, const std::string& path) {
  if (path.empty()) return;
  try {
    const keel::AtomicFile never_committed(path);
  } catch (const keel::Error& error) {
    throw keel::Error({.op = flag, .message = error.what()});
  }
}

}  // namespace keel_cli
