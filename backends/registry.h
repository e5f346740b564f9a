// The backends that are built in (the list is generated from the folders here) and those loaded
// from plugins. Each is made on first use and lives as long as the process. Any thread.
#ifndef KEEL_BACKENDS_REGISTRY_H
#define KEEL_BACKENDS_REGISTRY_H

#include <memory>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/core/device/device.h"

namespace keel {

// "npu:0", "cpu", "ref:0" ... Without a number it is the device of ASCEND_DEVICE_ID, else of
// DEVICE_ID, else 0; of a backend with one device it is that. Throws Error naming the choices for
// an unknown backend or device, and for an environment that is wrong or asks for what would be
// ignored (core/device/job_environment.h).
KEEL_API Device device(const std::string& name, CallSite site = CallSite::here());

// Returns names of all backends: built in, then plugins in the order they were loaded.
KEEL_API std::vector<std::string> backend_names();
KEEL_API Backend& backend(const std::string& name, CallSite site = CallSite::here());

// Loads a shared object made with KEEL_BACKEND_PLUGIN (backends/plugin.h); returns its backend's
// name. Throws Error before anything of it runs for a file that is damaged, no plugin, or built for
// another API or standard library; then for a backend that cannot be made or has no name of its
// own. Plugins are never unloaded. A static build of Keel refuses them.
KEEL_API std::string load_backend_plugin(const std::string& path, CallSite site = CallSite::here());
// Files of the plugins, in the order they were loaded.
KEEL_API std::vector<std::string> backend_plugins();

struct BackendFactory {
  const char* name;
  std::unique_ptr<Backend> (*make)();
};
// Generated from the folders that hold a <name>_backend.cpp.
std::vector<BackendFactory> builtin_backends();

}  // namespace keel

#endif  // KEEL_BACKENDS_REGISTRY_H
