#include "keel/backends/npu/isa/vector_passes.h"

namespace keel::npu {
namespace {

struct Passes {
  const char* op;
  int64_t count;
};

// One pass for what the unit has an instruction for; the rest counts the instructions of the usual
// polynomial or iteration. Assumed: no such table is published.
constexpr Passes kPasses[] = {
    // arithmetic
    {"add", 1},
    {"sub", 1},
    {"mul", 1},
    {"maximum", 1},
    {"minimum", 1},
    {"neg", 1},
    {"abs", 1},
    {"square", 1},
    {"relu", 1},
    {"copy", 1},
    {"cast", 1},
    {"sign", 4},
    {"div", 4},
    {"reciprocal", 4},
    {"mod", 8},
    {"floor", 2},
    {"ceil", 2},
    {"round", 2},
    // comparisons and logic
    {"equal", 2},
    {"not_equal", 2},
    {"less", 2},
    {"less_equal", 2},
    {"greater", 2},
    {"greater_equal", 2},
    {"select", 2},
    {"logical_and", 1},
    {"logical_or", 1},
    {"logical_xor", 1},
    {"logical_not", 1},
    // functions
    {"sqrt", 4},
    {"rsqrt", 4},
    {"exp", 12},
    {"expm1", 14},
    {"log", 12},
    {"log1p", 14},
    {"sigmoid", 16},
    {"tanh", 20},
    {"sin", 30},
    {"cos", 30},
    {"erf", 30},
    {"pow", 30},
    {"gelu", 36},
    // reductions
    {"sum", 1},
    {"max", 1},
    {"min", 1},
    {"prod", 1},
};

}  // namespace

int64_t vector_passes(std::string_view op) noexcept {
  for (const Passes& passes : kPasses) {
    if (op == passes.op) return passes.count;
  }
  return 0;
}

}  // namespace keel::npu
