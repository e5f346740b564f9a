// The environment variables that the tool and the library read: what each does, its value, and
// whether it is one. For `keel config --environment`, and for trainings.
#ifndef KEEL_EXAMPLES_CLI_BASE_ENVIRONMENT_TABLE_H
#define KEEL_EXAMPLES_CLI_BASE_ENVIRONMENT_TABLE_H

#include <optional>
#include <string>
#include <vector>

namespace keel_cli {

struct EnvironmentRow {
  std::string name;
  std::optional<std::string> value;  // nothing: unset, or empty, which is the same
  std::string about;                 // what it does, and what goes before it
  std::string error;                 // why a command that reads it fails; empty: it does not
};

// Reads each variable with the reader of whoever uses it.
std::vector<EnvironmentRow> read_environment_table();

// Throws the error of the first variable about a training (its profile, how far it is) that is set
// to what is no value of it, whether or not this training would read it.
void check_training_environment();

// Returns the environment, an entry "NAME=value" each, without what it says of one training and of
// where this process is in a job: for another training that the tool starts by itself.
std::vector<std::string> environment_of_another_training();

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_ENVIRONMENT_TABLE_H
