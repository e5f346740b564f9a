#include "cli/base/errors.h"

#include <iostream>
#include <mutex>
#include <string_view>

#include <fmt/core.h>
#include <keel/core/base/error.h>
#include <keel/core/base/printable.h>
#include <keel/core/base/thrown_text.h>

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

std::string message_of(const std::exception& error) {
  constexpr std::string_view kThisFile = __FILE__, kInTool = "base/errors.cpp";
  constexpr std::string_view kTool = kThisFile.substr(0, kThisFile.size() - kInTool.size());
  std::string message = error.what();
  const auto* of_keel = dynamic_cast<const keel::Error*>(&error);
  if (of_keel == nullptr || !of_keel->info().site.known()) return message;
  const keel::CallSite site = of_keel->info().site;
  const std::string told = " (" + keel::to_string(site) + ")";
  if (std::string_view(site.file).starts_with(kTool) && message.ends_with(told))
    message.resize(message.size() - told.size());
  return message;
}

std::string text_of_thrown() {
  return keel::text_of_thrown("something that is no exception was thrown");
}

void print_error(const std::exception& error, const std::string& note) {
  print_line("error", message_of(error) + (note.empty() ? "" : " (" + note + ")"));
}
void print_warning(const std::string& message) { print_line("warning", message); }

}  // namespace keel_cli
