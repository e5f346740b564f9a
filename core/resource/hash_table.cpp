#include "keel/core/resource/hash_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/resource/table_file.h"

namespace keel {
namespace {

// The tables that there are, by name. Never destroyed, since tables may live longer than statics.
struct Registry {
  std::mutex lock;
  std::unordered_map<std::string, std::weak_ptr<HashTable>> tables;
};
Registry& registry() {
  static auto* const all = new Registry();
  return *all;
}

std::string quoted(const std::string& name) { return "table '" + name + "'"; }
std::string at(CallSite site) { return site.known() ? " (" + to_string(site) + ")" : ""; }

void require_lengths(const std::string& name, size_t keys, size_t values, CallSite site) {
  if (keys == values) return;
  throw Error({.op = quoted(name),
               .argument = "values",
               .expected = std::to_string(keys) + ", one for each key",
               .got = std::to_string(values),
               .site = site});
}

[[noreturn]] void refuse_twice(const std::string& name, const std::string& key, CallSite site) {
  throw Error({.op = quoted(name),
               .argument = "keys",
               .expected = "different ones",
               .got = "'" + key + "' twice",
               .site = site});
}

}  // namespace

std::shared_ptr<HashTable> HashTable::make(const std::string& name, CallSite site) {
  if (name.empty())
    throw Error(
        {.op = "table", .argument = "name", .expected = "a name", .got = "none", .site = site});
  Registry& all = registry();
  const std::lock_guard<std::mutex> guard(all.lock);
  std::weak_ptr<HashTable>& entry = all.tables[name];
  if (const auto other = entry.lock()) {
    throw Error({.op = quoted(name),
                 .argument = "name",
                 .expected = "a name of its own: there is a table of this one" + at(other->made_),
                 .got = "'" + name + "'",
                 .site = site});
  }
  std::shared_ptr<HashTable> made(new HashTable(name, site));
  entry = made;
  return made;
}

std::shared_ptr<HashTable> HashTable::find(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> guard(all.lock);
  const auto entry = all.tables.find(name);
  return entry == all.tables.end() ? nullptr : entry->second.lock();
}

HashTable::~HashTable() {
  Registry& all = registry();
  const std::lock_guard<std::mutex> guard(all.lock);
  const auto entry = all.tables.find(name_);
  if (entry != all.tables.end() && entry->second.expired()) all.tables.erase(entry);
}

void HashTable::require_fresh(CallSite site) const {
  if (!initialised()) return;
  throw Error({.op = quoted(name_),
               .message = "Table already initialized" + at(filled_) +
                          ", and a table is immutable from then on",
               .fix = "fill another table",
               .site = site});
}

void HashTable::require_initialised(CallSite site) const {
  if (initialised()) return;
  throw Error({.op = quoted(name_),
               .message = "Table not initialized" +
                          (made_.known() ? "; it was made at " + to_string(made_) : ""),
               .fix = "fill it with init() or init_from_file() before it is read",
               .site = site});
}

void HashTable::fill_integers(std::vector<std::pair<int64_t, int64_t>> entries) {
  const auto count = static_cast<int64_t>(entries.size());
  Tensor keys(i64, {count}), values(i64, {count});
  for (size_t i = 0; i < entries.size(); ++i) {
    keys.data<int64_t>()[i] = entries[i].first;
    values.data<int64_t>()[i] = entries[i].second;
  }
  integer_keys_ = std::move(keys);
  integer_values_ = std::move(values);
  keys_kind_ = TableKeys::kIntegers;
}

void HashTable::init(std::span<const int64_t> keys, std::span<const int64_t> values,
                     CallSite site) {
  require_fresh(site);
  require_lengths(name_, keys.size(), values.size(), site);
  std::vector<std::pair<int64_t, int64_t>> entries;
  for (size_t i = 0; i < keys.size(); ++i) entries.emplace_back(keys[i], values[i]);
  std::sort(entries.begin(), entries.end());
  const auto twice =
      std::adjacent_find(entries.begin(), entries.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != entries.end()) refuse_twice(name_, std::to_string(twice->first), site);
  fill_integers(std::move(entries));
  filled_ = site;
}

void HashTable::init(const std::vector<std::string>& keys, std::span<const int64_t> values,
                     CallSite site) {
  require_fresh(site);
  require_lengths(name_, keys.size(), values.size(), site);
  std::unordered_map<std::string, int64_t> strings;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!strings.emplace(keys[i], values[i]).second) refuse_twice(name_, keys[i], site);
  }
  strings_ = std::move(strings);
  keys_kind_ = TableKeys::kStrings;
  filled_ = site;
}

void HashTable::init_from_file(const std::string& path, TableKeys kind, CallSite site) {
  require_fresh(site);
  try {
    std::vector<std::string> strings;
    std::vector<int64_t> integers, values;
    std::unordered_map<int64_t, size_t> line_of;  // by integer, which has several spellings
    size_t line = 0;
    for (TableLine& entry : read_table_file(path)) {
      ++line;
      values.push_back(entry.value);
      if (kind == TableKeys::kStrings) {
        strings.push_back(std::move(entry.key));
        continue;
      }
      integers.push_back(parse_in_file(path, [&] {
        return parse_integer(entry.key, "line " + std::to_string(line) + ": key",
                             std::numeric_limits<int64_t>::min(),
                             std::numeric_limits<int64_t>::max());
      }));
      const auto [first, fresh] = line_of.emplace(integers.back(), line);
      if (!fresh) refuse_key_twice(path, entry.key, line, first->second);
    }
    if (kind == TableKeys::kStrings)
      init(strings, values, site);
    else
      init(integers, values, site);
  } catch (const Error& error) {
    throw error.with_context(quoted(name_)).with_site(site);
  }
}

int64_t HashTable::size(CallSite site) const {
  require_initialised(site);
  return *keys_kind_ == TableKeys::kStrings ? static_cast<int64_t>(strings_.size())
                                            : integer_keys_.num_elements();
}

TableKeys HashTable::keys_kind(CallSite site) const {
  require_initialised(site);
  return *keys_kind_;
}

const Tensor& HashTable::keys(CallSite site) const {
  if (keys_kind(site) == TableKeys::kIntegers) return integer_keys_;
  throw Error({.op = quoted(name_),
               .argument = "keys",
               .expected = "integers",
               .got = "strings, which exist on the host only",
               .fix = "look them up in a dataset function, and feed what comes of it",
               .site = site});
}

const Tensor& HashTable::values(CallSite site) const {
  static_cast<void>(keys(site));
  return integer_values_;
}

std::shared_ptr<const TableUse> HashTable::use(const std::string& place, const std::string& what,
                                               CallSite site) {
  require_initialised(site);
  auto use = std::make_shared<const PlacedUse>(PlacedUse{place, what, site});
  {
    const std::lock_guard<std::mutex> guard(lock_);
    for (const auto& other : uses_) {
      if (other->place == place) continue;
      const bool here_is_host = place == kHostPlace;
      const PlacedUse& host = here_is_host ? *use : *other;
      const PlacedUse& device = here_is_host ? *other : *use;
      throw Error({.op = quoted(name_),
                   .message = "RESOURCE_SPLIT(table_init@" + device.place + ", lookup@" +
                              host.place + "): " + device.what + at(device.site) +
                              " reads the table on " + device.place + " and " + host.what +
                              at(host.site) + " on " + host.place +
                              ", and all users of a table share its place",
                   .fix = "compile with the placement policy mixed, or look up in one place",
                   .site = site});
    }
    uses_.push_back(use);
  }
  return std::make_shared<const TableUse>(shared_from_this(), std::move(use));
}

std::shared_ptr<const TableUse> HashTable::use_on_host(CallSite site) {
  return use(kHostPlace, "lookup", site);
}

std::optional<std::string> HashTable::used_in(const std::string& place) const {
  const std::lock_guard<std::mutex> guard(lock_);
  for (const auto& use : uses_) {
    if (use->place == place) return use->what + at(use->site);
  }
  return std::nullopt;
}

int64_t lookup_sorted(std::span<const int64_t> keys, std::span<const int64_t> values, int64_t key,
                      int64_t missing) noexcept {
  const auto place = std::lower_bound(keys.begin(), keys.end(), key);
  if (place == keys.end() || *place != key) return missing;
  return values[static_cast<size_t>(place - keys.begin())];
}

TableUse::~TableUse() {
  const std::lock_guard<std::mutex> guard(table_->lock_);
  std::erase(table_->uses_, use_);
}

int64_t TableUse::lookup(int64_t key, int64_t missing) const {
  if (table_->keys_kind(use_->site) != TableKeys::kIntegers) {
    throw Error({.op = quoted(table_->name_),
                 .argument = "key",
                 .expected = "a string",
                 .got = std::to_string(key),
                 .site = use_->site});
  }
  return lookup_sorted(table_->keys(use_->site).data<int64_t>(),
                       table_->values(use_->site).data<int64_t>(), key, missing);
}

int64_t TableUse::lookup(std::string_view key, int64_t missing) const {
  if (table_->keys_kind(use_->site) != TableKeys::kStrings) {
    throw Error({.op = quoted(table_->name_),
                 .argument = "key",
                 .expected = "an integer",
                 .got = "'" + std::string(key) + "'",
                 .site = use_->site});
  }
  const auto entry = table_->strings_.find(std::string(key));
  return entry == table_->strings_.end() ? missing : entry->second;
}

}  // namespace keel
