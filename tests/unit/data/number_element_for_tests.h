// An element that is one number.
#ifndef KEEL_TESTS_UNIT_DATA_NUMBER_ELEMENT_FOR_TESTS_H
#define KEEL_TESTS_UNIT_DATA_NUMBER_ELEMENT_FOR_TESTS_H

#include "keel/data/pipeline/dataset.h"

namespace keel::testing {

inline const ElementSpec kNumber{{{"n", {i64, {}}}}};

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_DATA_NUMBER_ELEMENT_FOR_TESTS_H
