// ApiTable: what is known of the names that TensorFlow 1 scripts call: a level and the advice for
// each, read from JSON. The tool's own table is compiled in from api_tables/*.json; a user's file
// is asked before it as a whole, its patterns before the tool's rows. Immutable; any thread.
//
//   {"apis": [{"name": "tf.matmul", "level": "supported (no migration)", "advice": "keel::matmul"},
//             {"name": "tf.summary.*", ...}]}
//
// is all that a user's file needs. "name.*" stands for every name that begins so. The other keys,
// which the tool's own table has: "modules" says by what name a table calls the names of a module,
// "options" which arguments of which calls are options of their own, "third_party" and "unknown"
// what is said of names without a row, "standard_library" which modules are Python's own.
#ifndef KEEL_OPS_EXCHANGE_MIGRATION_API_TABLE_H
#define KEEL_OPS_EXCHANGE_MIGRATION_API_TABLE_H

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/base/json.h"
#include "keel/ops/exchange/migration/level.h"

namespace keel::migration {

// The judgement of one name; `module` is the package that it belongs to.
struct Finding {
  std::string module, name;
  Level level = Level::kAnalysing;
  std::string advice;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy means the 0 of a defaulted comparison.
  auto operator<=>(const Finding&) const = default;
};

class KEEL_API ApiTable {
 public:
  // Returns the table that is compiled in.
  static ApiTable builtin();
  // Reads one more table, which is asked before those that are there. Throws Error naming the
  // source and the place for what is no such table.
  void add(std::string_view json, const std::string& source);

  // A name by what the table calls it: "tensorflow.compat.v1.add" is "tf.add" of the module
  // "tensorflow".
  struct Name {
    std::string module, text;
    bool known = false;  // its module is one that the table is about
  };
  Name canonical(std::string_view qualified) const;

  // Returns what the last table that speaks of a name says of it: its own row, else that of the
  // class that it is a member of, else the longest pattern. The row of a class gives way to a
  // nearer row of an earlier table. Where no table speaks of it: what is said of third parties or
  // unknown names.
  Finding judge(const Name& name) const;
  bool has_row(std::string_view name) const;
  // Returns whether rows have names below this one, as "tf.train" has.
  bool is_namespace(std::string_view name) const;
  // Returns whether a script that imports everything of `module` gets `name` from there.
  bool exports(std::string_view module, std::string_view name) const;
  // Returns whether `module`, the first word of its name, is of Python itself.
  bool is_standard(std::string_view module) const;

  // Returns whether the named arguments of a call are options, whether members of its result are,
  // and whether the keys of a map of that name are.
  bool takes_options(std::string_view call) const { return option_calls_.contains(call); }
  bool gives_options(std::string_view call) const { return option_results_.contains(call); }
  bool holds_options(std::string_view map) const { return option_maps_.contains(map); }
  // `module` is that of the call, or empty for the key of a map.
  Finding judge_option(std::string_view name, std::string_view module) const;

 private:
  struct Verdict {
    Level level = Level::kAnalysing;
    std::string advice;
  };
  struct ModuleRule {
    std::string as;
    std::set<std::string, std::less<>> without;  // parts of a path that say nothing
  };
  using Names = std::set<std::string, std::less<>>;
  using Verdicts = std::map<std::string, Verdict, std::less<>>;

  // The rows of one table.
  struct Rows {
    Verdicts exact, patterns;  // patterns without their ".*"
  };
  struct Match {
    const Verdict* verdict = nullptr;  // null: there is no row
    std::string_view row;              // its name, without ".*"
    bool is_pattern = false;
  };

  static Verdict read_verdict(const JsonView& row);
  static Match find_row(const Rows& rows, std::string_view name);
  void read_rows(const JsonView& rows, Verdicts& exact, Verdicts* patterns);
  void read_modules(const JsonView& modules);
  void read_options(const JsonView& options);

  std::vector<Rows> tables_;  // the last one first
  Names namespaces_;
  std::map<std::string, ModuleRule, std::less<>> modules_;
  std::string option_module_;
  Verdicts options_;
  Names option_calls_, option_results_, option_maps_;
  Names standard_library_;
  Verdict third_party_, unknown_;
};

}  // namespace keel::migration

#endif  // KEEL_OPS_EXCHANGE_MIGRATION_API_TABLE_H
