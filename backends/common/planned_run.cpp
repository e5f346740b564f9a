#include "keel/backends/common/planned_run.h"

namespace keel {

PlannedRun::~PlannedRun() = default;

}  // namespace keel
