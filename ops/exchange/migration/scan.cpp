#include "keel/ops/exchange/migration/scan.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/read_budget.h"
#include "keel/ops/exchange/migration/file_kinds.h"

namespace keel::migration {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kScript = ".py";
constexpr const char* kPackageMark = "__init__.py";

class Walk {
 public:
  explicit Walk(const std::string& left_out) : budget_(read_budget()), left_(budget_) {
    if (!left_out.empty()) left_out_ = canonical(left_out);
  }

  void add_path(const std::string& given) {
    std::error_code error;
    const fs::file_status status = fs::status(given, error);
    if (!fs::exists(status)) {
      throw Error({.op = given,
                   .message = "cannot be scanned: " +
                              (error ? error.message() : std::string("there is no such file"))});
    }
    plan_.paths.push_back(given);
    const fs::path name = fs::path(given).lexically_normal();
    // A path that ends with a separator has its name before that.
    fs::path place = absolute(given);
    if (!place.has_filename()) place = place.parent_path();
    add_packages_around(place);
    if (fs::is_directory(status)) {
      bool& is_package = given_folders_.try_emplace(place.string(), false).first->second;
      is_package = is_package || has_name(name) || is_marked(place);
      add_folder(given, name == "." ? fs::path() : name);
    } else {
      add_file(given, name);
    }
  }

  ScanPlan finish() {
    for (const ScanFile& file : plan_.files) {
      if (fs::path(file.path).extension() == kScript) add_modules(absolute(file.path));
    }
    plan_.modules.assign(modules_.begin(), modules_.end());
    return std::move(plan_);
  }

 private:
  static fs::path absolute(const fs::path& path) {
    std::error_code error;
    return fs::absolute(path, error).lexically_normal();
  }
  static fs::path canonical(const fs::path& path) {
    std::error_code error;
    fs::path resolved = fs::weakly_canonical(fs::absolute(path, error), error);
    return error ? absolute(path) : resolved;
  }

  // Returns whether a path ends with a name, and not with "." or "..".
  static bool has_name(const fs::path& path) {
    const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
    return !last.empty() && last != "." && last != "..";
  }

  static bool is_marked(const fs::path& folder) {
    std::error_code error;
    return fs::is_regular_file(folder / kPackageMark, error);
  }

  // Remembers a path, so that it is visited once however many of the given ones lead to it.
  bool is_new(const fs::path& path) { return seen_.insert(canonical(path)).second; }

  // Accounts for what keeping an entry of a folder takes.
  void charge(const fs::path& path) {
    constexpr uint64_t kEntryBytes = 512;
    const uint64_t bytes = kEntryBytes + 6 * path.native().size();
    if (bytes > left_) throw over_read_budget(path.string(), "list of files", budget_);
    left_ -= bytes;
  }

  void add_file(const fs::path& path, const fs::path& name) {
    if (reader_of(path.extension().string()) == nullptr) {
      ++plan_.skipped;
    } else if (is_new(path)) {
      plan_.files.push_back({path.string(), name.string()});
    }
  }

  // Folders above a given path belong to the program where they have Python's mark of a package,
  // and only there: where a program lies must not change its report.
  void add_packages_around(fs::path place) {
    for (place = place.parent_path(); place.has_filename() && is_marked(place);
         place = place.parent_path())
      modules_.insert(place.filename().string());
  }

  // A script is a module, and the folders that it lies in are packages, from the given one on; that
  // one itself where it was given by name or has the mark. Who gives "." has not said what the
  // folder is called, and a folder called horovod would take imports of Horovod for its own.
  void add_modules(const fs::path& script) {
    modules_.insert(script.stem().string());
    const std::string_view path = script.native();
    std::vector<std::string_view> inner;  // folders that are packages if one around them is given
    const auto add_inner = [&] {
      modules_.insert(inner.begin(), inner.end());
      inner.clear();
    };
    for (size_t end = path.rfind('/'); end != std::string_view::npos && end > 0;) {
      const size_t slash = path.rfind('/', end - 1);
      const auto given = given_folders_.find(path.substr(0, end));
      if (given != given_folders_.end()) add_inner();
      inner.push_back(path.substr(slash + 1, end - slash - 1));
      if (given != given_folders_.end() && given->second) add_inner();
      end = slash;
    }
    if (given_folders_.contains("/")) add_inner();
  }

  void add_folder(const fs::path& path, const fs::path& name) {
    if (canonical(path) == left_out_ || !is_new(path)) return;
    std::error_code error;
    std::map<std::string, fs::directory_entry> entries;
    fs::directory_iterator entry(path, error);
    while (!error && entry != fs::directory_iterator()) {
      charge(entry->path());
      entries.emplace(entry->path().filename().string(), *entry);
      entry.increment(error);
    }
    if (error) {
      plan_.unreadable.push_back({path.string(), name.empty() ? "." : name.string()});
      plan_.reasons.push_back("the folder cannot be read: " + error.message());
    }
    for (const auto& [file, found] : entries) add_entry(found, name / file);
  }

  void add_entry(const fs::directory_entry& entry, const fs::path& name) {
    std::error_code unknown;
    if (entry.is_symlink(unknown)) {
      ++plan_.links;
    } else if (entry.is_directory(unknown)) {
      add_folder(entry.path(), name);
    } else {
      add_file(entry.path(), name);
    }
  }

  ScanPlan plan_;
  std::set<fs::path> seen_;
  std::map<std::string, bool, std::less<>> given_folders_;  // with: its own name is a package's
  std::set<std::string> modules_;
  fs::path left_out_;
  uint64_t budget_, left_;
};

// Tells modules of the scanned program from others: those that were scanned, and those that lie
// beside the script.
class OwnModules {
 public:
  explicit OwnModules(const ScanPlan& plan) : scanned_(plan.modules.begin(), plan.modules.end()) {}

  bool contains(const std::string& script, std::string_view module) {
    const std::string name(module);
    if (scanned_.contains(name)) return true;
    const fs::path place = fs::path(script).parent_path() / name;
    const auto known = beside_.find(place.native());
    if (known != beside_.end()) return known->second;
    std::error_code error;
    const bool there = fs::is_regular_file(place.native() + std::string(kScript), error) ||
                       fs::is_regular_file(place / kPackageMark, error);
    return beside_.emplace(place.native(), there).first->second;
  }

 private:
  std::set<std::string> scanned_;
  std::map<std::string, bool> beside_;
};

}  // namespace

ScanPlan plan_scan(const std::vector<std::string>& paths, const std::string& left_out) {
  Walk walk(left_out);
  for (const std::string& path : paths) walk.add_path(path);
  return walk.finish();
}

Report scan(const ScanPlan& plan, const ApiTable& table) {
  ReportBuilder report(plan.paths, plan.skipped, plan.links);
  OwnModules own(plan);
  for (const ScanFile& file : plan.files) {
    report.begin_file(file.name);
    const ScanContext context{
        table, [&](std::string_view module) { return own.contains(file.path, module); }};
    try {
      reader_of(fs::path(file.path).extension().string())(file.path, context, report);
    } catch (const Error& error) {
      report.fail(error.what());
    }
  }
  for (size_t i = 0; i < plan.unreadable.size(); ++i) {
    report.begin_file(plan.unreadable[i].name);
    report.fail(plan.reasons[i]);
  }
  return report.finish();
}

}  // namespace keel::migration
