// The group of the ranks that this process of the tool belongs to. One thread.
#ifndef KEEL_EXAMPLES_CLI_BASE_RANKS_H
#define KEEL_EXAMPLES_CLI_BASE_RANKS_H

#include <memory>

#include <keel/core/group/group.h>

namespace keel_cli {

// Joins the others, as the environment says (a launcher, a rank table, CM_*); a group of one where
// it says nothing. From then on the process ignores SIGPIPE, since a rank that dies would take the
// others along before they can say why.
std::shared_ptr<keel::Group> join_ranks();

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_RANKS_H
