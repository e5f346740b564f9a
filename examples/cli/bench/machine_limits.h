// Loops that keep one thread at a limit of the processor: multiply-adds, or reading and writing
// memory. The caller times them (machine_peaks.cpp). They are compiled for the building machine's
// processor if KEEL_NATIVE is on, otherwise for the portable instruction set. Any thread.
#ifndef KEEL_EXAMPLES_CLI_BENCH_MACHINE_LIMITS_H
#define KEEL_EXAMPLES_CLI_BENCH_MACHINE_LIMITS_H

#include <cstddef>

namespace keel_cli {

// Independent multiply-adds on registers; returns how many operations (two each) were done, 0 where
// it is not known here how to reach the peak.
double run_fma_chains();   // f32
double run_bf16_chains();  // of bf16 pairs, summed in f32; 0 without instructions for them
// The same on AMX tiles, products of [16, 32] and [32, 16]. REQUIRES that the processor has tiles
// with bf16 and that the operating system let this process use them; 0 where it cannot be compiled.
double run_bf16_tiles();
// Says whether the processor multiplies f16 by instructions whose peak the loops above do not reach.
bool has_f16_arithmetic() noexcept;

// Arrays of n floats aligned to 64 bytes; n is a multiple of 64. `past_caches`: with stores that
// pass the caches by.
void copy_floats(const float* a, float* to, size_t n, bool past_caches);
// to = a * b + c
void triad(const float* a, const float* b, const float* c, float* to, size_t n, bool past_caches);
float read_floats(const float* a, size_t n);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_MACHINE_LIMITS_H
