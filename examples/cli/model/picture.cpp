#include "cli/model/picture.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include <keel/core/base/file.h>
#include <keel/core/base/read_budget.h>
#include <keel/keel.h>

#ifdef KEEL_TOOL_PNG
#include <png.h>
#endif

namespace keel_cli {
namespace {

constexpr int64_t kMostOfASide = 1 << 16;
constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1a\n";

[[noreturn]] void fail(const std::string& path, const std::string& message,
                       const std::string& fix = "") {
  throw keel::Error({.op = path, .message = message, .fix = fix});
}

// Throws where it is empty, or takes more memory than files may.
Picture make_picture(const std::string& path, int64_t height, int64_t width, int64_t channels) {
  const auto size = std::to_string(width) + "x" + std::to_string(height);
  if (height < 1 || width < 1 || height > kMostOfASide || width > kMostOfASide)
    fail(path, "the image is " + size + ", expected 1x1 to 65536x65536");
  const int64_t bytes = height * width * channels;
  if (static_cast<uint64_t>(bytes) > keel::read_budget())
    fail(path, "the image is " + size + ", more than files may take of memory",
         "make it smaller, or raise --read-budget");
  return {.height = height, .width = width, .channels = channels, .pixels = {}};
}

// The formats that netpbm describes at https://netpbm.sourceforge.net/doc/pgm.html and ppm.html.
class NetpbmReader {
 public:
  NetpbmReader(const std::string& path, const std::string& bytes) : path_(path), bytes_(bytes) {}

  Picture read() {
    const char kind = bytes_[1];
    at_ = 2;
    const int64_t channels = kind == '3' || kind == '6' ? 3 : 1;
    const int64_t width = number("the width", kMostOfASide);
    const int64_t height = number("the height", kMostOfASide);
    const int64_t most = number("the largest value", 65535);
    if (most == 0) fail(path_, "the largest value is 0");
    Picture picture = make_picture(path_, height, width, channels);
    const int64_t count = height * width * channels;
    const bool text = kind == '2' || kind == '3';
    if (!text) {
      if (at_ >= bytes_.size() || std::isspace(static_cast<unsigned char>(bytes_[at_])) == 0)
        fail(path_, "the header does not end with white space");
      ++at_;
    }
    // As text a value takes a digit and white space, but for the last.
    const int64_t least = text ? 2 * count - 1 : count * (most > 255 ? 2 : 1);
    if (static_cast<int64_t>(bytes_.size() - at_) < least)
      fail(path_, "truncated: " + std::to_string(count) + " values are more than it holds");
    picture.pixels.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = text ? number("value " + std::to_string(i), most) : binary(i, most);
      picture.pixels.push_back(static_cast<uint8_t>((value * 255 + most / 2) / most));
    }
    return picture;
  }

 private:
  void skip_space() {
    while (at_ < bytes_.size()) {
      if (bytes_[at_] == '#') {
        while (at_ < bytes_.size() && bytes_[at_] != '\n') ++at_;
      } else if (std::isspace(static_cast<unsigned char>(bytes_[at_])) != 0) {
        ++at_;
      } else {
        return;
      }
    }
  }
  int64_t number(const std::string& what, int64_t most) {
    skip_space();
    const size_t begin = at_;
    int64_t value = 0;
    for (; at_ < bytes_.size() && std::isdigit(static_cast<unsigned char>(bytes_[at_])) != 0; ++at_)
      value = std::min(value * 10 + (bytes_[at_] - '0'), most + 1);
    if (at_ == begin || value > most) {
      fail(path_, what + ": expected a number up to " + std::to_string(most) + " at byte " +
                      std::to_string(begin));
    }
    return value;
  }
  int64_t binary(int64_t index, int64_t most) {
    int64_t value = static_cast<unsigned char>(bytes_[at_++]);
    if (most > 255) value = value * 256 + static_cast<unsigned char>(bytes_[at_++]);
    if (value > most) {
      fail(path_, "value " + std::to_string(index) + " is " + std::to_string(value) +
                      ", more than the largest, " + std::to_string(most));
    }
    return value;
  }

  const std::string& path_;
  const std::string& bytes_;
  size_t at_ = 0;
};

#ifdef KEEL_TOOL_PNG
Picture read_png(const std::string& path, const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  // Frees what the image holds, whatever happens below.
  struct Free {
    png_image* image;
    ~Free() { png_image_free(image); }
  } const free{&image};
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0)
    fail(path, std::string("is no PNG file that can be read: ") + image.message);
  // Without it libpng takes values of 16 bits for linear light, where those of 8 bits are sRGB.
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  const bool color = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  Picture picture = make_picture(path, image.height, image.width, color ? 3 : 1);
  image.format = color ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  picture.pixels.resize(PNG_IMAGE_SIZE(image));
  const png_color white{255, 255, 255};
  if (png_image_finish_read(&image, &white, picture.pixels.data(), 0, nullptr) == 0 ||
      PNG_IMAGE_FAILED(image))
    fail(path, std::string("is a damaged PNG file: ") + image.message);
  return picture;
}
#else
Picture read_png(const std::string& path, const std::string&) {
  fail(path, "is a PNG file, and this tool was built without libpng",
       "convert it to PGM, or install libpng-dev and build again");
}
#endif

// How much of [begin, end) lies in [cell, cell + 1).
double overlap(double begin, double end, int64_t cell) {
  const auto low = static_cast<double>(cell);
  return std::max(0.0, std::min(end, low + 1) - std::max(begin, low));
}

}  // namespace

Picture read_picture(const std::string& path) {
  const std::string bytes = keel::read_file(path, keel::read_budget());
  if (std::string_view(bytes).starts_with(kPngMagic)) return read_png(path, bytes);
  const bool netpbm = bytes.size() > 2 && bytes[0] == 'P' &&
                      std::string_view("2356").find(bytes[1]) != std::string_view::npos;
  if (!netpbm)
    fail(path, "is neither a PGM or PPM file nor a PNG file", "convert it to one of these");
  return NetpbmReader(path, bytes).read();
}

Picture resized(const Picture& picture, int64_t height, int64_t width) {
  if (picture.height == height && picture.width == width) return picture;
  Picture result{.height = height, .width = width, .channels = picture.channels, .pixels = {}};
  const double tall = static_cast<double>(picture.height) / static_cast<double>(height);
  const double wide = static_cast<double>(picture.width) / static_cast<double>(width);
  for (int64_t y = 0; y < height; ++y) {
    const double top = static_cast<double>(y) * tall, bottom = top + tall;
    for (int64_t x = 0; x < width; ++x) {
      const double left = static_cast<double>(x) * wide, right = left + wide;
      for (int64_t c = 0; c < picture.channels; ++c) {
        double sum = 0, area = 0;
        const auto last_row = std::min(picture.height, static_cast<int64_t>(std::ceil(bottom)));
        const auto last_column = std::min(picture.width, static_cast<int64_t>(std::ceil(right)));
        for (auto row = static_cast<int64_t>(top); row < last_row; ++row) {
          for (auto column = static_cast<int64_t>(left); column < last_column; ++column) {
            const double part = overlap(top, bottom, row) * overlap(left, right, column);
            const auto at = (row * picture.width + column) * picture.channels + c;
            sum += part * picture.pixels[static_cast<size_t>(at)];
            area += part;
          }
        }
        result.pixels.push_back(static_cast<uint8_t>(std::lround(sum / area)));
      }
    }
  }
  return result;
}

Picture with_channels(const Picture& picture, int64_t channels) {
  if (picture.channels == channels) return picture;
  Picture result{
      .height = picture.height, .width = picture.width, .channels = channels, .pixels = {}};
  for (size_t i = 0; i < picture.pixels.size(); i += static_cast<size_t>(picture.channels)) {
    const uint8_t* pixel = &picture.pixels[i];
    if (channels == 1) {
      const int grey = (299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000;
      result.pixels.push_back(static_cast<uint8_t>(grey));
    } else {
      result.pixels.insert(result.pixels.end(), static_cast<size_t>(channels), pixel[0]);
    }
  }
  return result;
}

Picture inverted(const Picture& picture) {
  Picture result = picture;
  for (uint8_t& value : result.pixels) value = static_cast<uint8_t>(255 - value);
  return result;
}

std::string drawn(const Picture& picture, int64_t most_columns) {
  constexpr std::string_view kInk = " .:-=+*#%@";
  const Picture grey = with_channels(picture, 1);
  const int64_t columns = std::min(grey.width, most_columns);
  const int64_t lines = std::max<int64_t>(1, grey.height * columns / grey.width / 2);
  const Picture small = resized(grey, lines, columns);
  std::string text;
  for (int64_t y = 0; y < lines; ++y) {
    text += "  ";
    for (int64_t x = 0; x < columns; ++x) {
      const auto value = small.pixels[static_cast<size_t>(y * columns + x)];
      text += kInk[value * (kInk.size() - 1) / 255];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

}  // namespace keel_cli
