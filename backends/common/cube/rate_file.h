// The rates of a processor's kernels as a file in the user's cache folder: measured once, kept for
// the processor, the instructions in use and this version of Keel. A file that cannot be read, is
// broken or of another processor is measured anew; one that cannot be written costs the next
// process a measurement. Neither is an error: what went wrong is told. Several processes may do
// this at once: one of them measures, the others wait for its file. Any thread, one at a time.
#ifndef KEEL_BACKENDS_COMMON_CUBE_RATE_FILE_H
#define KEEL_BACKENDS_COMMON_CUBE_RATE_FILE_H

#include <optional>
#include <string>
#include <string_view>

#include "keel/backends/common/cube/kernel_rates.h"
#include "keel/backends/common/cube/processor.h"
#include "keel/core/base/export.h"
#include "keel/core/base/function_ref.h"

namespace keel {

// Says what a table of rates is of.
struct RateKey {
  Processor processor;
  vector::HostIsa isa = vector::HostIsa::kScalar;
  std::string version;  // of Keel
};
KEEL_API RateKey rate_key();  // of this process

// Returns XDG_CACHE_HOME, where it is an absolute path, else .cache in HOME, and "keel" in it;
// nothing where neither is set.
KEEL_API std::optional<std::string> rate_folder();
// "rates-AuthenticAMD-25-17-1-avx512_bf16-0.1.0.json"
KEEL_API std::string rate_file_name(const RateKey& key);

KEEL_API std::string write_rates(const RateKey& key, const KernelRates& rates);
// Throws Error naming `source` for a text that is no complete table of the key's.
KEEL_API KernelRates read_rates(const RateKey& key, std::string_view text,
                                const std::string& source);

struct KeptRates {
  KernelRates rates;
  bool measured = false;  // now; else they were read
  std::string path;       // of the file that holds them; empty where none does
  std::string problem;    // what was wrong with the file or the folder; empty: nothing
};
// Returns the rates from the folder's file, or what `measure` returns, which is then kept there.
KEEL_API KeptRates keep_rates(const RateKey& key, const std::optional<std::string>& folder,
                              FunctionRef<KernelRates()> measure);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_RATE_FILE_H
