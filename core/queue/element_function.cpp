#include "keel/core/queue/element_function.h"

namespace keel {

ElementFunction::~ElementFunction() = default;

}  // namespace keel
