// Pages of the tool: everything in one file, no scripts, no outer resources, light and dark by what
// the reader's system asks. Pure functions; any thread.
#ifndef KEEL_EXAMPLES_CLI_BASE_HTML_H
#define KEEL_EXAMPLES_CLI_BASE_HTML_H

#include <string>
#include <utility>
#include <vector>

namespace keel_cli {

// For text and attribute values.
std::string escape_html(const std::string& text);

// An element with text, escaped; nothing where there is none.
std::string html_element(const char* name, const std::string& text);
// A list of facts: names with values.
std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts);
// A table that is as wide as it needs to be. `style` is a class of the page's style: "text" for
// cells of words, which stand to the left and may have several lines.
std::string html_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows,
                       const std::string& style = "");

// The whole page; `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_HTML_H
