#include "cli/train/loss_scale_flag.h"

#include <vector>

#include "cli/base/text_list.h"

namespace keel_cli {
namespace {

constexpr double kMostScale = 3.4e38;
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
  number(5, rule.decr_ratio, 1e-30, 1 - 1e-9);
  return rule;
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
  if (parts[0] != kExponentialLossScale)
    return keel::FixedLossScale{.scale = keel::parse_number(text, from, 1, kMostScale)};
  if (parts.size() <= kMostNumbers + 1) return exponential(parts, from);
  throw keel::Error({.op = from,
                     .expected = "at most five numbers behind exponential",
                     .got = std::to_string(parts.size() - 1),
                     .kind = keel::ErrorKind::kInvalidArgument});
}

}  // namespace keel_cli
