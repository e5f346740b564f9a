#include "keel/graph/runtime/weights.h"

#include <algorithm>
#include <set>

namespace keel {
namespace {

constexpr const char* kReserved = "keel/";
constexpr size_t kMostListed = 8;

std::string list(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), kMostListed); ++i)
    text += (i == 0 ? "" : ", ") + words[i];
  if (words.size() > kMostListed)
    text += " and " + std::to_string(words.size() - kMostListed) + " more";
  return text;
}

std::vector<std::string> quoted(const std::vector<std::string>& names) {
  std::vector<std::string> words;
  for (const std::string& name : names) words.push_back("'" + name + "'");
  return words;
}

}  // namespace

WeightsMatch match_weights(const Values& states, const std::map<std::string, Tensor>& saved) {
  WeightsMatch match;
  std::set<std::string> wanted;
  for (const Value& state : states) {
    const std::string name = name_of(state.node());
    if (name.starts_with(kReserved)) continue;
    wanted.insert(name);
    const auto found = saved.find(name);
    if (found == saved.end())
      match.missing.push_back(name);
    else if (found->second.type() != state.type())
      match.mismatched.push_back({name, state.type(), found->second.type()});
    else
      match.matched.push_back(name);
  }
  for (const auto& [name, tensor] : saved) {
    if (!wanted.contains(name) && !name.starts_with(kReserved)) match.left_aside.push_back(name);
  }
  return match;
}

WeightsMatch load_weights(Session& session, const Values& states,
                          const std::map<std::string, Tensor>& saved, CallSite site) {
  WeightsMatch match = match_weights(states, saved);
  const std::set<std::string> matched(match.matched.begin(), match.matched.end());
  for (const Value& state : states) {
    const std::string name = name_of(state.node());
    if (matched.contains(name)) session.write(state, saved.at(name), site);
  }
  return match;
}

std::string describe(const WeightsMatch& match) {
  std::string text = std::to_string(match.matched.size()) +
                     (match.matched.size() == 1 ? " state matches" : " states match");
  if (!match.missing.empty()) text += "; missing in the file: " + list(quoted(match.missing));
  if (!match.mismatched.empty()) {
    std::vector<std::string> words;
    for (const auto& [name, wanted, there] : match.mismatched) {
      words.push_back("'" + name + "' (" + to_string(wanted) + ", in the file " + to_string(there) +
                      ")");
    }
    text += "; of another shape or dtype: " + list(words);
  }
  if (!match.left_aside.empty())
    text += "; left aside in the file: " + list(quoted(match.left_aside));
  return text;
}

}  // namespace keel
