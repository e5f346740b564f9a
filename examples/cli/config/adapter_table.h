// The options of Ascend's TensorFlow adapter and what becomes of each. Data alone.
#ifndef KEEL_EXAMPLES_CLI_CONFIG_ADAPTER_TABLE_H
#define KEEL_EXAMPLES_CLI_CONFIG_ADAPTER_TABLE_H

#include <cstdint>
#include <span>

namespace keel_cli {

enum class OptionType : uint8_t { kBoolean, kInteger, kNumber, kText, kTextOrObject, kAny };

// A value that is `harmless`, as JSON text, asks for what Keel does anyway. Any other is given to
// `flag`; without a flag it has no effect where `harmless` is null, too, and is unsupported where
// it is not.
struct AdapterOption {
  const char* name;
  OptionType type = OptionType::kAny;
  int64_t least = 0;               // of an integer or a number
  int64_t most = 0;                // of an integer; 0: what flags that count things take
  const char* choices = nullptr;   // all values that there are, as a JSON array
  const char* flag = nullptr;      // of `keel train`
  const char* harmless = nullptr;  // JSON text
  const char* why = "";            // it has no effect or is unsupported, or how the flag differs
  // Options that are about others: one of them must be true, or this one has no effect.
  const char* needs = nullptr;
  const char* or_needs = nullptr;
  const char* unit = "";  // stands behind the number in the flag's text
  // The flag's words for true and false, where it has words for them.
  const char* when_true = nullptr;
  const char* when_false = nullptr;
};

std::span<const AdapterOption> adapter_options();

// Two options that exclude each other where the first has more than one step or is given, and the
// second has the value.
struct AdapterConflict {
  const char* option;
  const char* other;
  const char* value;  // of the other, as JSON text; null: any
  const char* why;
};

std::span<const AdapterConflict> adapter_conflicts();

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_CONFIG_ADAPTER_TABLE_H
