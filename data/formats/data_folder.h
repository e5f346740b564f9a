// A folder that holds a data set in files of fixed names, each plain or with .gz, or in files of
// any names that are told by what is in them. Pure functions; any thread. Internal to data, but for
// few_files_in.
#ifndef KEEL_DATA_FORMATS_DATA_FOLDER_H
#define KEEL_DATA_FORMATS_DATA_FOLDER_H

#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/base/export.h"

namespace keel {

// The path of the file `name`, or of `name`.gz; nothing where neither is there.
std::optional<std::string> find_in_folder(const std::string& folder, const std::string& name);
// The error for such a file that is not there.
Error missing_in_folder(const std::string& folder, const std::string& name);
// The paths that find_in_folder tries for each of the names, whether they exist or not.
std::vector<std::string> paths_in_folder(const std::string& folder,
                                         const std::vector<std::string>& names);
// Says whether a file exists at one of the paths.
bool any_exists(const std::vector<std::string>& paths);

// The paths of the ordinary files in a folder, sorted; none where it cannot be read or holds more
// than a data set has: those are not looked into.
KEEL_API std::vector<std::string> few_files_in(const std::string& folder);

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_DATA_FOLDER_H
