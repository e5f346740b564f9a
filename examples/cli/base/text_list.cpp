#include "cli/base/text_list.h"

#include <cstddef>

#include <keel/core/base/json.h>
#include <keel/core/base/read_budget.h>
#include <nlohmann/json.hpp>

namespace keel_cli {

std::string write_text_list(const std::vector<std::string>& texts) {
  return keel::write_json(keel::Json(texts));
}

std::vector<std::string> read_text_list(const std::string& entry, const std::string& source) {
  const keel::Json document = keel::parse_json(entry, source, keel::read_budget());
  const keel::JsonView list(document, source);
  std::vector<std::string> texts;
  for (size_t i = 0; i < list.size(); ++i) texts.push_back(list[i].text());
  return texts;
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : separator) + parts[i];
  return text;
}

}  // namespace keel_cli
