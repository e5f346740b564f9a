#include "keel/core/base/error.h"

#include <utility>

namespace keel {
namespace {

void append(std::string& text, const char* separator, const std::string& part) {
  if (part.empty()) return;
  if (!text.empty()) text += separator;
  text += part;
}

std::string join(const ErrorInfo& info) {
  std::string text = info.op;
  append(text, ": ", info.argument);
  append(text, ": ", info.message);
  if (!info.expected.empty()) {
    append(text, info.message.empty() ? ": " : ", ", "expected " + info.expected);
  }
  if (!info.got.empty()) append(text, info.expected.empty() ? ": " : ", ", "got " + info.got);
  append(text, "; ", info.fix);
  if (info.site.known()) text += " (" + to_string(info.site) + ")";
  return text;
}

}  // namespace

Error::Error(ErrorInfo info) : info_(std::move(info)), text_(join(info_)) {}

Error::~Error() = default;

Error Error::with_context(const std::string& context) const {
  Error error = *this;
  error.text_ = context + ": " + text_;
  return error;
}

Error Error::with_site(CallSite site) const {
  if (info_.site.known() || !site.known()) return *this;
  Error error = *this;
  error.info_.site = site;
  error.text_ += " (" + to_string(site) + ")";
  return error;
}

}  // namespace keel
