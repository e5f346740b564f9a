// Options of Ascend's TensorFlow adapter as flags of `keel train`: a table with a row for each
// option says which flag means the same, why it has no effect here, or why Keel has nothing that
// does it. Pure functions; the values are checked by the flags' own readers.
#ifndef KEEL_EXAMPLES_CLI_CONFIG_ADAPTER_OPTIONS_H
#define KEEL_EXAMPLES_CLI_CONFIG_ADAPTER_OPTIONS_H

#include <string>
#include <vector>

#include <keel/core/base/json.h>
#include <nlohmann/json.hpp>

namespace keel_cli {

enum class OptionFate {
  kFlag,         // translated
  kNoEffect,     // nothing would change
  kUnsupported,  // it asks for what Keel has not got
};

struct TranslatedOption {
  std::string option;
  OptionFate fate = OptionFate::kNoEffect;
  std::string flag;  // of kFlag; what --config is given under this name means the same
  std::string why;   // of the others, and what is different about a flag
};

struct AdapterTranslation {
  keel::Json config = keel::Json::object();  // a file of --config for `keel train`
  std::vector<TranslatedOption> options;     // in the order of their names
};

// `source` names the document in errors. Throws keel::Error (kInvalidArgument) for options that
// nobody has, naming the nearest, for values that the adapter refuses, and for options that exclude
// each other. Unsupported ones are told in the result.
AdapterTranslation translate_adapter_options(const keel::Json& document, const std::string& source);

// Reads the configuration as `keel train --config` does. Throws what that throws, saying which
// option each flag is from.
void require_trainable(const AdapterTranslation& translation, const std::string& source);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_CONFIG_ADAPTER_OPTIONS_H
