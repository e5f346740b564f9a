// AugmentationFlags: the flags by which `keel train` changes the images that it trains on at
// random. A resumed file holds their values. A plain value.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_AUGMENTATION_FLAGS_H
#define KEEL_EXAMPLES_CLI_TRAIN_AUGMENTATION_FLAGS_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/model/saved_run.h"

namespace keel_cli {

struct AugmentationFlags {
  int64_t shift = 0;
  bool flip = false;
  int64_t cutout = 0;

  bool changes() const noexcept { return shift > 0 || flip || cutout > 0; }
  // "shift 2, flip, cutout 8".
  std::string describe() const;
  // Returns the changes of images of that shape, [height, width, channels]; rank 0 says that the
  // training items are not images. Throws keel::Error then, and for more pixels than a side has.
  keel::ImageAugmentation of_images(const keel::Shape& image) const;
};

void declare_augmentation_flags(CommandLine& line);
// Throws keel::Error for flags that contradict `resume`.
AugmentationFlags read_augmentation_flags(const CommandLine& line,
                                          const std::optional<SavedRun>& resume);
// Returns the metadata by which read_augmentation_flags finds the flags again; flags that were not
// given add none.
std::map<std::string, std::string> saved_form(const AugmentationFlags& flags);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_AUGMENTATION_FLAGS_H
