#include "keel/core/queue/feeder.h"

namespace keel {

Feeder::~Feeder() = default;

}  // namespace keel
