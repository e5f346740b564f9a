#include "cli/base/errors.h"

#include <iostream>
#include <mutex>

#include <fmt/core.h>

#include <keel/core/base/printable.h>

namespace keel_cli {
namespace {

// Messages of other libraries may be of any length. Of a longer one the middle is left out.
constexpr size_t kMostOfMessage = 8000;

void print_line(const char* kind, const std::string& text) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  // In one piece: ranks print beside each other.
  std::cerr << fmt::format("keel: {}: {}\n", kind, keel::printable(text, kMostOfMessage));
}

}  // namespace

void print_error(const std::exception& error, const std::string& note) {
  print_line("error", error.what() + (note.empty() ? "" : " (" + note + ")"));
}
void print_warning(const std::string& message) { print_line("warning", message); }

}  // namespace keel_cli
