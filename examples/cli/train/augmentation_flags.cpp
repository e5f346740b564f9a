#include "cli/train/augmentation_flags.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "cli/train/flag_reader.h"

namespace keel_cli {

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
                       .message = "changes images, and the training items are not images",
                       .fix = "drop it",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  // As of Dataset::augment, which would not name the flag.
  const int64_t most = std::max(image[0], image[1]);
  for (const auto& [flag, value] : {std::pair{"--shift", shift}, std::pair{"--cutout", cutout}}) {
    if (value <= most) continue;
    throw keel::Error({.op = flag,
                       .expected = fmt::format("at most {} pixels, as the images are {}x{}", most,
                                               image[0], image[1]),
                       .got = std::to_string(value)});
  }
  return {.image = image, .shift = shift, .flip = flip, .cutout = cutout};
}

void declare_augmentation_flags(CommandLine& line) {
  line.add("shift", "N", "move training images by up to N pixels each way, anew in each epoch (0)");
  line.add("flip", "", "mirror training images left to right or not, drawn anew in each epoch");
  line.add("cutout", "N", "erase N x N pixels around a random one of each training image (0)");
}

AugmentationFlags read_augmentation_flags(const CommandLine& line,
                                          const std::optional<SavedRun>& resume) {
  const FlagReader read(line, resume);
  return {.shift = read.integer("shift", 0, 0),
          .flip = read.on("flip"),
          .cutout = read.integer("cutout", 0, 0)};
}

std::map<std::string, std::string> saved_form(const AugmentationFlags& flags) {
  std::map<std::string, std::string> saved;
  if (flags.shift > 0) saved["shift"] = std::to_string(flags.shift);
  if (flags.flip) saved["flip"] = "1";
  if (flags.cutout > 0) saved["cutout"] = std::to_string(flags.cutout);
  return saved;
}

}  // namespace keel_cli
