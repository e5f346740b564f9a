#include "keel/backends/registry.h"

#include <charconv>
#include <dlfcn.h>
#include <mutex>
#include <utility>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"

namespace keel {
namespace {

struct Registry {
  struct Entry {
    std::string name;
    std::unique_ptr<Backend> (*make)() = nullptr;
    Backend* backend = nullptr;  // made on first use, never destroyed: Devices point to it
  };
  std::mutex mutex;
  std::vector<Entry> entries;
};

Registry& registry() {
  static auto* r = [] {
    auto* fresh = new Registry();
    for (const BackendFactory& factory : builtin_backends()) {
      fresh->entries.push_back({factory.name, factory.make, nullptr});
    }
    return fresh;
  }();
  return *r;
}

[[noreturn]] void unknown(const std::string& got, const std::vector<std::string>& names,
                          CallSite site) {
  std::string choices;
  for (const std::string& n : names) choices += (choices.empty() ? "" : ", ") + n;
  throw Error({.op = "device",
               .argument = "backend",
               .expected = "one of " + choices,
               .got = "'" + got + "'",
               .fix = did_you_mean(got, names),
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

[[noreturn]] void plugin_failed(const std::string& path, const std::string& message) {
  throw Error({.op = "plugin", .argument = path, .message = message});
}

}  // namespace

std::vector<std::string> backend_names() {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  std::vector<std::string> names;
  for (const auto& entry : r.entries) names.push_back(entry.name);
  return names;
}

Backend& backend(const std::string& name, CallSite site) {
  Registry& r = registry();
  {
    const std::lock_guard<std::mutex> lock(r.mutex);
    for (auto& entry : r.entries) {
      if (entry.name != name) continue;
      if (entry.backend == nullptr) entry.backend = entry.make().release();
      return *entry.backend;
    }
  }
  unknown(name, backend_names(), site);
}

Device device(const std::string& name, CallSite site) {
  const size_t colon = name.find(':');
  Backend& found = backend(name.substr(0, colon), site);
  int index = 0;
  if (colon != std::string::npos) {
    const char* end = name.data() + name.size();
    const auto [rest, status] = std::from_chars(name.data() + colon + 1, end, index);
    const auto devices = static_cast<int>(found.devices().size());
    if (status != std::errc() || rest != end || index < 0 || index >= devices) {
      throw Error({.op = "device",
                   .argument = "name",
                   .expected = "a device number from 0 to " + std::to_string(devices - 1),
                   .got = "'" + name + "'",
                   .site = site,
                   .kind = ErrorKind::kInvalidArgument});
    }
  }
  return Device(&found, index);
}

std::string load_backend_plugin(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) plugin_failed(path, dlerror());
  using Make = Backend* (*)(int);
  const auto make = reinterpret_cast<Make>(dlsym(library, "keel_make_backend"));
  if (make == nullptr) plugin_failed(path, "it exports no keel_make_backend");
  std::unique_ptr<Backend> fresh(make(kBackendApiVersion));
  if (fresh == nullptr) {
    plugin_failed(path, "it was built for another backend API than version " +
                            std::to_string(kBackendApiVersion) + "; rebuild it");
  }
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const std::string name = fresh->name();
  for (const auto& entry : r.entries) {
    if (entry.name == name) plugin_failed(path, "a backend named '" + name + "' is there already");
  }
  r.entries.push_back({name, nullptr, fresh.release()});
  return name;
}

}  // namespace keel
