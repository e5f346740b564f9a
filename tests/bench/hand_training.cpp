// Usage: bench_hand_training softmax|mlp|mlp_bf16 STEPS DATA. Prints microseconds a step and the
// accuracy on the test set; exits with 77 where this processor or build has not what it takes.
#include "bench/hand_training.h"

#include <cstdio>
#include <string_view>

namespace keel_bench {
namespace {

constexpr int kCannotRun = 77;

// The files with the loops are compiled for AVX-512 or AVX2 as a whole: nothing of theirs may run
// before the processor was asked.
bool has_avx512() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const char* what_is_missing(std::string_view task) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return "this processor has no AVX2 with FMA";
  if (task == "softmax") return nullptr;
#if KEEL_BENCH_ONEDNN
  if (task == "mlp_bf16" && (!has_avx512() || !__builtin_cpu_supports("avx512bf16")))
    return "this processor has no AVX512_BF16";
  return nullptr;
#else
  return "built without oneDNN (libdnnl-dev)";
#endif
}

HandResult train(std::string_view task, const keel::LabelledSplits& data, int64_t steps) {
  const bool wide = has_avx512();
#if KEEL_BENCH_ONEDNN
  if (task == "mlp")
    return wide ? avx512::train_mlp_on_sgemm(data, steps) : avx2::train_mlp_on_sgemm(data, steps);
  if (task == "mlp_bf16") return avx512::train_mlp_on_bf16(data, steps);
#endif
  if (task == "softmax")
    return wide ? avx512::train_softmax_by_hand(data, steps)
                : avx2::train_softmax_by_hand(data, steps);
  throw keel::Error(
      {.op = "TASK", .expected = "softmax, mlp or mlp_bf16", .got = std::string(task)});
}

int run(const std::string& task, const char* steps, const std::string& source) {
  const int64_t count = keel::parse_integer(steps, "STEPS", 1);
  const auto data = source == "digits" ? keel::make_digits() : keel::load_mnist(source);
  const HandResult result = train(task, data, count);
  std::printf("%.3f %.4f\n", result.step_us, result.accuracy);
  return 0;
}

}  // namespace
}  // namespace keel_bench

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s softmax|mlp|mlp_bf16 STEPS MNIST_DIR|digits\n", argv[0]);
    return 2;
  }
  if (const char* missing = keel_bench::what_is_missing(argv[1])) {
    std::fprintf(stderr, "%s %s: %s\n", argv[0], argv[1], missing);
    return keel_bench::kCannotRun;
  }
  try {
    return keel_bench::run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
