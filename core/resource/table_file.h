// The text files that tables are filled from: a key a line, or a key, a tab and a value. Pure but
// for reading the file; any thread.
#ifndef KEEL_CORE_RESOURCE_TABLE_FILE_H
#define KEEL_CORE_RESOURCE_TABLE_FILE_H

#include <cstdint>
#include <string>
#include <vector>

namespace keel {

struct TableLine {
  std::string key;
  int64_t value = 0;
};

// Line i of the file is line i of the result. Throws Error naming the line for one that is empty
// or of another form than the first, for a value that is no number, for a key that comes twice,
// and for a file that does not fit into the read budget.
std::vector<TableLine> read_table_file(const std::string& path);

// Throws the Error of a key that stands in a line before: line `first`, counted from 1.
[[noreturn]] void refuse_key_twice(const std::string& path, const std::string& key, size_t line,
                                   size_t first);

}  // namespace keel

#endif  // KEEL_CORE_RESOURCE_TABLE_FILE_H
