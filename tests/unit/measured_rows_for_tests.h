// Measured rows of tests, in the columns that most of them have.
#ifndef KEEL_TESTS_UNIT_MEASURED_ROWS_FOR_TESTS_H
#define KEEL_TESTS_UNIT_MEASURED_ROWS_FOR_TESTS_H

#include <string>

#include "keel/backends/npu/measured/measured_table.h"

namespace npu_model_test {

inline const std::string kMeasuredHeader =
    "OP Type,Block Dim,Task Duration(us),Input Shapes,Input Data Types,Input Formats,Output "
    "Shapes,Output Data Types\n";

// The row of a table that has only this one.
inline keel::npu::MeasuredRow row_of(const std::string& text) {
  return keel::npu::parse_measured(kMeasuredHeader + text + "\n", "t.csv").rows.at(0);
}

}  // namespace npu_model_test

#endif  // KEEL_TESTS_UNIT_MEASURED_ROWS_FOR_TESTS_H
