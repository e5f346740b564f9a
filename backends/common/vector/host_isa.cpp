#include "keel/backends/common/vector/host_isa.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "hwy/targets.h"

#include "keel/backends/common/vector/product_kernels.h"
#include "keel/core/base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <unistd.h>

#include <sys/syscall.h>
#endif

namespace keel::vector {
namespace {

struct Choice {
  HostIsa isa;
  const char* name;
  int64_t highway_target;
};

#if HWY_ARCH_X86
constexpr Choice kChoices[] = {
    {HostIsa::kScalar, "scalar", HWY_SCALAR | HWY_EMU128},
    {HostIsa::kSse4, "sse4", HWY_SSE4},
    {HostIsa::kAvx2, "avx2", HWY_AVX2},
    {HostIsa::kAvx512, "avx512", HWY_AVX3},
    {HostIsa::kAvx512Bf16, "avx512_bf16", HWY_AVX3},
    {HostIsa::kAmx, "amx", HWY_AVX3},
};
#else
constexpr Choice kChoices[] = {{HostIsa::kScalar, "scalar", HWY_SCALAR | HWY_EMU128}};
#endif

constexpr int kUnselected = -1;
std::atomic<int> selected{kUnselected};
std::atomic<const ProductKernels*> forced_kernels{nullptr};

// Returns a copy that stays where it is: others may still read those of an earlier choice.
const ProductKernels* kept(const ProductKernels& kernels) {
  static std::mutex mutex;
  static std::deque<ProductKernels> all;
  const std::lock_guard lock(mutex);
  for (const ProductKernels& known : all) {
    if (known == kernels) return &known;
  }
  return &all.emplace_back(kernels);
}

#if defined(__x86_64__)
bool detect_bf16_dot_products() {
  constexpr uint32_t kAvx512Bf16 = 1u << 5;  // CPUID 7.1 EAX
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && a >= 1 &&
         __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvx512Bf16) != 0;
}
#else
bool detect_bf16_dot_products() { return false; }
#endif

const Choice& choice_of(HostIsa isa) {
  for (const Choice& choice : kChoices) {
    if (choice.isa == isa) return choice;
  }
  return kChoices[0];
}

// Returns the compiled target that stands for the choice here, or 0. REQUIRES that no target is
// forced.
int64_t usable_target(const Choice& choice) {
  if (choice.isa == HostIsa::kAmx && !amx_status().available) return 0;
  if (choice.isa == HostIsa::kAvx512Bf16 && !has_bf16_dot_products()) return 0;
  const int64_t compiled = choice.highway_target & HWY_TARGETS;
  // The fallback is always callable; Highway does not list it beside better ones on every compiler.
  if (choice.isa == HostIsa::kScalar) return compiled;
  return compiled & hwy::SupportedTargets();
}

std::string join_names(const std::vector<HostIsa>& isas) {
  std::string text;
  for (const HostIsa isa : isas) {
    if (!text.empty()) text += ' ';
    text += name_of(isa);
  }
  return text;
}

std::vector<HostIsa> usable_isas() {
  std::vector<HostIsa> isas;
  for (const Choice& choice : kChoices) {
    if (usable_target(choice) != 0) isas.push_back(choice.isa);
  }
  return isas;
}

// Runs `f` while no target is forced, and restores what was.
template <class F>
auto with_all_targets(F f) {
  hwy::SetSupportedTargetsForTest(0);
  auto result = f();
  const int now = selected.load();
  if (now != kUnselected) {
    hwy::SetSupportedTargetsForTest(usable_target(choice_of(static_cast<HostIsa>(now))));
  }
  return result;
}

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
  throw Error({.op = "KEEL_ISA",
               .expected = "one of " + join_names(available_host_isas()),
               .got = "'" + std::string(name) + "'" + why,
               .fix = "unset it to use the best one",
               .kind = ErrorKind::kInvalidArgument});
}

#if defined(__x86_64__)
uint64_t enabled_states() {
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

AmxStatus detect_amx() {
  constexpr uint32_t kOsXsave = 1u << 27;
  constexpr uint32_t kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  constexpr uint64_t kTileStates = (1u << 17) | (1u << 18);
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsXsave) == 0) {
    return {false, "the operating system does not manage extended states (OSXSAVE)"};
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmxTile) == 0) {
    return {false, "the processor has no tiles (CPUID 7 EDX bit 24)"};
  }
  if ((d & kAmxBf16) == 0) return {false, "the tiles have no bf16 (CPUID 7 EDX bit 22)"};
  if ((enabled_states() & kTileStates) != kTileStates) {
    return {false, "the operating system has not enabled the tile state (XCR0 bits 17 and 18)"};
  }
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) {
    return {false, "the kernel refused permission for tiles (arch_prctl)"};
  }
  return {true, "tiles with bf16, permission granted by the kernel"};
}
#else
AmxStatus detect_amx() { return {false, "not an x86-64 processor"}; }
#endif

}  // namespace

const char* name_of(HostIsa isa) noexcept { return choice_of(isa).name; }

bool has_bf16_dot_products() {
  static const bool has = detect_bf16_dot_products();
  return has;
}

const AmxStatus& amx_status() {
  static const AmxStatus status = detect_amx();
  return status;
}

std::vector<HostIsa> available_host_isas() { return with_all_targets(usable_isas); }

HostIsa select_host_isa(const char* name) {
  const std::vector<HostIsa> available = available_host_isas();
  const std::string_view request = name == nullptr ? "" : name;
  const size_t colon = request.find(':');
  const std::string_view wanted = request.substr(0, colon);
  if (colon == 0) refuse(request, ": no set of instructions stands before the colon");
  const Choice* choice = wanted.empty() ? &choice_of(available.back()) : nullptr;
  for (const Choice& candidate : kChoices) {
    if (!wanted.empty() && wanted == candidate.name) choice = &candidate;
  }
  if (choice == nullptr) refuse(wanted, "");
  const int64_t target = with_all_targets([&] { return usable_target(*choice); });
  if (target == 0) {
    refuse(wanted, choice->isa == HostIsa::kAmx ? ": " + amx_status().reason
                                                : std::string(", which is not available here"));
  }
  const ProductKernels* forced = nullptr;
  if (!wanted.empty()) {
    forced = kept(colon == std::string_view::npos
                      ? own_product_kernels(choice->isa)
                      : parse_product_kernels(choice->isa, request.substr(colon + 1), "KEEL_ISA"));
  }
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().DeInit();
  forced_kernels.store(forced);
  selected.store(static_cast<int>(choice->isa));
  return choice->isa;
}

const ProductKernels* forced_product_kernels() {
  host_isa();
  return forced_kernels.load();
}

HostIsa host_isa() {
  const int now = selected.load();
  if (now != kUnselected) return static_cast<HostIsa>(now);
  static const HostIsa first = select_host_isa(std::getenv("KEEL_ISA"));
  return first;
}

std::string available_host_isa_names() {
  // Asking what is there changes Highway's choice for a moment, so it is done once.
  static const std::string kNames = join_names(available_host_isas());
  return kNames;
}

}  // namespace keel::vector
