#include "cli/migrate/report_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include <keel/core/base/file.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/base/html.h"
#include "cli/migrate/page.h"

namespace keel_cli {
namespace {

namespace fs = std::filesystem;

struct ReportFile {
  const char* name;
  const char* mark;  // at the end of what all reports of this kind begin with
  std::string (*text)(const keel::migration::Report& report);
};

std::string json_text(const keel::migration::Report& report) {
  return keel::write_json(to_json(report), 2) + "\n";
}
std::string page_text(const keel::migration::Report& report) {
  return migration_page(to_json(report));
}

constexpr ReportFile kFiles[] = {{"report.csv", "advice\n", &keel::migration::to_csv},
                                 {"report.html", "<title>keel migrate</title>", &page_text},
                                 {"report.json", "report of keel migrate", &json_text}};

std::string path_of(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

[[noreturn]] void refuse(const std::string& folder, const std::string& message) {
  throw keel::Error({.op = "--out",
                     .argument = folder,
                     .message = message,
                     .fix = "give a folder of its own",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

bool is_report(const std::string& path, const ReportFile& file) {
  const std::string beginning = file.text({});
  const size_t length = beginning.find(file.mark) + std::strlen(file.mark);
  const keel::InputFile input(path);
  std::string found(static_cast<size_t>(std::min<uint64_t>(input.size(), length)), '\0');
  input.read_at(0, found.data(), found.size());
  return found == beginning.substr(0, length);
}

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

// A file that is given by name has its folder among what is scanned: the program's other modules
// lie beside it.
bool is_scanned(const std::string& folder, const std::vector<std::string>& scanned) {
  std::error_code unknown;
  const fs::path place = fs::weakly_canonical(fs::absolute(folder, unknown), unknown);
  return std::any_of(scanned.begin(), scanned.end(), [&](const std::string& path) {
    const fs::path given = fs::weakly_canonical(fs::absolute(path, unknown), unknown);
    return fs::is_directory(given, unknown) ? is_below(place, given) : place == given.parent_path();
  });
}

}  // namespace

std::vector<NamedFile> report_files(const std::string& folder) {
  std::vector<NamedFile> files;
  for (const ReportFile& file : kFiles) files.push_back({"--out", path_of(folder, file.name)});
  return files;
}

void require_report_folder(const std::string& folder, const std::vector<std::string>& scanned) {
  std::error_code unknown;
  if (!fs::is_directory(folder, unknown)) return;
  for (const ReportFile& file : kFiles) {
    const std::string path = path_of(folder, file.name);
    if (fs::exists(path, unknown) && !is_report(path, file))
      refuse(folder, std::string("its ") + file.name + " is no report of keel migrate");
  }
  if (!is_scanned(folder, scanned)) return;
  for (const auto& entry : fs::directory_iterator(folder, unknown)) {
    const std::string name = entry.path().filename().string();
    const bool is_own = std::any_of(std::begin(kFiles), std::end(kFiles),
                                    [&](const ReportFile& file) { return name == file.name; });
    if (!is_own && !name.ends_with(".keel-tmp"))
      refuse(folder,
             "is among the files that are scanned, and has files of its own: '" + name + "'");
  }
}

void write_report_files(const std::string& folder, const keel::migration::Report& report) {
  std::vector<std::unique_ptr<keel::AtomicFile>> files;
  for (const ReportFile& file : kFiles) {
    files.push_back(std::make_unique<keel::AtomicFile>(path_of(folder, file.name)));
    files.back()->write(file.text(report));
  }
  for (const auto& file : files) file->commit();
}

}  // namespace keel_cli
