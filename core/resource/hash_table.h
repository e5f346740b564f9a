// HashTable: integers by keys that are strings or integers; filled once, from arrays or a file, and
// immutable from then on. A resource: its users share one object and one place. Reading it before
// it is filled is an error, and so is filling it twice.
//
//   const auto words = HashTable::make("words");
//   words->init_from_file("vocabulary.txt", TableKeys::kStrings);
//   const auto on_host = words->use_on_host();
//   auto ids = lines.map(spec, [on_host](const ItemView& in, const ItemSlot& out) {
//     out.data<int64_t>(0)[0] = on_host->lookup(word_of(in), -1);
//   });
//
// A dataset function looks up on the host, a graph (ops/table.h) where its session computes. A
// table that is in use in one place is refused in another: RESOURCE_SPLIT. Programs that the policy
// `mixed` compiled follow the table to the host instead (graph/ir/placement.h).
//
// Filled by one thread before others use it; any thread after that. The user's pointer owns it; a
// name is free again once the table is gone.
#ifndef KEEL_CORE_RESOURCE_HASH_TABLE_H
#define KEEL_CORE_RESOURCE_HASH_TABLE_H

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

enum class TableKeys { kIntegers, kStrings };

// The place of tables that a host processor reads.
inline constexpr const char* kHostPlace = "host";

class TableUse;

class KEEL_API HashTable : public std::enable_shared_from_this<HashTable> {
 public:
  // Throws Error for an empty name and for one that a table has already.
  static std::shared_ptr<HashTable> make(const std::string& name, CallSite site = CallSite::here());
  // Returns the table of that name; null where there is none.
  static std::shared_ptr<HashTable> find(const std::string& name);
  ~HashTable();
  HashTable(const HashTable&) = delete;
  HashTable& operator=(const HashTable&) = delete;

  // Throw Error where it is filled already, for arrays of different lengths and for a key that
  // comes twice. Then the table is as it was.
  void init(std::span<const int64_t> keys, std::span<const int64_t> values,
            CallSite site = CallSite::here());
  void init(const std::vector<std::string>& keys, std::span<const int64_t> values,
            CallSite site = CallSite::here());
  // Reads one key a line, whose value is the number of its line counted from 0, or in each line a
  // key, a tab and its value. Throws Error naming the line for what is neither, for a key that
  // comes twice, and for a file that does not fit into the read budget.
  void init_from_file(const std::string& path, TableKeys keys, CallSite site = CallSite::here());

  const std::string& name() const noexcept { return name_; }
  CallSite made_at() const noexcept { return made_; }
  bool initialised() const noexcept { return keys_kind_.has_value(); }

  // These throw "Table not initialized" with the table's name and the caller's line.
  int64_t size(CallSite site = CallSite::here()) const;
  TableKeys keys_kind(CallSite site = CallSite::here()) const;
  // Integer keys in ascending order, and their values: i64 [size]. Throw Error for a table of
  // strings.
  const Tensor& keys(CallSite site = CallSite::here()) const;
  const Tensor& values(CallSite site = CallSite::here()) const;

  // Keeps the table in a place, as long as the result lives: kHostPlace, or a backend's name.
  // Throws Error RESOURCE_SPLIT where it is used in another one. `what` uses it: "lookup".
  std::shared_ptr<const TableUse> use(const std::string& place, const std::string& what,
                                      CallSite site = CallSite::here());
  std::shared_ptr<const TableUse> use_on_host(CallSite site = CallSite::here());
  // Describes one use in that place: "lookup (data.cpp:7)"; nothing where there is none.
  std::optional<std::string> used_in(const std::string& place) const;

 private:
  friend class TableUse;
  struct PlacedUse {
    std::string place, what;
    CallSite site;
  };

  HashTable(std::string name, CallSite made) : name_(std::move(name)), made_(made) {}
  void require_initialised(CallSite site) const;
  void require_fresh(CallSite site) const;
  void fill_integers(std::vector<std::pair<int64_t, int64_t>> entries);

  std::string name_;
  CallSite made_, filled_;
  std::optional<TableKeys> keys_kind_;
  Tensor integer_keys_, integer_values_;
  std::unordered_map<std::string, int64_t> strings_;
  mutable std::mutex lock_;  // guards uses_
  std::vector<std::shared_ptr<const PlacedUse>> uses_;
};

// Returns the value of a key among ascending ones, or `missing`.
KEEL_API int64_t lookup_sorted(std::span<const int64_t> keys, std::span<const int64_t> values,
                               int64_t key, int64_t missing) noexcept;

// A table as one user has it, in its place.
class KEEL_API TableUse {
 public:
  TableUse(std::shared_ptr<HashTable> table, std::shared_ptr<const HashTable::PlacedUse> use)
      : table_(std::move(table)), use_(std::move(use)) {}
  ~TableUse();
  TableUse(const TableUse&) = delete;
  TableUse& operator=(const TableUse&) = delete;

  const HashTable& table() const noexcept { return *table_; }
  // Return the key's value, or `missing`. Throw Error for keys of the other kind and for a table
  // that is not filled.
  int64_t lookup(int64_t key, int64_t missing) const;
  int64_t lookup(std::string_view key, int64_t missing) const;

 private:
  std::shared_ptr<HashTable> table_;
  std::shared_ptr<const HashTable::PlacedUse> use_;
};

}  // namespace keel

#endif  // KEEL_CORE_RESOURCE_HASH_TABLE_H
