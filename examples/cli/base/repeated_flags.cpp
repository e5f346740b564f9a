#include "cli/base/repeated_flags.h"

#include <keel/core/base/error.h>

namespace keel_cli {

std::vector<std::string> take_repeated(std::vector<std::string>& words, const std::string& name) {
  const std::string flag = "--" + name;
  std::vector<std::string> values, rest;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word != flag && !word.starts_with(flag + "=")) {
      rest.push_back(word);
      continue;
    }
    const bool apart = word == flag;
    const std::string value =
        apart ? i + 1 < words.size() ? words[++i] : "" : word.substr(flag.size() + 1);
    if (value.empty()) {
      throw keel::Error({.op = flag,
                         .message = "is given without a value",
                         .kind = keel::ErrorKind::kInvalidArgument});
    }
    values.push_back(value);
  }
  words = rest;
  return values;
}

}  // namespace keel_cli
