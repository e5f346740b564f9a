#include "keel/core/group/fingerprint.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "keel/core/base/json.h"

namespace keel {
namespace {

std::string in_capitals(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return std::isalnum(c) != 0 ? static_cast<char>(std::toupper(c)) : '_';
  });
  return name;
}

// Ranks of other versions may have other names.
std::string entry(const Fingerprint& of_rank, const std::string& name) {
  const auto found = of_rank.find(name);
  return found == of_rank.end() ? "none" : found->second;
}

Fingerprint parse(const std::string& text) {
  const Json json = parse_json(text, "fingerprint");
  const JsonView view(json, "fingerprint");
  Fingerprint read;
  for (const auto& [name, value] : json.items()) read[name] = view[name].text();
  return read;
}

}  // namespace

void require_equal_fingerprints(Group& group, const Fingerprint& own) {
  std::vector<Fingerprint> by_rank;
  std::set<std::string> names;
  for (const std::string& text : group.all_gather(write_json(Json(own)))) {
    by_rank.push_back(parse(text));
    for (const auto& [name, value] : by_rank.back()) names.insert(name);
  }
  std::string differences;
  for (const std::string& name : names) {
    const std::string first = entry(by_rank[0], name);
    for (size_t rank = 1; rank < by_rank.size(); ++rank) {
      const std::string other = entry(by_rank[rank], name);
      if (other == first) continue;
      differences += (differences.empty() ? "" : ", ") + in_capitals(name) + "_DIVERGED(rank 0 " +
                     first + ", rank " + std::to_string(rank) + " " + other + ")";
      break;
    }
  }
  if (differences.empty()) return;
  end_together(group);
  throw RankLost({.op = differences, .message = "the ranks would not train the same model"});
}

}  // namespace keel
