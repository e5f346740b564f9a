// Flags that every command has which runs a model: which model, on what data, where, with how many
// threads.
#ifndef KEEL_EXAMPLES_CLI_RUN_FLAGS_H
#define KEEL_EXAMPLES_CLI_RUN_FLAGS_H

#include <string>

#include <keel/keel.h>

#include "cli/command_line.h"

namespace keel_cli {

inline constexpr const char* kDigits = "digits";  // the value of --data for the built-in set

// --data, the built-in digits without it.
void declare_data_flag(CommandLine& line);
std::string read_data(const CommandLine& line);
// --model, --data, --backend and --threads.
void declare_run_flags(CommandLine& line);
// --backend, npu without it.
std::string read_backend(const CommandLine& line);
// --threads, as many as there are cores without it.
int read_threads(const CommandLine& line);
// --precision, fp32 without it: a name of keel::precision_modes().
void declare_precision_flag(CommandLine& line);
std::string read_precision(const CommandLine& line);
// The built-in digits, or the MNIST files of a folder.
keel::LabelledSplits load_data(const std::string& data);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_RUN_FLAGS_H
