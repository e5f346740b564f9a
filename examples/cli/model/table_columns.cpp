#include "cli/model/table_columns.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include <keel/core/base/printable.h>

#include "cli/base/run_flags.h"
#include "cli/base/text_list.h"

namespace keel_cli {
namespace {

using Names = std::vector<std::string>;

constexpr const char* kColumns = "columns";  // a JSON list of texts
// A file's header is read whole; tables with more than this have no names that anybody reads.
constexpr size_t kMostBytes = size_t{1} << 20;

// Returns the name, or its bytes in hexadecimal where it is no text, or begins as these do.
std::string as_text(const std::string& name) {
  constexpr std::string_view kMark = "0x", kDigits = "0123456789abcdef";
  if (keel::printable(name) == name && !name.starts_with(kMark)) return name;
  std::string text(kMark);
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text;
}

Names columns_beside(const std::string& label, const std::string& data) {
  Names names = keel::csv_columns(data);
  names.erase(std::remove(names.begin(), names.end(), label), names.end());
  for (std::string& name : names) name = as_text(name);
  return names;
}

// Returns the names that the file notes, or none.
Names noted_columns(const SavedModel& saved) {
  const auto text = saved.find(kColumns);
  if (!text) return {};
  return read_text_list(*text, saved.path() + ": " + kColumns);
}

bool are_the_same_names(Names a, Names b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

keel::Error difference(const SavedModel& saved, const std::string& data, const Names& own,
                       const Names& here, const std::string& fix) {
  size_t at = 0;
  while (at < own.size() && at < here.size() && own[at] == here[at]) ++at;
  const auto name = [&](const Names& names) {
    return at < names.size() ? "'" + keel::printable(names[at], 40) + "'" : "none";
  };
  return keel::Error(
      {.op = "--data",
       .argument = data + ", column " + std::to_string(at + 1) + " of those beside the classes",
       .expected = name(own) + ", as " + saved.path() + " was trained on",
       .got = name(here),
       .fix = fix});
}

// Returns rows whose element i is element from[i] of the row.
keel::Tensor with_columns(const keel::Tensor& rows, const std::vector<size_t>& from) {
  keel::Tensor result(rows.dtype(), rows.shape());
  const size_t element = keel::size_of(rows.dtype());
  const size_t row = element * from.size();
  const auto* in = static_cast<const std::byte*>(rows.raw());
  auto* out = static_cast<std::byte*>(result.raw());
  for (size_t begin = 0; begin < rows.num_bytes(); begin += row) {
    for (size_t i = 0; i < from.size(); ++i)
      std::memcpy(out + begin + i * element, in + begin + from[i] * element, element);
  }
  return result;
}

}  // namespace

void add_columns(const std::string& data, const std::string& label,
                 std::map<std::string, std::string>& metadata) {
  if (!is_csv(data)) return;
  size_t bytes = 0;
  const Names names = columns_beside(label, data);
  for (const std::string& name : names) bytes += name.size();
  if (bytes > kMostBytes) return;
  metadata[kColumns] = write_text_list(names);
}

void require_own_label(const std::optional<std::string>& own, const std::string& path,
                       const std::string& data, const std::string& label) {
  if (!own || *own == label || !is_csv(data)) return;
  const Names names = keel::csv_columns(data);
  if (std::find(names.begin(), names.end(), *own) == names.end()) return;
  throw keel::Error({.op = "--label",
                     .expected = *own + ", as " + path + " was trained with",
                     .got = label,
                     .fix = "drop the flag, or train from the beginning"});
}

void arrange_columns(const SavedModel& saved, const std::string& data, const std::string& label,
                     keel::LabelledSplits& splits) {
  const Names own = is_csv(data) ? noted_columns(saved) : Names();
  if (own.empty()) return;
  const Names here = columns_beside(label, data);
  if (own == here) return;
  if (!are_the_same_names(own, here))
    throw difference(saved, data, own, here, "give a table with the columns of the training");
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < here.size(); ++i) places[here[i]] = i;
  std::vector<size_t> from;
  for (const std::string& name : own) from.push_back(places.at(name));
  for (keel::LabelledImages* set : {&splits.train, &splits.test})
    set->images = with_columns(set->images, from);
}

void require_order_of_columns(const SavedModel& saved, const std::string& data,
                              const std::string& label) {
  const Names own = is_csv(data) ? noted_columns(saved) : Names();
  if (own.empty()) return;
  const Names here = columns_beside(label, data);
  if (own == here || !are_the_same_names(own, here)) return;
  throw difference(saved, data, own, here, "put the columns of the table into that order");
}

}  // namespace keel_cli
