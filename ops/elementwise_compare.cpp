// Comparisons and logic: ops that give bool.
#include "keel/ops/elementwise.h"
#include "keel/ops/elementwise_rules.h"

namespace keel {
namespace {

// Small integers, so that ties happen in every dtype.
Tensor draw_ties(SampleSource& source, const Shape& shape) {
  Tensor t = source.values(shape, 0, 3);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, std::floor(t.at(i)));
  return t;
}

template <unsigned kAllowed, class Rule>
void add_comparison(OpTable& table, const std::string& name, const std::string& summary,
                    Rule rule) {
  add_binary<kAllowed>(
      table,
      {.name = name, .summary = summary, .cheap = true, .draw_a = draw_ties, .draw_b = draw_ties},
      rule);
}

}  // namespace

void register_elementwise_compare(OpTable& table) {
  add_comparison<kAnyDType>(table, "equal", "a == b; false for NaN",
                            [](auto a, auto b) { return a == b; });
  add_comparison<kAnyDType>(table, "not_equal", "a != b; true for NaN",
                            [](auto a, auto b) { return a != b; });
  add_comparison<kNumbers>(table, "less", "a < b; false for NaN",
                           [](auto a, auto b) { return a < b; });
  add_comparison<kNumbers>(table, "less_equal", "a <= b; false for NaN",
                           [](auto a, auto b) { return a <= b; });
  add_comparison<kNumbers>(table, "greater", "a > b; false for NaN",
                           [](auto a, auto b) { return a > b; });
  add_comparison<kNumbers>(table, "greater_equal", "a >= b; false for NaN",
                           [](auto a, auto b) { return a >= b; });

  add_binary<kBools>(table, {.name = "logical_and", .summary = "a and b"},
                     [](bool a, bool b) { return a && b; });
  add_binary<kBools>(table, {.name = "logical_or", .summary = "a or b"},
                     [](bool a, bool b) { return a || b; });
  add_binary<kBools>(table, {.name = "logical_xor", .summary = "either a or b"},
                     [](bool a, bool b) { return a != b; });
  add_unary<kBools>(table, {.name = "logical_not", .summary = "not x"}, [](bool x) { return !x; });
}

Value equal(Operand a, Operand b, CallSite site) { return emit("equal", {a, b}, site); }
Value not_equal(Operand a, Operand b, CallSite site) { return emit("not_equal", {a, b}, site); }
Value less(Operand a, Operand b, CallSite site) { return emit("less", {a, b}, site); }
Value less_equal(Operand a, Operand b, CallSite site) { return emit("less_equal", {a, b}, site); }
Value greater(Operand a, Operand b, CallSite site) { return emit("greater", {a, b}, site); }
Value greater_equal(Operand a, Operand b, CallSite site) {
  return emit("greater_equal", {a, b}, site);
}

Value logical_and(Operand a, Operand b, CallSite site) { return emit("logical_and", {a, b}, site); }
Value logical_or(Operand a, Operand b, CallSite site) { return emit("logical_or", {a, b}, site); }
Value logical_xor(Operand a, Operand b, CallSite site) { return emit("logical_xor", {a, b}, site); }
Value logical_not(Operand x, CallSite site) { return emit("logical_not", {x}, site); }

}  // namespace keel
