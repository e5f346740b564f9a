// How optimizers, schedules and updates refuse what they cannot work with: errors that name who
// refuses and the argument, for numbers of kind kInvalidArgument. Internal to ops/nn.
#ifndef KEEL_OPS_NN_ARGUMENT_CHECKS_H
#define KEEL_OPS_NN_ARGUMENT_CHECKS_H

#include <string>

#include "keel/graph/ir/operand.h"

namespace keel {

void require_option(bool ok, const char* who, const char* option, const char* expected, double got,
                    CallSite site);
// In [0, 1).
void require_fraction(double value, const char* who, const char* option, CallSite site);
// Finite and > 0.
void require_positive(double value, const char* who, const char* option, CallSite site);
// Finite as an element of that dtype, too. Returns it so rounded.
double require_fits(DType dtype, double value, const char* who, const char* option, CallSite site);
// Rates, factors and what else a step computes with in f32: finite there, and >= 0 or > 0.
void require_not_negative_f32(double value, const char* who, const char* option, CallSite site);
void require_positive_f32(double value, const char* who, const char* option, CallSite site);

// The operand as a value of the root graph, where states are.
Value require_root_value(const Operand& operand, const char* who, const char* argument,
                         CallSite site);
// One gradient for each state, of its type; of a 16-bit state f32, too, as gradients are that were
// unscaled or summed. The states are floats: an integer takes no step that is not cut to a whole
// number.
void require_gradients(const std::string& who, const Values& states, const Values& gradients,
                       CallSite site);
// A value that is a float: an integer that is scaled would be cut to a whole number.
void require_float(const Value& value, const char* who, const std::string& argument, CallSite site);
// The same of each of the gradients, by its number.
void require_float_gradients(const char* who, const Values& gradients, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_NN_ARGUMENT_CHECKS_H
