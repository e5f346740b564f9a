#include "keel/graph/runtime/checkpoint_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "keel/core/base/error.h"
#include "keel/graph/runtime/checkpoint.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr size_t kStepDigits = 10;  // at least, so that lists sorted by name are sorted by step

std::string name_of_step(int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kStepDigits) digits.insert(0, kStepDigits - digits.size(), '0');
  return std::string(kPrefix) + digits + std::string(kSuffix);
}

// Returns the step of a checkpoint's name; nothing for another file's.
std::optional<int64_t> step_of_name(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  int64_t step = 0;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size() - kSuffix.size();
  if (begin >= end || *begin == '-') return std::nullopt;
  const auto [rest, problem] = std::from_chars(begin, end, step);
  if (problem != std::errc() || rest != end || name != name_of_step(step)) return std::nullopt;
  return step;
}

void require_whole(const CheckpointFile& file) {
  const auto metadata = resumable_metadata(file.path);
  const auto step = metadata.find("step");
  const std::string got = step == metadata.end() ? "none" : step->second;
  if (got == std::to_string(file.step)) return;
  throw Error({.op = "resume",
               .argument = file.path,
               .expected = "step " + std::to_string(file.step) + ", as its name says",
               .got = got});
}

// Says which file could be given instead of the last of these.
std::string advice(const std::vector<CheckpointFile>& files) {
  for (size_t i = files.size() - 1; i-- > 0;) {
    try {
      require_whole(files[i]);
      return "the newest whole one before it is " + files[i].path + ", of step " +
             std::to_string(files[i].step) + ": give that file to go on from there";
    } catch (const Error&) {
      // It is damaged as well.
    }
  }
  return "there is no whole one before it: train from the beginning";
}

}  // namespace

std::string checkpoint_path(const std::string& folder, int64_t step) {
  return (fs::path(folder) / name_of_step(step)).string();
}

std::vector<CheckpointFile> checkpoints_in(const std::string& folder) {
  std::vector<CheckpointFile> files;
  std::error_code problem;
  fs::directory_iterator entry(folder, problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    std::error_code unknown;
    const auto step = step_of_name(entry->path().filename().string());
    if (step && entry->is_regular_file(unknown)) files.push_back({*step, entry->path().string()});
  }
  if (problem) throw Error({.op = folder, .message = "cannot be listed: " + problem.message()});
  std::sort(files.begin(), files.end(),
            [](const CheckpointFile& a, const CheckpointFile& b) { return a.step < b.step; });
  return files;
}

std::string checkpoint_to_resume(const std::string& path) {
  std::error_code unknown;
  if (!fs::is_directory(path, unknown)) return path;
  const std::vector<CheckpointFile> files = checkpoints_in(path);
  if (files.empty()) {
    throw Error({.op = "resume",
                 .argument = path,
                 .message = "there is no checkpoint in the folder",
                 .fix = "train from the beginning, or give another folder or a file"});
  }
  try {
    require_whole(files.back());
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    info.fix = advice(files);
    throw Error(std::move(info));
  }
  return files.back().path;
}

void require_own_checkpoints(const std::string& folder, const std::string& resumed_from) {
  std::error_code unknown;
  if (!fs::exists(folder, unknown)) return;
  const std::vector<CheckpointFile> files = checkpoints_in(folder);
  if (files.empty()) return;
  const fs::path file = fs::absolute(resumed_from, unknown);
  const bool checkpoint = step_of_name(file.filename().string()).has_value();
  if (checkpoint && fs::equivalent(file.parent_path(), folder, unknown)) return;
  throw Error({.op = folder,
               .message = "holds the checkpoints of another training, up to step " +
                          std::to_string(files.back().step),
               .fix = "resume from it, or give another folder"});
}

}  // namespace keel
