#include "cli/base/html.h"

#include <fmt/core.h>

#include "cli/base/page_style.h"

namespace keel_cli {

std::string escape_html(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string html_element(const char* name, const std::string& text) {
  return text.empty() ? "" : fmt::format("<{0}>{1}</{0}>\n", name, escape_html(text));
}

std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string html = "<dl>\n";
  for (const auto& [name, value] : facts)
    html +=
        fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(name), escape_html(value));
  return html + "</dl>\n";
}

std::string html_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows,
                       const std::string& style) {
  std::string html = "<div class=\"table" + (style.empty() ? "" : " " + escape_html(style)) +
                     "\"><table>\n<thead><tr>";
  for (const std::string& cell : head) html += "<th>" + escape_html(cell) + "</th>";
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += "<td>" + escape_html(cell) + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>";
}

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n{2}</main>\n</body>\n</html>\n",
      escape_html(title), kPageStyle, body);
}

}  // namespace keel_cli
