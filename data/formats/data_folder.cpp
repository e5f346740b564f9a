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

}  // namespace keel
