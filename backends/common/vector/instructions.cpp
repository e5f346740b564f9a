#include "keel/backends/common/vector/instructions.h"

#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/common/vector/instruction_table.h"

namespace keel::vector {
namespace {

using Family = InstructionTable (*)();
constexpr Family kFamilies[] = {&float_arithmetic_table, &float_math_table, &float_compare_table,
                                &integer_table,          &logic_table,      &cast_table};

VectorInstruction find_exactly(std::string_view op, DType in, DType out, bool saturate_f16) {
  for (const Family family : kFamilies) {
    if (const auto found = family().find(op, in, out, saturate_f16)) return found;
  }
  return nullptr;
}

}  // namespace

VectorInstruction find_instruction(std::string_view op, DType in, DType out, bool saturate_f16) {
  host_isa();  // makes the choice, if nobody has
  if (saturate_f16 && out == f16) {
    if (const auto found = find_exactly(op, in, out, true)) return found;
  }
  return find_exactly(op, in, out, false);
}

int64_t instruction_passes(std::string_view op) {
  host_isa();
  for (const Family family : kFamilies) {
    if (const int64_t passes = family().passes(op); passes != 0) return passes;
  }
  return 0;
}

}  // namespace keel::vector
