// Picture: an image from a file, made fit for a model, and drawn in a terminal. Files are
// recognised by their content: PGM and PPM (P2, P3, P5, P6), and PNG where the tool was built with
// libpng. They are not trusted: sizes are checked before memory is asked for. Plain value; any
// thread.
#ifndef KEEL_EXAMPLES_CLI_MODEL_PICTURE_H
#define KEEL_EXAMPLES_CLI_MODEL_PICTURE_H

#include <cstdint>
#include <string>
#include <vector>

namespace keel_cli {

struct Picture {
  int64_t height = 0, width = 0;
  int64_t channels = 1;         // 1 grey, 3 red, green, blue
  std::vector<uint8_t> pixels;  // [height, width, channels]
};

// Values of more or fewer than 8 bits are scaled to 0 .. 255; what a PNG file leaves transparent is
// white. Throws keel::Error naming the file and what is wrong.
Picture read_picture(const std::string& path);

// Each pixel the mean of the area that it covers.
Picture resized(const Picture& picture, int64_t height, int64_t width);
// Takes 1 or 3 channels: grey as (299 red + 587 green + 114 blue) / 1000 (ITU-R BT.601).
Picture with_channels(const Picture& picture, int64_t channels);
Picture inverted(const Picture& picture);

// In characters, from dark to bright, one line for two rows of pixels.
std::string drawn(const Picture& picture, int64_t most_columns = 64);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_PICTURE_H
