// Says whether a training's states, or those in a saved file, are numbers: NaN and infinities never
// go away again, so a file that holds them is of little use, and one without them is worth keeping.
#ifndef KEEL_EXAMPLES_CLI_MODEL_FINITE_STATES_H
#define KEEL_EXAMPLES_CLI_MODEL_FINITE_STATES_H

#include <map>
#include <optional>
#include <string>

#include <keel/keel.h>

namespace keel_cli {

// "NaN", "infinity" or "-infinity".
std::string name_of_non_finite(double value);

// "state 'w' holds NaN at element 17" for the first that has such an element; nothing where all are
// finite.
std::optional<std::string> non_finite_state(const keel::Session& session);
std::optional<std::string> non_finite_state(const std::map<std::string, keel::Tensor>& states);

// Throws keel::Error where `path`, which `flag` names, is a file of saved states that are finite,
// or may be because it cannot be read: those that are to replace it are not, as `why` says.
void require_no_finite_file(const std::string& flag, const std::string& path,
                            const std::string& why);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_FINITE_STATES_H
