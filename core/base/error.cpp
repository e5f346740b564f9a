#include "keel/core/base/error.h"

#include <cstring>
#include <utility>

#include "keel/core/base/printable.h"

namespace keel {
namespace {

// Names, arguments and what files hold may be of any size.
constexpr size_t kMostOfField = 2000;
constexpr size_t kMostOfText = 8000;

void append(std::string& text, const char* separator, const std::string& part) {
  if (part.empty()) return;
  if (!text.empty()) text += separator;
  text += printable(part, kMostOfField);
}

// An object that std::make_unique, an optional's emplace and their kind make takes its default
// CallSite from a line of the standard library, which nobody looks for.
CallSite users(CallSite site) {
  const bool of_library = site.known() && std::strstr(site.file, "/include/c++/") != nullptr;
  return of_library ? CallSite() : site;
}

void append_site(std::string& text, CallSite site) {
  if (site.known()) text += " (" + printable(to_string(site), kMostOfField) + ")";
}

std::string join(const ErrorInfo& info) {
  std::string text = printable(info.op, kMostOfField);
  append(text, ": ", info.argument);
  append(text, ": ", info.message);
  if (!info.expected.empty()) {
    append(text, info.message.empty() ? ": " : ", ", "expected " + info.expected);
  }
  if (!info.got.empty()) append(text, info.expected.empty() ? ": " : ", ", "got " + info.got);
  append(text, "; ", info.fix);
  append_site(text, info.site);
  return text;
}

}  // namespace

Error::Error(ErrorInfo info) : info_(std::move(info)) {
  info_.site = users(info_.site);
  text_ = join(info_);
}

Error::~Error() = default;

Error Error::with_context(const std::string& context) const {
  Error error = *this;
  error.text_ = printable(context + ": " + text_, kMostOfText);
  return error;
}

Error Error::with_site(CallSite site) const {
  site = users(site);
  if (info_.site.known() || !site.known()) return *this;
  Error error = *this;
  error.info_.site = site;
  append_site(error.text_, site);
  return error;
}

}  // namespace keel
