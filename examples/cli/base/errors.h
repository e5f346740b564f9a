// How the tool tells of errors and warnings: one line each on stderr, at once. Any thread.
#ifndef KEEL_EXAMPLES_CLI_BASE_ERRORS_H
#define KEEL_EXAMPLES_CLI_BASE_ERRORS_H

#include <exception>
#include <string>

namespace keel_cli {

// Returns the message without the tool's own line, which tells nobody anything who typed a command;
// lines of models and of plugins stay.
std::string message_of(const std::exception& error);

// Returns what the exception being handled says, of whatever type it is.
std::string text_of_thrown();

// `note` stands behind the message, in parentheses.
void print_error(const std::exception& error, const std::string& note = "");
void print_warning(const std::string& message);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_ERRORS_H
