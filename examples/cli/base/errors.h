// How the tool tells of errors and warnings: one line each on stderr, at once. Any thread.
#ifndef KEEL_EXAMPLES_CLI_BASE_ERRORS_H
#define KEEL_EXAMPLES_CLI_BASE_ERRORS_H

#include <exception>
#include <string>

namespace keel_cli {

// `note` stands behind the message, in parentheses.
void print_error(const std::exception& error, const std::string& note = "");
void print_warning(const std::string& message);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_ERRORS_H
