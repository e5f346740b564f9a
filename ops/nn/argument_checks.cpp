#include "keel/ops/nn/argument_checks.h"

#include <cmath>
#include <string>

#include "keel/core/base/printable.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/ir/graph.h"
#include "keel/ops/nn/remembered.h"

namespace keel {

void require_option(bool ok, const char* who, const char* option, const char* expected, double got,
                    CallSite site) {
  if (ok) return;
  throw Error({.op = who,
               .argument = option,
               .expected = expected,
               .got = printable(got),
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

void require_fraction(double value, const char* who, const char* option, CallSite site) {
  require_option(value >= 0 && value < 1, who, option, "a number in [0, 1)", value, site);
}

void require_positive(double value, const char* who, const char* option, CallSite site) {
  require_option(std::isfinite(value) && value > 0, who, option, "a finite number > 0", value,
                 site);
}

double require_fits(DType dtype, double value, const char* who, const char* option, CallSite site) {
  const double rounded = Tensor::full(dtype, {}, value).at(0);
  const std::string expected = std::string("a finite number that fits ") + name_of(dtype);
  require_option(std::isfinite(rounded), who, option, expected.c_str(), value, site);
  return rounded;
}

void require_not_negative_f32(double value, const char* who, const char* option, CallSite site) {
  require_option(std::isfinite(value) && value >= 0, who, option, "a finite number >= 0", value,
                 site);
  require_fits(f32, value, who, option, site);
}

void require_positive_f32(double value, const char* who, const char* option, CallSite site) {
  require_positive(value, who, option, site);
  require_fits(f32, value, who, option, site);
}

Value require_root_value(const Operand& operand, const char* who, const char* argument,
                         CallSite site) {
  const Value value = require_value(operand, who, argument, site);
  if (value.graph().parent() == nullptr) return value;
  throw Error({.op = who,
               .argument = argument,
               .expected = "a value of the root graph, where states are",
               .got = described(value) + " inside a body of control flow" + made_at(value),
               .fix = "return it from the body first",
               .site = site});
}

void require_float(const Value& value, const char* who, const std::string& argument,
                   CallSite site) {
  const Value given = require_value(Operand(value, site), who, argument.c_str(), site);
  if (is_float(given.dtype())) return;
  const bool state = given.node().is(OpRole::kState);
  throw Error({.op = who,
               .argument = argument,
               .expected = "a float dtype",
               .got = state ? described(given) + " of " + name_of(given.dtype()) + made_at(given)
                            : std::string(name_of(given.dtype())),
               .fix = state ? "make it with a float dtype" : "convert it with cast(x, dtype)",
               .site = site});
}

void require_float_gradients(const char* who, const Values& gradients, CallSite site) {
  for (size_t i = 0; i < gradients.size(); ++i)
    require_float(gradients[i], who, "gradient " + std::to_string(i), site);
}

namespace {

void require_pair(const std::string& who, const Value& state, const Value& gradient,
                  CallSite site) {
  if (!state.valid() || !state.node().is(OpRole::kState)) {
    throw Error({.op = who,
                 .argument = "states",
                 .expected = "states",
                 .got = state.valid() ? described(state) + made_at(state) : described(state),
                 .site = site});
  }
  require_float(state, who.c_str(), "states", site);
  const Type wide{memory_dtype(state.dtype()), state.shape()};
  const bool fits =
      gradient.valid() && (gradient.type() == state.type() || gradient.type() == wide);
  if (!fits) {
    const std::string or_wide = wide == state.type() ? "" : " or " + to_string(wide);
    throw Error({.op = who,
                 .argument = "gradient of " + name_of(state.node()),
                 .expected = to_string(state.type()) + or_wide,
                 .got = gradient.valid() ? to_string(gradient.type()) : "an empty Value",
                 .site = site});
  }
}

}  // namespace

void require_gradients(const std::string& who, const Values& states, const Values& gradients,
                       CallSite site) {
  if (states.size() != gradients.size()) {
    throw Error({.op = who,
                 .argument = "gradients",
                 .expected = std::to_string(states.size()) + ", one for each state",
                 .got = std::to_string(gradients.size()),
                 .site = site});
  }
  for (size_t i = 0; i < states.size(); ++i) require_pair(who, states[i], gradients[i], site);
}

}  // namespace keel
