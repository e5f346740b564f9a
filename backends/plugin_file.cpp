// The format: System V ABI, chapters 4 and 5 (ELF); the layout of DT_GNU_HASH as glibc reads it.
#include "keel/backends/plugin_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "keel/core/base/error.h"

namespace keel {
namespace {

constexpr unsigned char kThisClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr unsigned char kThisOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
constexpr uint64_t kMostSegments = 1000;
constexpr uint64_t kMostSymbols = uint64_t{1} << 20;
constexpr size_t kLongestName = 256;

// The processor that this library was compiled for; what is loaded must be for the same.
ElfW(Half) this_machine() {
  ElfW(Ehdr) own{};
  InputFile("/proc/self/exe").read_at(0, &own, sizeof own);
  return own.e_machine;
}

}  // namespace

PluginFile::PluginFile(const std::string& path) : file_(path) {
  read_header();
  read_segments();
  read_dynamic();
}

void PluginFile::fail(const std::string& message) const {
  throw Error({.op = "plugin", .argument = file_.path(), .message = message});
}

void PluginFile::read_header() {
  if (file_.size() < sizeof header_) fail("it is no shared object: it is too short for one");
  file_.read_at(0, &header_, sizeof header_);
  if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0)
    fail("it is no shared object: it does not begin with \\x7fELF");
  if (header_.e_ident[EI_CLASS] != kThisClass || header_.e_ident[EI_DATA] != kThisOrder ||
      header_.e_machine != this_machine())
    fail("it was built for another kind of processor");
  if (header_.e_type != ET_DYN) fail("it is an object file or a program, not a shared object");
}

void PluginFile::read_segments() {
  if (header_.e_phentsize != sizeof(ElfW(Phdr)) || header_.e_phnum == 0 ||
      header_.e_phnum > kMostSegments)
    fail("it is damaged: its program headers are of no known form");
  const uint64_t bytes = uint64_t{header_.e_phnum} * sizeof(ElfW(Phdr));
  if (header_.e_phoff > file_.size() || bytes > file_.size() - header_.e_phoff)
    fail("it is truncated: it ends before its program headers");
  std::vector<ElfW(Phdr)> all(header_.e_phnum);
  file_.read_at(header_.e_phoff, all.data(), bytes);
  for (const ElfW(Phdr) & segment : all) {
    if (segment.p_type == PT_DYNAMIC) dynamic_ = segment;
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset > file_.size() || segment.p_filesz > file_.size() - segment.p_offset) {
      fail("it is truncated: it has " + std::to_string(file_.size()) + " bytes, and a segment of " +
           std::to_string(segment.p_filesz) + " begins at " + std::to_string(segment.p_offset));
    }
    segments_.push_back(segment);
  }
  if (!dynamic_) fail("it has no dynamic section, so it is no shared object");
}

void PluginFile::read_dynamic() {
  const uint64_t entries = dynamic_->p_filesz / sizeof(ElfW(Dyn));
  const uint64_t offset = offset_of(dynamic_->p_vaddr, dynamic_->p_filesz);
  for (uint64_t i = 0; i < entries; ++i) {
    ElfW(Dyn) entry{};
    file_.read_at(offset + i * sizeof entry, &entry, sizeof entry);
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_SYMTAB) symbols_ = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRTAB) names_ = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) name_bytes_ = entry.d_un.d_val;
    if (entry.d_tag == DT_HASH) hash_ = entry.d_un.d_ptr;
    if (entry.d_tag == DT_GNU_HASH) gnu_hash_ = entry.d_un.d_ptr;
  }
  if (symbols_ == 0 || names_ == 0) fail("it exports nothing");
  offset_of(names_, name_bytes_);
}

uint64_t PluginFile::offset_of(uint64_t address, uint64_t bytes) const {
  for (const ElfW(Phdr) & segment : segments_) {
    if (address < segment.p_vaddr) continue;
    const uint64_t inside = address - segment.p_vaddr;
    if (inside <= segment.p_filesz && bytes <= segment.p_filesz - inside)
      return segment.p_offset + inside;
  }
  fail("it is damaged: one of its tables lies outside of the file");
}

template <class T>
T PluginFile::at_address(uint64_t address) const {
  static_assert(std::is_trivially_copyable_v<T>);
  T value{};
  file_.read_at(offset_of(address, sizeof value), &value, sizeof value);
  return value;
}

std::string PluginFile::name_at(uint64_t place) const {
  if (place >= name_bytes_) fail("it is damaged: the name of a symbol lies outside of the names");
  std::string name(static_cast<size_t>(std::min<uint64_t>(kLongestName, name_bytes_ - place)), 0);
  file_.read_at(offset_of(names_ + place, name.size()), name.data(), name.size());
  return name.substr(0, name.find('\0'));
}

// The symbols behind the first that is hashed stand in buckets; the last of the highest bucket,
// marked by an odd hash, is the last of all.
uint64_t PluginFile::count_hashed_symbols() const {
  const auto word = [&](uint64_t i) { return at_address<uint32_t>(gnu_hash_ + 4 * i); };
  const uint64_t buckets = word(0), first = word(1), filter_words = word(2);
  const uint64_t bucket_at = 4 + filter_words * (sizeof(ElfW(Addr)) / 4);
  uint64_t last = 0;
  for (uint64_t i = 0; i < std::min(buckets, kMostSymbols); ++i)
    last = std::max<uint64_t>(last, word(bucket_at + i));
  if (last < first) return first;
  while (last < kMostSymbols && word(bucket_at + buckets + last - first) % 2 == 0) ++last;
  return last + 1;
}

uint64_t PluginFile::count_symbols() const {
  if (gnu_hash_ != 0) return count_hashed_symbols();
  if (hash_ != 0) return at_address<uint32_t>(hash_ + 4);
  fail("it is damaged: nothing says how many symbols it has");
}

std::optional<PluginFile::Symbol> PluginFile::find(const std::string& name) const {
  const uint64_t count = std::min(count_symbols(), kMostSymbols);
  for (uint64_t i = 0; i < count; ++i) {
    const auto symbol = at_address<ElfW(Sym)>(symbols_ + i * sizeof(ElfW(Sym)));
    if (symbol.st_shndx == SHN_UNDEF || name_at(symbol.st_name) != name) continue;
    const auto type = symbol.st_info & 0xf;
    return Symbol{symbol.st_value, symbol.st_size, type == STT_FUNC || type == STT_GNU_IFUNC};
  }
  return std::nullopt;
}

bool PluginFile::read(const Symbol& symbol, void* to, size_t bytes) const {
  if (symbol.bytes < bytes) return false;
  file_.read_at(offset_of(symbol.address, bytes), to, bytes);
  return true;
}

}  // namespace keel
