#include "cli/train/loss_scale_flag.h"

#include <variant>
#include <vector>

#include <fmt/core.h>

#include "cli/base/text_list.h"

namespace keel_cli {
namespace {

constexpr double kMostScale = 3.4e38;
constexpr double kMostShrinking = 1 - 1e-7;  // nearer to 1 it would be 1 in f32
constexpr size_t kMostNumbers = 5;

keel::ExponentialLossScale exponential(const std::vector<std::string>& parts,
                                       const std::string& from) {
  keel::ExponentialLossScale rule;
  const auto number = [&](size_t i, double& value, double min, double max) {
    if (i < parts.size()) value = keel::parse_number(parts[i], from, min, max);
  };
  const auto count = [&](size_t i, int64_t& value) {
    if (i < parts.size()) value = keel::parse_integer(parts[i], from, 1, kMostCount);
  };
  number(1, rule.init_loss_scale, 1, kMostScale);
  count(2, rule.incr_every_n_steps);
  count(3, rule.decr_every_n_nan_or_inf);
  number(4, rule.incr_ratio, 1, kMostScale);
  number(5, rule.decr_ratio, 1e-30, kMostShrinking);
  return rule;
}

keel::FixedLossScale fixed(const std::string& text, const std::string& word,
                           const std::string& from) {
  try {
    return {.scale = keel::parse_number(text, from, 1, kMostScale)};
  } catch (const keel::Error& error) {
    keel::ErrorInfo info = error.info();
    info.expected += ", none, or exponential[,INIT,INCR_EVERY,DECR_EVERY,INCR,DECR]";
    info.fix = keel::did_you_mean(word, {kNoLossScale, kExponentialLossScale});
    throw keel::Error(std::move(info));
  }
}

}  // namespace

void declare_loss_scale_flag(CommandLine& line) {
  line.add("loss-scale", "none|N|exponential[,INIT,INCR_EVERY,DECR_EVERY,INCR,DECR]",
           "so many times larger gradients; steps that overflow are skipped (exponential with "
           "--precision mixed_fp16, else none)");
}

std::optional<keel::LossScale> parse_loss_scale(const std::string& text, const std::string& from) {
  if (text == kNoLossScale) return std::nullopt;
  const std::vector<std::string> parts = parts_of(text, ',');
  if (parts[0] != kExponentialLossScale) return fixed(text, parts[0], from);
  if (parts.size() <= kMostNumbers + 1) return exponential(parts, from);
  throw keel::Error({.op = from,
                     .expected = "at most five numbers behind exponential",
                     .got = std::to_string(parts.size() - 1),
                     .kind = keel::ErrorKind::kInvalidArgument});
}

std::string plain_loss_scale(const std::string& text, const std::string& from) {
  const std::optional<keel::LossScale> scale = parse_loss_scale(text, from);
  if (!scale) return kNoLossScale;
  if (const auto* fixed = std::get_if<keel::FixedLossScale>(&*scale))
    return fmt::format("{}", fixed->scale);
  const auto numbers = [](const keel::ExponentialLossScale& rule) {
    return std::vector<std::string>{
        fmt::format("{}", rule.init_loss_scale), std::to_string(rule.incr_every_n_steps),
        std::to_string(rule.decr_every_n_nan_or_inf), fmt::format("{}", rule.incr_ratio),
        fmt::format("{}", rule.decr_ratio)};
  };
  std::vector<std::string> own = numbers(std::get<keel::ExponentialLossScale>(*scale));
  const std::vector<std::string> usual = numbers({});
  while (!own.empty() && own.back() == usual[own.size() - 1]) own.pop_back();
  std::string plain = kExponentialLossScale;
  for (const std::string& number : own) plain += "," + number;
  return plain;
}

}  // namespace keel_cli
