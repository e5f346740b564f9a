#include "cli/model/finite_states.h"

#include <cmath>
#include <filesystem>

#include <fmt/core.h>

namespace keel_cli {
namespace {

std::optional<std::string> non_finite(const std::string& name, const keel::Tensor& value) {
  const auto at = keel::first_non_finite(value);
  if (!at) return std::nullopt;
  return fmt::format("state '{}' holds {} at element {}", name, name_of_non_finite(value.at(*at)),
                     *at);
}

}  // namespace

std::string name_of_non_finite(double value) {
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "infinity" : "-infinity";
}

std::optional<std::string> non_finite_state(const keel::Session& session) {
  for (const keel::Value& state : session.graph().states()) {
    if (auto text = non_finite(name_of(state.node()), session.read(state))) return text;
  }
  return std::nullopt;
}

std::optional<std::string> non_finite_state(const std::map<std::string, keel::Tensor>& states) {
  for (const auto& [name, value] : states) {
    if (auto text = non_finite(name, value)) return text;
  }
  return std::nullopt;
}

void require_no_finite_file(const std::string& path, const std::string& why) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return;
  try {
    if (non_finite_state(keel::read_safetensors(path).tensors)) return;
  } catch (const keel::Error&) {
    return;  // it holds no states that could be lost
  }
  throw keel::Error({.op = "--save",
                     .argument = path,
                     .message = "is left as it was: its states are finite, and those of this "
                                "training are not: " +
                                why,
                     .fix = "train with a smaller --lr, or add --allow-non-finite"});
}

}  // namespace keel_cli
