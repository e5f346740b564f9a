#include "keel/data/pipeline/image_augmenter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "keel/core/base/json.h"
#include "keel/core/base/random.h"
#include "keel/data/pipeline/named_field.h"

namespace keel {
namespace {

[[noreturn]] void refuse(const char* argument, std::string expected, std::string got) {
  throw Error({.op = "augment",
               .argument = argument,
               .expected = std::move(expected),
               .got = std::move(got),
               .kind = ErrorKind::kInvalidArgument});
}

// A field's own shape counts as one image up to this many channels (colour and alpha), since
// [100, 28, 28] is more likely a batch of images than one image with 28 channels. A user who has
// more channels gives the image's shape (ImageAugmentation::image).
constexpr int64_t kMostChannels = 4;

// [height, width] or [height, width, channels] of the images in a field of this type.
Shape image_shape(const Type& field, const Shape& given) {
  const Shape& shape = given.rank() == 0 ? field.shape : given;
  const bool image =
      shape.rank() == 2 || (shape.rank() == 3 && (&shape == &given || shape[2] <= kMostChannels));
  if (!image) {
    throw Error({.op = "augment",
                 .argument = "image",
                 .expected = "[height, width] or [height, width, channels]",
                 .got = to_string(shape),
                 .fix = "give the shape of one image, and augment before batch()",
                 .kind = ErrorKind::kInvalidArgument});
  }
  if (!shape.known() || shape.num_elements() != field.shape.num_elements()) {
    refuse("image", "as many pixels as the field's " + std::to_string(field.shape.num_elements()),
           to_string(shape));
  }
  return shape;
}

// A whole number from 0 to count - 1, each as likely to within count / 2^32.
int64_t pick(uint32_t bits, int64_t count) {
  return static_cast<int64_t>((uint64_t{bits} * static_cast<uint64_t>(count)) >> 32);
}

}  // namespace

ImageAugmenter::ImageAugmenter(const ElementSpec& items, const ImageAugmentation& changes)
    : field_(place_of_field("augment", items, changes.field)),
      output_(items),
      bytes_(ItemLayout(items).bytes),
      from_(items.fields[field_].type.dtype),
      shift_(changes.shift),
      flip_(changes.flip),
      cutout_(changes.cutout),
      normalises_(!changes.mean.empty() || !changes.deviation.empty()) {
  const Type& field = items.fields[field_].type;
  if (from_ != u8 && from_ != f32) {
    refuse("field", "u8 or f32 pixels",
           std::string("'") + changes.field + "' of " + to_string(field));
  }
  const Shape image = image_shape(field, changes.image);
  height_ = rows_ = image[0];
  width_ = columns_ = image[1];
  channels_ = image.rank() == 3 ? image[2] : 1;
  check_ranges(changes);
  Type& result = output_.fields[field_].type;
  if (changes.crop.rank() != 0) {
    rows_ = changes.crop[0];
    columns_ = changes.crop[1];
    result.shape =
        image.rank() == 3 ? Shape({rows_, columns_, channels_}) : Shape({rows_, columns_});
  }
  if (normalises_) result.dtype = f32;
  filled_.assign(static_cast<size_t>(channels_), static_cast<float>(changes.fill));
  const double unit = from_ == u8 ? 255 : 1;
  for (size_t c = 0; normalises_ && c < static_cast<size_t>(channels_); ++c) {
    const double mean = changes.mean[changes.mean.size() == 1 ? 0 : c];
    const double deviation = changes.deviation[changes.deviation.size() == 1 ? 0 : c];
    scale_.push_back(static_cast<float>(1 / (unit * deviation)));
    offset_.push_back(static_cast<float>(-mean / deviation));
    // An infinite factor makes NaN of the pixels that are 0, and an infinite summand all alike.
    if (!std::isfinite(scale_[c])) {
      refuse("deviation", "numbers that an f32 pixel can be divided by", format_double(deviation));
    }
    if (!std::isfinite(offset_[c])) {
      refuse("mean",
             "numbers that are finite in f32 when divided by the deviation " +
                 format_double(deviation),
             format_double(mean));
    }
    filled_[c] = filled_[c] * scale_[c] + offset_[c];
  }
}

void ImageAugmenter::check_ranges(const ImageAugmentation& changes) const {
  if (shift_ < 0 || shift_ > std::max(height_, width_)) {
    refuse("shift", "0 to " + std::to_string(std::max(height_, width_)), std::to_string(shift_));
  }
  if (cutout_ < 0 || cutout_ > std::max(height_, width_)) {
    refuse("cutout", "0 to " + std::to_string(std::max(height_, width_)), std::to_string(cutout_));
  }
  const Shape& crop = changes.crop;
  if (crop.rank() != 0 &&
      (crop.rank() != 2 || crop[0] < 1 || crop[0] > height_ || crop[1] < 1 || crop[1] > width_)) {
    refuse("crop", "[height, width] of at most " + to_string(Shape({height_, width_})),
           to_string(crop));
  }
  const double fill = changes.fill;
  if (from_ == u8 && !(fill >= 0 && fill <= 255 && fill == std::floor(fill))) {
    refuse("fill", "a whole number from 0 to 255 for u8 pixels", std::to_string(fill));
  }
  if (!normalises_) return;
  for (const auto& [name, numbers] :
       {std::pair{"mean", &changes.mean}, std::pair{"deviation", &changes.deviation}}) {
    if (numbers->size() != 1 && numbers->size() != static_cast<size_t>(channels_)) {
      refuse(name, "1 number or " + std::to_string(channels_) + ", and both mean and deviation",
             std::to_string(numbers->size()));
    }
  }
  for (const double deviation : changes.deviation) {
    if (!(deviation > 0) || !std::isfinite(deviation)) {
      refuse("deviation", "numbers above 0", std::to_string(deviation));
    }
  }
  for (const double mean : changes.mean) {
    if (!std::isfinite(mean)) refuse("mean", "finite numbers", std::to_string(mean));
  }
}

ImageAugmenter::Draw ImageAugmenter::draw(uint64_t key) const {
  const auto moves = random_block(key, 0);
  const auto rest = random_block(key, 1);
  Draw drawn;
  if (shift_ > 0) {
    drawn.top = pick(moves[0], 2 * shift_ + 1) - shift_;
    drawn.left = pick(moves[1], 2 * shift_ + 1) - shift_;
  }
  drawn.top += pick(moves[2], height_ - rows_ + 1);
  drawn.left += pick(moves[3], width_ - columns_ + 1);
  drawn.mirrored = flip_ && (rest[0] & 1u) != 0;
  drawn.erased_top = pick(rest[1], rows_) - cutout_ / 2;
  drawn.erased_left = pick(rest[2], columns_) - cutout_ / 2;
  return drawn;
}

template <class Out>
void ImageAugmenter::fill(Out* row, const Columns& columns) const {
  Out* to = row + columns.begin * channels_;
  for (int64_t x = columns.begin; x < columns.end; ++x)
    for (const float value : filled_) *to++ = static_cast<Out>(value);
}

// Pixels of a row of the image, each `step` elements behind the one before.
template <class In, class Out>
void ImageAugmenter::bring(const In* from, int64_t step, int64_t pixels, Out* to) const {
  const bool together = step == channels_;
  if (normalises_ && channels_ == 1) {
    const float scale = scale_[0], offset = offset_[0];
    for (int64_t x = 0; x < pixels; ++x)
      to[x] = static_cast<Out>(static_cast<float>(from[x * step]) * scale + offset);
  } else if (normalises_) {
    for (int64_t x = 0; x < pixels; ++x, from += step)
      for (size_t c = 0; c < scale_.size(); ++c)
        *to++ = static_cast<Out>(static_cast<float>(from[c]) * scale_[c] + offset_[c]);
  } else if (together) {
    std::copy_n(from, pixels * channels_, to);
  } else {
    for (int64_t x = 0; x < pixels; ++x, from += step) to = std::copy_n(from, channels_, to);
  }
}

template <class In, class Out>
void ImageAugmenter::change(const In* in, Out* out, const Draw& draw) const {
  const auto within = [](int64_t begin, int64_t end, int64_t count) {
    begin = std::clamp<int64_t>(begin, 0, count);
    return Columns{begin, std::clamp(end, begin, count)};
  };
  // Column x of the result is column first + x * direction of the image.
  const int64_t direction = draw.mirrored ? -1 : 1;
  const int64_t first = draw.left + (draw.mirrored ? columns_ - 1 : 0);
  const Columns inside = draw.mirrored ? within(first - width_ + 1, first + 1, columns_)
                                       : within(-first, width_ - first, columns_);
  const Columns erased = within(draw.erased_left, draw.erased_left + cutout_, columns_);
  for (int64_t y = 0; y < rows_; ++y, out += columns_ * channels_) {
    const int64_t from_y = y + draw.top;
    if (from_y < 0 || from_y >= height_ || inside.begin == inside.end) {
      fill(out, {0, columns_});
      continue;
    }
    fill(out, {0, inside.begin});
    fill(out, {inside.end, columns_});
    const int64_t from_x = first + inside.begin * direction;
    bring(in + (from_y * width_ + from_x) * channels_, direction * channels_,
          inside.end - inside.begin, out + inside.begin * channels_);
    if (y >= draw.erased_top && y < draw.erased_top + cutout_) fill(out, erased);
  }
}

void ImageAugmenter::apply(const ItemView& in, const ItemSlot& out, uint64_t key) const {
  const Draw drawn = draw(key);
  for (size_t f = 0; f < bytes_.size(); ++f) {
    if (f != field_) {
      std::memcpy(out.raw(f), in.raw(f), bytes_[f]);
    } else if (from_ == f32) {
      change(in.data<float>(f).data(), out.data<float>(f).data(), drawn);
    } else if (normalises_) {
      change(in.data<uint8_t>(f).data(), out.data<float>(f).data(), drawn);
    } else {
      change(in.data<uint8_t>(f).data(), out.data<uint8_t>(f).data(), drawn);
    }
  }
}

}  // namespace keel
