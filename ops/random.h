// Random ops. Counter-based: what comes out is a function of a key operand and the element's index
// alone, so the bits are the same on every backend, for every number of threads and in every
// re-run. The builders below make a fresh key from the session's seed, the step, the place in the
// graph and the iteration of enclosing loops (random_key).
//
// Each function adds its nodes to `graph` (dropout: to that of x). Errors and printed graphs name
// `site`.
#ifndef KEEL_OPS_RANDOM_H
#define KEEL_OPS_RANDOM_H

#include <cstddef>
#include <cstdint>

#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"

namespace keel {

// Attributes of uniform [a, b), normal (mean a, deviation b) and bernoulli (true with probability
// a).
struct RandomAttributes {
  DType dtype = f32;
  Shape shape;
  double a = 0;
  double b = 1;
  int64_t first = 0;  // the number of the first element in the sequence that the key gives
  static void fields(auto&& visit) {
    visit("dtype", &RandomAttributes::dtype);
    visit("shape", &RandomAttributes::shape);
    visit("a", &RandomAttributes::a);
    visit("b", &RandomAttributes::b);
    visit("first", &RandomAttributes::first);
  }
};
// Attributes of the same ops with "_like" behind their names, which take their shape from a second
// operand.
struct RandomLikeAttributes {
  DType dtype = f32;
  double a = 0;
  double b = 1;
  int64_t first = 0;
  static void fields(auto&& visit) {
    visit("dtype", &RandomLikeAttributes::dtype);
    visit("a", &RandomLikeAttributes::a);
    visit("b", &RandomLikeAttributes::b);
    visit("first", &RandomLikeAttributes::first);
  }
};

// Returns a key derived from a key and a number, both i64 scalars: fold_key of core/base/random.h
// on their bits.
KEEL_API Value fold_key(Operand key, Operand data, CallSite site = {});

// Float dtypes; uniform draws from [low, high), though rounding to the dtype may give `high`
// itself.
KEEL_API Value uniform(Graph& graph, const Shape& shape, double low = 0, double high = 1,
                       DType dtype = f32, CallSite site = CallSite::here());
KEEL_API Value normal(Graph& graph, const Shape& shape, double mean = 0, double deviation = 1,
                      DType dtype = f32, CallSite site = CallSite::here());
// bool: true with this probability.
KEEL_API Value bernoulli(Graph& graph, double probability, const Shape& shape,
                         CallSite site = CallSite::here());

// Does the same with a given key, in the shape of `like` (which may have unknown dimensions).
KEEL_API Value uniform_like(Operand key, Operand like, double low, double high, DType dtype,
                            CallSite site = {});
KEEL_API Value normal_like(Operand key, Operand like, double mean, double deviation, DType dtype,
                           CallSite site = {});
KEEL_API Value bernoulli_like(Operand key, Operand like, double probability, CallSite site = {});

// Drops elements in training: each element of x (a float) is 0 with probability `rate`, in [0, 1),
// else divided by 1 - rate; the gradient has the same mask. Otherwise x itself.
KEEL_API Value dropout(Operand x, double rate, bool training = true, CallSite site = {});

// Elements first, first + 1, ... of the ops above, as every backend must give them: drawn in f64
// for f64, else in f32, then moved to the distribution in double and rounded once. `out` holds
// `count` elements of `dtype`, a float.
KEEL_API void fill_uniform_elements(DType dtype, void* out, size_t count, uint64_t key,
                                    uint64_t first, double low, double high);
KEEL_API void fill_normal_elements(DType dtype, void* out, size_t count, uint64_t key,
                                   uint64_t first, double mean, double deviation);

}  // namespace keel

#endif  // KEEL_OPS_RANDOM_H
