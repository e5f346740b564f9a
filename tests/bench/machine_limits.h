// What this processor can do at this moment on one thread: loops that do nothing else. Compiled for
// the machine they run on.
#ifndef KEEL_TESTS_BENCH_MACHINE_LIMITS_H
#define KEEL_TESTS_BENCH_MACHINE_LIMITS_H

#include <cstddef>

namespace keel_bench {

// Independent f32 multiply-adds on registers; returns how many operations (two each) were done.
double run_fma_chains();

// Arrays of n floats aligned to 64 bytes; n is a multiple of 64. `past_caches`: with stores that
// pass the caches by.
void copy_floats(const float* a, float* to, size_t n, bool past_caches);
// to = a * b + c
void triad(const float* a, const float* b, const float* c, float* to, size_t n, bool past_caches);
float read_floats(const float* a, size_t n);

}  // namespace keel_bench

#endif  // KEEL_TESTS_BENCH_MACHINE_LIMITS_H
