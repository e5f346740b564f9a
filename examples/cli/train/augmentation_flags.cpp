#include "cli/train/augmentation_flags.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace keel_cli {
namespace {

// No image of a file that can be read has a longer side.
constexpr int64_t kMostPixels = 1 << 20;

// The value of a flag where it is given, else what a resumed file says, else 0.
int64_t pixels(const std::string& flag, const std::optional<SavedRun>& resume,
               std::optional<int64_t> given) {
  if (!resume) return given.value_or(0);
  resume->require_same(flag, given ? std::optional(std::to_string(*given)) : std::nullopt, "0");
  return resume->integer(flag, 0, kMostPixels, "0");
}

}  // namespace

std::string AugmentationFlags::describe() const {
  std::string text;
  const auto add = [&](const std::string& change) { text += (text.empty() ? "" : ", ") + change; };
  if (shift > 0) add(fmt::format("shift {}", shift));
  if (flip) add("flip");
  if (cutout > 0) add(fmt::format("cutout {}", cutout));
  return text;
}

keel::ImageAugmentation AugmentationFlags::of_images(const keel::Shape& image) const {
  if (image.rank() == 0) {
    throw keel::Error({.op = shift > 0 ? "--shift"
                             : flip    ? "--flip"
                                       : "--cutout",
                       .message = "changes images, and the training items are none",
                       .fix = "drop it",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  const int64_t most = std::max(image[0], image[1]);
  for (const auto& [flag, value] : {std::pair{"--shift", shift}, std::pair{"--cutout", cutout}}) {
    if (value <= most) continue;
    throw keel::Error({.op = flag,
                       .expected = fmt::format("at most {} pixels, as the images are {}x{}", most,
                                               image[0], image[1]),
                       .got = std::to_string(value),
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  return {.image = image, .shift = shift, .flip = flip, .cutout = cutout};
}

void declare_augmentation_flags(CommandLine& line) {
  line.add("shift", "N", "move each training image by up to N pixels each way, drawn anew (0)");
  line.add("flip", "", "mirror every second training image, drawn at random");
  line.add("cutout", "N", "erase a square of N pixels' side in each training image (0)");
}

AugmentationFlags read_augmentation_flags(const CommandLine& line,
                                          const std::optional<SavedRun>& resume) {
  AugmentationFlags flags;
  flags.shift = pixels("shift", resume, line.integer("shift", 0, kMostPixels));
  flags.cutout = pixels("cutout", resume, line.integer("cutout", 0, kMostPixels));
  const auto flip = line.has("flip") ? std::optional<int64_t>(1) : std::nullopt;
  flags.flip = pixels("flip", resume, flip) != 0;
  return flags;
}

std::map<std::string, std::string> saved_form(const AugmentationFlags& flags) {
  std::map<std::string, std::string> saved;
  if (flags.shift > 0) saved["shift"] = std::to_string(flags.shift);
  if (flags.flip) saved["flip"] = "1";
  if (flags.cutout > 0) saved["cutout"] = std::to_string(flags.cutout);
  return saved;
}

}  // namespace keel_cli
