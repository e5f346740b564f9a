#include "cli/base/ranks.h"

#include <csignal>

#include <keel/core/device/job_environment.h>
#include <keel/core/group/join_group.h>

namespace keel_cli {

std::shared_ptr<keel::Group> join_ranks() {
  const keel::JoinOptions options = keel::read_join_options(keel::read_job_environment().place);
  std::signal(SIGPIPE, SIG_IGN);
  return keel::join_group(options);
}

}  // namespace keel_cli
