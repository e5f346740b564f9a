#include "keel/backends/registry.h"

#include <algorithm>
#include <charconv>
#include <dlfcn.h>
#include <exception>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "keel/backends/checked_backend.h"
#include "keel/backends/plugin.h"
#include "keel/backends/plugin_file.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/log.h"
#include "keel/core/device/job_environment.h"
#include "keel/version.h"

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
  std::vector<std::string> plugins;  // files
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

[[noreturn]] void plugin_failed(const std::string& path, const std::string& message,
                                const std::string& fix = "") {
  throw Error({.op = "plugin", .argument = path, .message = message, .fix = fix});
}

// Everything that can be found out without running code of the plugin.
void check_plugin_file(const std::string& path) {
#ifdef KEEL_STATIC_BUILD
  plugin_failed(path,
                "this program holds Keel as a static library, and a plugin would bring along a "
                "second one",
                "build Keel with -D BUILD_SHARED_LIBS=ON");
#endif
  const std::string rebuild = "build it against this Keel (" + std::string(KEEL_VERSION) +
                              "), with KEEL_BACKEND_PLUGIN of keel/backends/plugin.h";
  const PluginFile file(path);
  const auto entry = file.find(kPluginEntrySymbol);
  const auto abi_symbol = file.find(kPluginAbiSymbol);
  if (!entry) plugin_failed(path, std::string("it exports no ") + kPluginEntrySymbol, rebuild);
  if (!abi_symbol) plugin_failed(path, std::string("it exports no ") + kPluginAbiSymbol, rebuild);
  PluginAbi abi;
  const PluginAbi ours;
  if (!entry->function || abi_symbol->function || !file.read(*abi_symbol, &abi, sizeof abi)) {
    plugin_failed(path,
                  std::string("what it exports as ") + kPluginEntrySymbol + " and " +
                      kPluginAbiSymbol + " is no function and no description of a plugin",
                  rebuild);
  }
  if (abi.api_version != ours.api_version) {
    plugin_failed(path,
                  "it was built for version " + std::to_string(abi.api_version) +
                      " of the backend API, this is version " + std::to_string(ours.api_version),
                  rebuild);
  }
  abi.standard_library[sizeof abi.standard_library - 1] = '\0';
  if (std::string(abi.standard_library) != ours.standard_library) {
    plugin_failed(path,
                  std::string("it was compiled with ") + abi.standard_library +
                      ", this library with " + ours.standard_library,
                  "compile it with the compiler and the options that this Keel was built with");
  }
}

using MakeBackend = Backend* (*)();

MakeBackend load_entry(const std::string& path) {
  // A name without a folder would be looked for where libraries are.
  std::error_code failure;
  const std::string absolute = std::filesystem::absolute(path, failure).string();
  void* library = failure ? nullptr : dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) plugin_failed(path, failure ? failure.message() : dlerror());
  void* entry = dlsym(library, kPluginEntrySymbol);
  if (entry == nullptr) plugin_failed(path, dlerror());
  return reinterpret_cast<MakeBackend>(entry);
}

// Names stand in flags and before the colon of device names.
void check_name(const std::string& path, const std::string& name) {
  constexpr size_t kLongest = 64;
  const bool fits =
      !name.empty() && name.size() <= kLongest && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-' || c == '.';
      });
  if (!fits || name[0] == '-') {
    plugin_failed(path,
                  "expected a backend with a name of 1 to 64 letters, digits, '_', '-' and "
                  "'.', got '" +
                      name + "'");
  }
}

std::string load_plugin(const std::string& path) {
  check_plugin_file(path);
  const auto make = load_entry(path);
  std::unique_ptr<Backend> fresh;
  std::string name;
  try {
    fresh.reset(make());
    if (fresh == nullptr) plugin_failed(path, "its entry gave no backend");
    name = fresh->name();
    if (fresh->devices().empty()) plugin_failed(path, "its backend has no device");
  } catch (const Error& error) {
    throw error.info().op == "plugin" ? error : error.with_context("plugin: " + path);
  } catch (const std::exception& error) {
    plugin_failed(path, std::string("its backend cannot be made: ") + error.what());
  } catch (...) {
    plugin_failed(path, "its backend cannot be made: it threw something that is no exception");
  }
  check_name(path, name);
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  for (const auto& entry : r.entries) {
    if (entry.name == name) plugin_failed(path, "a backend named '" + name + "' is there already");
  }
  auto checked = std::make_unique<CheckedBackend>(std::move(fresh), name);
  r.entries.push_back({name, nullptr, checked.release()});
  r.plugins.push_back(path);
  return name;
}

}  // namespace

std::vector<std::string> backend_names() {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  std::vector<std::string> names;
  for (const auto& entry : r.entries) names.push_back(entry.name);
  return names;
}

std::vector<std::string> backend_plugins() {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  return r.plugins;
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
  // Logging itself cannot fail, so a wrong KEEL_LOG shows here.
  static_cast<void>(log_level_in_environment());
  const JobEnvironment job = read_job_environment();
  require_one_rank(job);
  const size_t colon = name.find(':');
  Backend& found = backend(name.substr(0, colon), site);
  const auto devices = static_cast<int>(found.devices().size());
  const auto refuse = [&](const std::string& op, const std::string& argument,
                          const std::string& got, const std::string& fix) {
    throw Error({.op = op,
                 .argument = argument,
                 .expected = "a device number from 0 to " + std::to_string(devices - 1),
                 .got = got,
                 .fix = fix,
                 .site = site,
                 .kind = ErrorKind::kInvalidArgument});
  };
  // The variables number the devices of an accelerator. A backend with one device is the host,
  // beside whichever of them the job was given.
  int index = devices > 1 ? job.device.value_or(0) : 0;
  if (colon == std::string::npos) {
    if (index >= devices)
      refuse(job.device_variable, name, std::to_string(index), "unset it, or name a device");
    return Device(&found, index);
  }
  const char* end = name.data() + name.size();
  const auto [rest, status] = std::from_chars(name.data() + colon + 1, end, index);
  if (status != std::errc() || rest != end || index < 0 || index >= devices)
    refuse("device", "name", "'" + name + "'", "");
  return Device(&found, index);
}

std::string load_backend_plugin(const std::string& path, CallSite site) {
  try {
    return load_plugin(path);
  } catch (const Error& error) {
    throw error.with_site(site);
  }
}

}  // namespace keel
