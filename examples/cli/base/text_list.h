// Lists of texts: in the metadata of a file, where each entry is one text, in a flag's value, and
// as they are shown.
#ifndef KEEL_EXAMPLES_CLI_BASE_TEXT_LIST_H
#define KEEL_EXAMPLES_CLI_BASE_TEXT_LIST_H

#include <string>
#include <vector>

namespace keel_cli {

std::string write_text_list(const std::vector<std::string>& texts);
// Reads what write_text_list wrote. Throws keel::Error, which names `source`, for anything else.
std::vector<std::string> read_text_list(const std::string& entry, const std::string& source);

// Returns what stands between the separators: one part more than there are of them.
std::vector<std::string> parts_of(const std::string& text, char separator);
// Returns the parts with the separator between them.
std::string joined(const std::vector<std::string>& parts, const std::string& separator);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_TEXT_LIST_H
