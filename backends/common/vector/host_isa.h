// HostIsa: which of the host's instruction sets the vector library, and the
// cube of all backends, compute with. One choice per
// process, made by the first look-up of an instruction or by select_host_isa; instructions and cube
// plans that were looked up before a change keep the set they were resolved for. Selecting is for
// start-up and tests: REQUIRES that no other thread looks up instructions meanwhile. Reading the
// choice is safe from any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_HOST_ISA_H
#define KEEL_BACKENDS_COMMON_VECTOR_HOST_ISA_H

#include <string>
#include <string_view>
#include <vector>

#include "keel/core/base/export.h"

namespace keel::vector {

// The last two compute vectors as kAvx512 does, and bf16 products with AVX512_BF16's dot products
// of pairs or on AMX tiles.
enum class HostIsa { kScalar, kSse4, kAvx2, kAvx512, kAvx512Bf16, kAmx };

// "scalar", "sse4", "avx2", "avx512", "avx512_bf16", "amx".
KEEL_API const char* name_of(HostIsa isa) noexcept;

// Returns what this build has code for and this processor and operating system can run, in the
// order above; never empty.
KEEL_API std::vector<HostIsa> available_host_isas();

// Chooses the set of that name, or the last available one for nullptr or "". Behind the name and a
// colon there may be kernels for classes of bf16 products (product_kernels.h). Throws Error
// (kInvalidArgument) for an unknown name or one that is not available here, with the names that
// are, and then changes nothing.
KEEL_API HostIsa select_host_isa(const char* name);

struct ProductKernels;
// Returns the kernels of bf16 products that the name selected last asks for: a name without a list
// asks for the set's own. Null where no name was given: then they are chosen by rate.
KEEL_API const ProductKernels* forced_product_kernels();

// Returns the set in use. The first call selects the one that the environment variable KEEL_ISA
// names, and throws as above.
KEEL_API HostIsa host_isa();

// Says whether the processor has AVX512_BF16's dot products of pairs.
KEEL_API bool has_bf16_dot_products();

struct AmxStatus {
  bool available = false;
  std::string reason;  // why not, or how it was found
};
// Asks the processor, then once the operating system for permission to use tiles.
KEEL_API const AmxStatus& amx_status();

// Returns the names of available_host_isas(), separated by spaces.
KEEL_API std::string available_host_isa_names();

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_HOST_ISA_H
