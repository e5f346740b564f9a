#include "cli/errors.h"

#include <iostream>
#include <mutex>

namespace keel_cli {
namespace {

// Errors take one line, whatever they quote.
void print_line(const char* kind, std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  std::cerr << "keel: " << kind << ": " << text << "\n";
}

}  // namespace

void print_error(const std::exception& error) { print_line("error", error.what()); }
void print_warning(const std::string& message) { print_line("warning", message); }

}  // namespace keel_cli
