// The page of `keel migrate`: a report as HTML, made of its JSON alone, so that what it shows is
// what was written. Pure; any thread.
#ifndef KEEL_EXAMPLES_CLI_MIGRATE_PAGE_H
#define KEEL_EXAMPLES_CLI_MIGRATE_PAGE_H

#include <string>

#include <keel/core/base/json.h>

namespace keel_cli {

inline constexpr const char* kMigrationTitle = "keel migrate";

std::string migration_page(const keel::Json& report);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MIGRATE_PAGE_H
