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

void require_no_finite_file(const std::string& flag, const std::string& path,
                            const std::string& why) {
  std::error_code unknown;
  // Nothing but an ordinary file is replaced in any case.
  if (!std::filesystem::is_regular_file(path, unknown)) return;
  std::string kept = "its states are finite, and those of this training are not: " + why;
  try {
    if (non_finite_state(keel::read_safetensors(path).tensors)) return;
  } catch (const keel::NotSafetensors&) {
    return;  // it holds no states that could be lost
  } catch (const keel::Error& error) {
    // It may hold states that are worth keeping: with more memory, or on another day, it is read.
    kept = fmt::format(
        "those of this training are not finite ({}), and whether its own are cannot be told: {}",
        why, error.what());
  }
  throw keel::Error({.op = flag,
                     .argument = path,
                     .message = "is left as it was: " + kept,
                     .fix = "train with a smaller --lr, or add --allow-non-finite"});
}

}  // namespace keel_cli
