// The kernels that this process multiplies by: those that KEEL_ISA asks for, else those that
// the rates of this processor choose. The first to ask reads the rates, or measures them.
// Any thread.
#ifndef KEEL_BACKENDS_COMMON_CUBE_KERNEL_CHOICE_H
#define KEEL_BACKENDS_COMMON_CUBE_KERNEL_CHOICE_H

#include <string>

#include "keel/backends/common/cube/rate_file.h"
#include "keel/core/base/export.h"

namespace keel {

// Returns the kernels of bf16 products for the host ISA in use.
KEEL_API ProductKernels product_kernels();

// Returns the name that says which bits products have here: the host ISA's, with the kernels that
// are not its own.
KEEL_API std::string host_isa_name();

// Returns the rates for the host ISA in use. What was wrong with the file that should have held
// them was logged as a warning.
KEEL_API KeptRates kept_rates();

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_KERNEL_CHOICE_H
