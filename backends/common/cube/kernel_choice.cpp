#include "keel/backends/common/cube/kernel_choice.h"

#include <map>
#include <mutex>
#include <utility>

#include "keel/core/base/log.h"

namespace keel {
namespace {

struct Choice {
  KeptRates kept;
  ProductKernels kernels;
};

// Returns what the rates choose for a host ISA; what was returned stays as others are added.
const Choice& choice_by_rate(vector::HostIsa isa) {
  static std::mutex mutex;
  static std::map<vector::HostIsa, Choice> of_isa;
  const std::lock_guard guard(mutex);
  const auto known = of_isa.find(isa);
  if (known != of_isa.end()) return known->second;
  KeptRates kept = keep_rates(rate_key(), rate_folder(), [] { return measure_kernel_rates(); });
  if (!kept.problem.empty()) {
    log_warn("the rates of this processor's kernels were measured anew" +
             std::string(kept.path.empty() ? " and are not kept, so they choose nothing: " : ": ") +
             kept.problem);
  }
  // Rates that the next process, or the next rank, cannot look up must not decide bits.
  const ProductKernels kernels = kept.path.empty() ? vector::own_product_kernels(isa)
                                                   : choose_product_kernels(isa, kept.rates);
  return of_isa.emplace(isa, Choice{std::move(kept), kernels}).first->second;
}

}  // namespace

ProductKernels product_kernels() {
  if (const ProductKernels* forced = vector::forced_product_kernels()) return *forced;
  const vector::HostIsa isa = vector::host_isa();
  if (vector::product_kernels_of(isa).size() == 1) return vector::own_product_kernels(isa);
  return choice_by_rate(isa).kernels;
}

std::string host_isa_name() { return name_of(vector::host_isa(), product_kernels()); }

KeptRates kept_rates() { return choice_by_rate(vector::host_isa()).kept; }

}  // namespace keel
