#include "cli/base/machine.h"

#include <ctime>
#include <fstream>
#include <thread>
#include <unistd.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>

namespace keel_cli {
namespace {

// The value behind "name   : " in a file of the system's; empty where there is none.
std::string value_in(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace

keel::Json describe_machine() {
  keel::Json machine;
  const std::string processor = value_in("/proc/cpuinfo", "model name");
  if (!processor.empty()) machine["processor"] = processor;
  machine["cores"] = std::thread::hardware_concurrency();
  const auto add_cache = [&](const char* key, int name) {
    const long bytes = sysconf(name);
    if (bytes > 0) machine[key] = bytes / 1024;
  };
#ifdef _SC_LEVEL1_DCACHE_SIZE
  add_cache("l1d_kib", _SC_LEVEL1_DCACHE_SIZE);
  add_cache("l2_kib", _SC_LEVEL2_CACHE_SIZE);
  add_cache("l3_kib", _SC_LEVEL3_CACHE_SIZE);
#endif
  const double pages = static_cast<double>(sysconf(_SC_PHYS_PAGES));
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  if (pages > 0) machine["memory_gib"] = pages * page / (1 << 30);
  utsname system;
  if (uname(&system) == 0)
    machine["system"] = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
#ifdef __clang__
  machine["compiler"] = std::string("clang ") + __clang_version__;
#else
  machine["compiler"] = std::string("g++ ") + __VERSION__;
#endif
  return machine;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

int64_t peak_rss_bytes() {
  const std::string value = value_in("/proc/self/status", "VmHWM");  // "123456 kB"
  return value.empty() ? 0 : std::stoll(value) * 1024;
}

}  // namespace keel_cli
