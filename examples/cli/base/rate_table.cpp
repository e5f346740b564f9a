#include "cli/base/rate_table.h"

#include <iostream>
#include <string>

#include <fmt/core.h>
#include <keel/backends/common/cube/kernel_choice.h>
#include <keel/core/base/json.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

namespace keel_cli {
namespace {

bool is_chosen(const keel::KernelRate& rate, const keel::ProductKernels& kernels) {
  return rate.dtype != keel::bf16 || rate.kernel == kernels.of(rate.shape);
}

const char* source_of(const keel::KeptRates& kept) { return kept.measured ? "measured" : "read"; }

const char* choice_text(const keel::KeptRates& kept) {
  if (keel::vector::forced_product_kernels() != nullptr) return "KEEL_ISA";
  return kept.path.empty() ? "instruction set" : "rates";
}

void print_json(const keel::RateKey& key, const keel::KeptRates& kept,
                const keel::ProductKernels& kernels) {
  keel::Json json;
  json["isa"] = keel::host_isa_name();
  json["processor"] = {{"vendor", key.processor.vendor},
                       {"family", key.processor.family},
                       {"model", key.processor.model},
                       {"stepping", key.processor.stepping}};
  json["chosen_by"] = choice_text(kept);
  json["clear_margin"] = keel::kClearMargin;
  json["source"] = source_of(kept);
  json["turns"] = kept.rates.turns;
  json["file"] = kept.path.empty() ? keel::Json() : keel::Json(kept.path);
  json["problem"] = kept.problem.empty() ? keel::Json() : keel::Json(kept.problem);
  for (const keel::KernelRate& rate : kept.rates.cells) {
    const char *dtype = keel::name_of(rate.dtype), *shape = name_of(rate.shape);
    json["gflops"][dtype][shape][name_of(rate.kernel)] = rate.gflops;
    if (is_chosen(rate, kernels)) json["kernels"][dtype][shape] = name_of(rate.kernel);
  }
  std::cout << keel::write_json(json, 2) << "\n";
}

}  // namespace

void print_rates(bool as_json) {
  const keel::RateKey key = keel::rate_key();
  const keel::KeptRates kept = keel::kept_rates();
  const keel::ProductKernels kernels = keel::product_kernels();
  if (as_json) return print_json(key, kept, kernels);
  std::cout << fmt::format("{}, family {}, model {}, stepping {}; isa {}, chosen by {}\n",
                           key.processor.vendor, key.processor.family, key.processor.model,
                           key.processor.stepping, keel::host_isa_name(), choice_text(kept));
  std::cout << fmt::format("rates {} in {} turns{}\n\n", source_of(kept), kept.rates.turns,
                           kept.path.empty() ? ", kept nowhere"
                           : kept.measured   ? ", kept in " + keel::printable(kept.path)
                                             : " from " + keel::printable(kept.path));
  std::cout << fmt::format("  {:<6} {:<8} {:<9} {:>8}\n", "dtype", "shape", "kernel", "GFLOP/s");
  for (const keel::KernelRate& rate : kept.rates.cells) {
    std::cout << fmt::format("  {:<6} {:<8} {:<9} {:>8.1f}{}\n", keel::name_of(rate.dtype),
                             name_of(rate.shape), name_of(rate.kernel), rate.gflops,
                             is_chosen(rate, kernels) ? "  *" : "");
  }
  std::cout << "\n* multiplies. Another kernel than the set's own has to be " << keel::kClearMargin
            << " times as fast.\n";
}

}  // namespace keel_cli
