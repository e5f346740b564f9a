// PythonBindings: what the names of a script stand for where they come from imports ("tf" is
// "tensorflow.compat.v1"), or are other names for modules: layers = tf.layers, also with an
// annotation or by ":=". The script is taken as text: a name means what the last import before it
// says, whatever scope that is in, or the first one where all are behind it. Immutable; any thread.
#ifndef KEEL_OPS_EXCHANGE_MIGRATION_PYTHON_BINDINGS_H
#define KEEL_OPS_EXCHANGE_MIGRATION_PYTHON_BINDINGS_H

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keel/ops/exchange/migration/api_table.h"
#include "keel/ops/exchange/migration/python_tokens.h"

namespace keel::migration {

struct ImportedName {
  // By its module's full name. Empty: this script's own, or of a module beside it.
  std::string qualified;
  bool is_module = false;  // known to be one: the name alone is no use of an API
};

// A name of the script with what follows it: "tf.train.Saver", from token `first` up to `end`.
struct DottedName {
  size_t first = 0, end = 0;
  std::string attributes;  // ".train.Saver"
};
// Reads the one that begins at a token, which is a name.
DottedName dotted_name(const std::vector<PythonToken>& tokens, size_t first);

class PythonBindings {
 public:
  // Tokens and table must outlive the object. Throws Error naming `source` and the line where the
  // script imports everything of too many modules.
  PythonBindings(const std::vector<PythonToken>& tokens, const std::string& source,
                 const ApiTable& table);

  // Returns what the name of a token stands for, or null.
  const ImportedName* find(size_t token) const;
  // Returns whether a token belongs to an import statement.
  bool in_import(size_t token) const;

  // The modules that everything is imported of, with the tokens that say so.
  const std::vector<std::pair<size_t, std::string>>& stars() const noexcept { return stars_; }

 private:
  void read_statements();
  void read_statement(size_t first);
  void read_assignments(size_t first);
  void read_annotated(size_t target);
  size_t read_import(size_t at);
  size_t read_from(size_t at);
  void read_assignment(size_t target, size_t value);
  void bind(size_t token, std::string_view name, ImportedName imported);
  std::string read_module(size_t& at) const;
  std::string_view read_alias(size_t& at) const;

  struct Binding {
    size_t token = 0;
    ImportedName name;
    bool assigned = false;
  };

  const std::vector<PythonToken>& tokens_;
  const ApiTable& table_;
  std::map<std::string, std::vector<Binding>, std::less<>> bindings_;  // in their order
  std::vector<std::pair<size_t, size_t>> imports_;  // tokens of import statements, [first, end)
  std::vector<std::pair<size_t, std::string>> stars_;
};

}  // namespace keel::migration

#endif  // KEEL_OPS_EXCHANGE_MIGRATION_PYTHON_BINDINGS_H
