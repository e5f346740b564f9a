#include "keel/graph/precision/dtype_overrides.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/op_table.h"

namespace keel {
namespace {

constexpr std::string_view kOfOp = "OpType::";
constexpr std::string_view kInputs = "InputDtype:";
constexpr std::string_view kOutputs = "OutputDtype:";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Takes what stands before `mark` off the text, and the mark; nothing where there is none.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + mark.size());
  return before;
}

DType dtype_of(std::string_view name, const std::string& where) {
  static constexpr std::array<std::pair<std::string_view, DType>, 7> kLongNames = {
      {{"float64", f64},
       {"float32", f32},
       {"float16", f16},
       {"bfloat16", bf16},
       {"int64", i64},
       {"int32", i32},
       {"uint8", u8}}};
  for (const auto& [text, dtype] : kLongNames) {
    if (text == name) return dtype;
  }
  try {
    return parse_dtype(name);
  } catch (const Error&) {
    throw Error({.op = where,
                 .argument = "dtype",
                 .expected = "float32, float16, bfloat16 or another dtype",
                 .got = "'" + std::string(name) + "'",
                 .kind = ErrorKind::kInvalidArgument});
  }
}

std::vector<DType> dtypes_of(std::string_view list, const std::string& where) {
  std::vector<DType> dtypes;
  while (const auto name = take_until(list, ",")) {
    dtypes.push_back(dtype_of(trimmed(*name), where));
  }
  dtypes.push_back(dtype_of(trimmed(list), where));
  return dtypes;
}

Error no_rule(const std::string& line, const std::string& where) {
  return Error({.op = where,
                .expected = "NAME::InputDtype:DTYPE,...,OutputDtype:DTYPE,... or "
                            "OpType::OP::InputDtype:...",
                .got = "'" + line + "'",
                .kind = ErrorKind::kInvalidArgument});
}

void require_op(std::string_view name, const std::string& where) {
  try {
    builtin_ops().at(name);
  } catch (const Error& error) {
    throw error.with_context(where);
  }
}

void read_rule(std::string_view line, const std::string& where, DtypeOverrides& overrides) {
  const std::string whole(line);
  const bool of_op = line.starts_with(kOfOp);
  if (of_op) line.remove_prefix(kOfOp.size());
  const auto name = take_until(line, "::");
  if (!name || name->empty() || !line.starts_with(kInputs)) throw no_rule(whole, where);
  line.remove_prefix(kInputs.size());
  auto inputs = take_until(line, kOutputs);
  if (!inputs) throw no_rule(whole, where);
  inputs = trimmed(*inputs);
  if (inputs->ends_with(',')) inputs->remove_suffix(1);
  DtypeRule rule{dtypes_of(*inputs, where), dtypes_of(line, where), where};
  if (of_op) require_op(*name, where);
  auto& rules = of_op ? overrides.by_op : overrides.by_name;
  const auto [it, fresh] = rules.emplace(std::string(*name), std::move(rule));
  if (fresh) return;
  throw Error({.op = where,
               .argument = std::string(*name),
               .message = "has a rule already, at " + it->second.where,
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace

const DtypeRule* DtypeOverrides::find(const Node& node) const {
  if (empty()) return nullptr;
  if (const auto it = by_name.find(full_name(node)); it != by_name.end()) return &it->second;
  const auto it = by_op.find(node.op_name());
  return it == by_op.end() ? nullptr : &it->second;
}

DtypeOverrides parse_dtype_overrides(const std::string& text, const std::string& source) {
  DtypeOverrides overrides;
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const auto before = take_until(rest, "\n");
    std::string_view line = before ? *before : std::exchange(rest, {});
    line = trimmed(line.substr(0, line.find('#')));
    if (!line.empty()) read_rule(line, source + ":" + std::to_string(number), overrides);
  }
  return overrides;
}

}  // namespace keel
