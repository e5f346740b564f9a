#include "keel/core/base/call_site.h"

#include <mutex>
#include <set>

namespace keel {

std::string to_string(CallSite site) {
  if (!site.known()) return "unknown line";
  return std::string(site.file) + ":" + std::to_string(site.line);
}

const char* intern_file(const std::string& file) {
  static std::mutex mutex;
  static auto* files = new std::set<std::string>();  // leaked: sites may outlive static destructors
  const std::lock_guard<std::mutex> lock(mutex);
  return files->insert(file).first->c_str();
}

}  // namespace keel
