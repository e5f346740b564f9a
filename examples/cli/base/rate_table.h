// `keel info --rates`: what this processor multiplies in a second, for each class of shapes, dtype
// and kernel, and the kernels that are chosen. Measures where no file has it. The main thread.
#ifndef KEEL_EXAMPLES_CLI_BASE_RATE_TABLE_H
#define KEEL_EXAMPLES_CLI_BASE_RATE_TABLE_H

namespace keel_cli {

void print_rates(bool as_json);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_RATE_TABLE_H
