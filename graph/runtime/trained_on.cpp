#include "keel/graph/runtime/trained_on.h"

#include <vector>

#include "keel/core/base/log.h"

namespace keel {
namespace {

constexpr const char* kBackend = "backend";
constexpr const char* kIsa = "isa";  // of a device's properties, too

std::string isa_of(const Device& device) {
  const std::vector<DeviceInfo> devices = device.backend().devices();
  for (const auto& [name, value] : devices.at(static_cast<size_t>(device.index())).properties) {
    if (name == kIsa) return value;
  }
  return "";
}

}  // namespace

void add_trained_on(const Device& device, std::map<std::string, std::string>& metadata) {
  metadata[kBackend] = device.backend().name();
  metadata[kIsa] = isa_of(device);
}

void warn_of_other_machine(const std::map<std::string, std::string>& metadata, const Device& device,
                           const std::string& path) {
  const auto backend = metadata.find(kBackend), isa = metadata.find(kIsa);
  if (backend == metadata.end() || isa == metadata.end()) return;
  const std::string here = device.backend().name(), here_isa = isa_of(device);
  if (backend->second == here && isa->second == here_isa) return;
  const auto name = [](const std::string& of, const std::string& with) {
    return of + (with.empty() ? "" : " (" + with + ")");
  };
  log_warn(path + " was trained on " + name(backend->second, isa->second) + ", and this is " +
           name(here, here_isa) + ": from here on the last bits may differ");
}

}  // namespace keel
