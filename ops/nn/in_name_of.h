// in_name_of: how a function that is made of others refuses in its own name, and in those of its
// arguments, what the ones inside refuse. What these take is then said once, by themselves.
// Internal to ops/nn. Pure functions; any thread.
#ifndef KEEL_OPS_NN_IN_NAME_OF_H
#define KEEL_OPS_NN_IN_NAME_OF_H

#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/error.h"

namespace keel {

// Names what a user called, and its arguments where the functions inside call them otherwise: "x"
// stands for "x 3", too.
struct OuterNames {
  std::string function;
  std::vector<std::pair<std::string, std::string>> arguments = {};  // from the inner names
  std::string inner = {};  // alone speaks for the function; empty: all that refuse do
};

// Returns the same error in those names, with the line and the context that it has; as it is where
// another than `inner` refuses.
Error in_names(const Error& error, const OuterNames& names);

// Returns what `build` does, whose Errors come in those names.
template <class Build>
auto in_name_of(const OuterNames& names, const Build& build) {
  try {
    return build();
  } catch (const Error& error) {
    throw in_names(error, names);
  }
}

}  // namespace keel

#endif  // KEEL_OPS_NN_IN_NAME_OF_H
