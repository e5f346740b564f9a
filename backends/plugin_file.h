// PluginFile: a shared object as it lies on disk, looked at before the system's loader maps it: the
// loader trusts what it maps, and a file that ends too early kills the process. Reads the headers
// and the dynamic symbols only. Throws Error for what no loader could use. One thread; internal to
// backends.
#ifndef KEEL_BACKENDS_PLUGIN_FILE_H
#define KEEL_BACKENDS_PLUGIN_FILE_H

#include <cstdint>
#include <link.h>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/file.h"

namespace keel {

class PluginFile {
 public:
  // Opens a regular file that is a whole shared object for this kind of processor.
  explicit PluginFile(const std::string& path);

  struct Symbol {
    uint64_t address = 0;  // as the object counts, before it is placed in memory
    uint64_t bytes = 0;
    bool function = false;
  };
  // Returns what the object defines and exports under that name.
  std::optional<Symbol> find(const std::string& name) const;
  // Returns the first bytes of what a symbol names, copied to `to`; false where there are fewer.
  bool read(const Symbol& symbol, void* to, size_t bytes) const;

 private:
  [[noreturn]] void fail(const std::string& message) const;
  void read_header();
  void read_segments();
  void read_dynamic();
  // Returns where the byte of that address lies in the file; fails where `bytes` from there on do
  // not.
  uint64_t offset_of(uint64_t address, uint64_t bytes) const;
  template <class T>
  T at_address(uint64_t address) const;
  std::string name_at(uint64_t place) const;
  uint64_t count_symbols() const;
  uint64_t count_hashed_symbols() const;

  InputFile file_;
  ElfW(Ehdr) header_{};
  std::vector<ElfW(Phdr)> segments_;  // those that are loaded
  std::optional<ElfW(Phdr)> dynamic_;
  uint64_t symbols_ = 0, names_ = 0, name_bytes_ = 0;  // addresses of the tables
  uint64_t hash_ = 0, gnu_hash_ = 0;  // one of them says how many symbols there are
};

}  // namespace keel

#endif  // KEEL_BACKENDS_PLUGIN_FILE_H
