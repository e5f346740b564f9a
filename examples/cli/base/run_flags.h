// Flags that every command has which runs a model: which model, on what data, where, with how many
// threads.
#ifndef KEEL_EXAMPLES_CLI_BASE_RUN_FLAGS_H
#define KEEL_EXAMPLES_CLI_BASE_RUN_FLAGS_H

#include <string>

#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "models/classifier.h"

namespace keel_cli {

inline constexpr const char* kDigits = "digits";  // the value of --data for the built-in set

// --data, images: the built-in digits without it.
void declare_data_flag(CommandLine& line);
std::string read_data(const CommandLine& line);
// --backend, npu without it; `purpose` for its help: "where to train".
void declare_backend_flag(CommandLine& line, const std::string& purpose);
std::string read_backend(const CommandLine& line);
// --backend, and --threads; without it as many as there are cores for each of so many processes.
void declare_place_flags(CommandLine& line, const std::string& purpose);
int read_threads(const CommandLine& line, int processes = 1);
// --device-id, which of the backend's devices; and the device that it comes to with --backend:
// "npu:3", or "npu" where the environment decides.
void declare_device_flag(CommandLine& line);
std::string read_device(const CommandLine& line);
// Throws keel::Error where the environment gives this process a device that `backend` has not: a
// job that was given a device of an accelerator does not run on the host unseen.
void require_numbered_device(const std::string& backend, const std::string& fix = "unset it");
// Returns the device of a command without --device-id, which the environment numbers. Throws as
// require_numbered_device does, and for everything else that is wrong in the environment.
keel::Device device_to_run_on(const std::string& backend);
// --placement, full without it.
void declare_placement_flag(CommandLine& line);
keel::PlacementPolicy read_placement(const CommandLine& line);
// --label, the column of a CSV file that holds the classes; empty without it. Throws keel::Error
// where it does not go with that data.
std::string read_label(const CommandLine& line, const std::string& data);
// Says whether a value of --data names a CSV file.
bool is_csv(const std::string& data);
// Returns the absolute path, as saved files name it. Throws keel::Error naming the flag if that is
// no text that such a file can hold.
std::string path_to_save(const std::string& flag, const std::string& path);
// Returns what a file of saved states notes as its --data: the absolute path, or kDigits for the
// built-in set. Throws keel::Error if the path or the label is no text that such a file can hold.
std::string data_to_save(const std::string& data, const std::string& label);
// The built-in digits, the MNIST or CIFAR-10 files of a folder, or a CSV file with its classes in
// the column `label`.
keel::LabelledSplits load_data(const std::string& data, const std::string& label = "");
keel_examples::ImageFormat format_of(const keel::LabelledImages& set);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_RUN_FLAGS_H
