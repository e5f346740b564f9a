#include "keel/core/group/group.h"

#include "keel/core/group/root_rank.h"

namespace keel {

RankLost::~RankLost() = default;
Reduction::~Reduction() = default;
Group::~Group() = default;

RankLost Group::ended_by(const std::string& loss) const {
  return RankLost({.message = loss + "; this rank was " + to_string(*progress_)});
}

void require_root(const Group& group, int root, const std::string& op, CallSite site) {
  if (root >= 0 && root < group.size()) return;
  throw Error({.op = op,
               .argument = "root",
               .expected = "a rank from 0 to " + std::to_string(group.size() - 1),
               .got = std::to_string(root),
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

std::string name_of_broadcast(size_t count, int root) {
  return "broadcasts " + std::to_string(count) + " bytes of rank " + std::to_string(root);
}

void require_equal(const std::string& code, const std::vector<std::string>& by_rank) {
  for (size_t i = 1; i < by_rank.size(); ++i) {
    if (by_rank[i] == by_rank[0]) continue;
    throw RankLost({.op = code + "(rank 0 " + by_rank[0] + ", rank " + std::to_string(i) + " " +
                          by_rank[i] + ")",
                    .message = "the ranks do not do the same"});
  }
}

void require_equal(Group& group, const std::string& code, const std::string& own) {
  const std::vector<std::string> by_rank = group.all_gather(own);
  try {
    require_equal(code, by_rank);
  } catch (const RankLost&) {
    end_together(group);
    throw;
  }
}

void end_together(Group& group) {
  try {
    group.all_gather("");
  } catch (const RankLost&) {
    // Then the others know already.
  }
}

}  // namespace keel
