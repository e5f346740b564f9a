// The tables of api_tables/*.json as texts: defined by a source that CMake generates. Internal.
#ifndef KEEL_OPS_EXCHANGE_MIGRATION_BUILTIN_TABLES_H
#define KEEL_OPS_EXCHANGE_MIGRATION_BUILTIN_TABLES_H

#include <string_view>
#include <vector>

namespace keel::migration {

struct BuiltinTable {
  const char* name;
  std::string_view json;
};

std::vector<BuiltinTable> builtin_tables();

}  // namespace keel::migration

#endif  // KEEL_OPS_EXCHANGE_MIGRATION_BUILTIN_TABLES_H
