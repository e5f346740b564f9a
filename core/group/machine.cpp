#include "keel/core/group/machine.h"

#include <algorithm>
#include <fstream>

namespace keel {

std::string machine_name() {
  // The files there say that they are empty, so that what reads a file by its size finds nothing.
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  return std::getline(file, boot) ? boot : "";
}

int ranks_beside(const std::vector<std::string>& machines, int rank) {
  const std::string& own = machines[static_cast<size_t>(rank)];
  return static_cast<int>(std::count(machines.begin(), machines.end(), own));
}

// A rank table does not say it: a launcher's ranks are all on one machine, whatever their table
// says.
int ranks_on_this_machine(Group& group) {
  return ranks_beside(group.all_gather(machine_name()), group.rank());
}

}  // namespace keel
