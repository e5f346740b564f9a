// Scan of a Python script: which names of other packages it uses, on which lines, with what a table
// says of them. Pure; any thread.
//
// Found are names that imports bind, wherever they stand in code: tf.train.Saver, also behind
// aliases of modules; named arguments, members and keys that are options of calls
// (NPURunConfig(iterations_per_loop=10), parameter_map["iterations_per_loop"]). What an expression
// gives has no known type, so that methods of results (session.run) are not found, nor is what
// stands in comments and strings. Imports themselves are no uses, but for "import *" of a package
// that no table knows.
#ifndef KEEL_OPS_EXCHANGE_MIGRATION_PYTHON_SCRIPT_H
#define KEEL_OPS_EXCHANGE_MIGRATION_PYTHON_SCRIPT_H

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "keel/ops/exchange/migration/api_table.h"

namespace keel::migration {

using AddUse = std::function<void(uint32_t line, const Finding& finding)>;
// Returns whether a module of that name belongs to the scanned program itself.
using IsOwnModule = std::function<bool(std::string_view module)>;

// Calls `add` for each use, line by line. Throws Error naming `source` and the line for text that
// is no Python (python_tokens.h).
void scan_python(std::string_view text, const std::string& source, const ApiTable& table,
                 const IsOwnModule& is_own, const AddUse& add);

}  // namespace keel::migration

#endif  // KEEL_OPS_EXCHANGE_MIGRATION_PYTHON_SCRIPT_H
