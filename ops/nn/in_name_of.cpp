#include "keel/ops/nn/in_name_of.h"

#include <string_view>

namespace keel {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string outer_argument(const std::string& argument, const OuterNames& names) {
  for (const auto& [inner, outer] : names.arguments) {
    if (argument == inner) return outer;
    const bool numbered = argument.starts_with(inner + " ");
    if (numbered && is_number(std::string_view(argument).substr(inner.size() + 1)))
      return outer + argument.substr(inner.size());
  }
  return argument;
}

}  // namespace

Error in_names(const Error& error, const OuterNames& names) {
  ErrorInfo info = error.info();
  if (!names.inner.empty() && info.op != names.inner) return error;
  // The context is in the text alone, in front of what the facts give.
  const std::string text = error.what(), facts = Error(info).what();
  info.argument = outer_argument(info.argument, names);
  info.op = names.function;
  const Error renamed(std::move(info));
  if (text.size() < facts.size() + 2 || !text.ends_with(": " + facts)) return renamed;
  return renamed.with_context(text.substr(0, text.size() - facts.size() - 2));
}

}  // namespace keel
