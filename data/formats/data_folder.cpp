#include "keel/data/formats/data_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace keel {
namespace {

bool exists(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

}  // namespace

std::optional<std::string> find_in_folder(const std::string& folder, const std::string& name) {
  for (const std::string& path : paths_in_folder(folder, {name})) {
    if (exists(path)) return path;
  }
  return std::nullopt;
}

Error missing_in_folder(const std::string& folder, const std::string& name) {
  return Error({.op = folder, .message = "neither " + name + " nor " + name + ".gz is there"});
}

std::vector<std::string> paths_in_folder(const std::string& folder,
                                         const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back((std::filesystem::path(folder) / name).string());
    paths.push_back(paths.back() + ".gz");
  }
  return paths;
}

bool any_exists(const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(), exists);
}

std::vector<std::string> few_files_in(const std::string& folder) {
  constexpr size_t kMost = 64;
  std::vector<std::string> paths;
  std::error_code failure;
  std::filesystem::directory_iterator files(folder, failure);
  while (!failure && files != std::filesystem::directory_iterator()) {
    std::error_code unknown;
    // A pipe could be waited for without end.
    if (files->is_regular_file(unknown)) paths.push_back(files->path().string());
    if (paths.size() > kMost) return {};
    files.increment(failure);
  }
  if (failure) return {};
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace keel
