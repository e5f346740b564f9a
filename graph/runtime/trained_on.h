// Which backend and instruction set a training runs on, as its files say it: results are bit-equal
// on one of each. Pure functions; any thread. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_TRAINED_ON_H
#define KEEL_GRAPH_RUNTIME_TRAINED_ON_H

#include <map>
#include <string>

#include "keel/core/device/device.h"

namespace keel {

// Adds the device's backend and its instruction set, "" where it names none, to a file's metadata.
void add_trained_on(const Device& device, std::map<std::string, std::string>& metadata);

// Logs a warning where the metadata of the file at `path` says another backend or instruction set
// than the device's.
void warn_of_other_machine(const std::map<std::string, std::string>& metadata, const Device& device,
                           const std::string& path);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_TRAINED_ON_H
