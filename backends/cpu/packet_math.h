// exp and log of many numbers at a time by Eigen's vector functions, and f16 to f32 and back by the
// processor's instructions where it has them. An element's bits do not depend on where it lies:
// what does not fill a vector goes through one all the same. Pure; any thread.
#ifndef KEEL_BACKENDS_CPU_PACKET_MATH_H
#define KEEL_BACKENDS_CPU_PACKET_MATH_H

#include <cstddef>

#include "keel/core/base/half.h"

namespace keel::cpu {

// `to` may be `from`.
void exp_all(const float* from, float* to, size_t count);
void exp_all(const double* from, double* to, size_t count);
void log_all(const float* from, float* to, size_t count);
void log_all(const double* from, double* to, size_t count);

// These convert as half.h does, but that a signalling NaN becomes quiet. `to` and `from` are
// disjoint.
void widen_all(const Half* from, float* to, size_t count);
void narrow_all(const float* from, Half* to, size_t count);

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_PACKET_MATH_H
