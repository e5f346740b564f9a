// Tensors as text, by the rules of NumPy's str() (checked against 1.24): the same digits, padding,
// line breaks and summaries.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "keel/core/tensor/convert.h"
#include "keel/core/tensor/tensor.h"

namespace keel {
namespace {

constexpr size_t kPrecision = 8;      // digits after the point
constexpr int64_t kThreshold = 1000;  // more elements are summarised
constexpr int64_t kEdgeItems = 3;     // shown at each end of a summarised axis
constexpr size_t kLineWidth = 75;
constexpr double kLargest = 1e8;       // from here on numbers are scientific,
constexpr double kSmallest = 1e-4;     // below here too,
constexpr double kWidestRatio = 1000;  // and where they differ by more than this

// A positive number as 0.d1d2d3... * 10^exponent, d1 not zero; zero has no digits and exponent 0.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

template <class Number>
Decimal parse_scientific(Number value, std::optional<int> precision) {
  std::array<char, 64> buffer;  // at most 17 digits are ever asked for
  auto* const first = buffer.data();
  auto* const last = first + buffer.size();
  const auto result =
      precision ? std::to_chars(first, last, value, std::chars_format::scientific, *precision)
                : std::to_chars(first, last, value, std::chars_format::scientific);
  const std::string text(first, result.ptr);
  const size_t e = text.find('e');
  Decimal decimal;
  decimal.digits = text.substr(0, 1) + (e > 2 ? text.substr(2, e - 2) : "");
  decimal.exponent = std::stoi(text.substr(e + 1)) + 1;
  decimal.digits.erase(decimal.digits.find_last_not_of('0') + 1);
  if (decimal.digits.empty()) decimal.exponent = 0;
  return decimal;
}

// Returns the fewest digits that read back as `value` (positive, finite) in its own type.
template <class T>
Decimal shortest(T value) {
  if constexpr (is_half_type<T>) {
    const auto wide = static_cast<float>(value);
    for (int precision = 0;; ++precision) {
      Decimal decimal = parse_scientific(wide, precision);
      const double back =
          std::stod("0." + decimal.digits + "0e" + std::to_string(decimal.exponent));
      if (T(back).bits == value.bits || precision == 9) return decimal;
    }
  } else {
    return parse_scientific(value, std::nullopt);
  }
}

// Rounded to `count` > 0 digits in all, exactly, ties to even; as it was where it has no more.
template <class T>
Decimal rounded(T value, const Decimal& exact, int count) {
  if (static_cast<int>(exact.digits.size()) <= count) return exact;
  return parse_scientific(convert_element<double>(value), count - 1);
}

// The two sides of the point of a formatted number.
struct Parts {
  std::string whole;  // with the sign
  std::string fraction;
  int exponent = 0;  // scientific only
};

template <class T>
Decimal digits_of(T value) {
  const T magnitude = T(std::fabs(convert_element<double>(value)));
  return convert_element<double>(magnitude) == 0 ? Decimal{} : shortest(magnitude);
}

template <class T>
const char* sign_of(T value) {
  return std::signbit(convert_element<double>(value)) ? "-" : "";
}

// `exact_whole`: all digits before the point, also those that do not tell the value from its
// neighbours; otherwise zeros stand for them.
template <class T>
Parts positional(T value, size_t precision, bool exact_whole) {
  Decimal decimal = digits_of(value);
  if (!decimal.digits.empty()) {
    const T magnitude = T(std::fabs(convert_element<double>(value)));
    decimal = rounded(magnitude, decimal, decimal.exponent + static_cast<int>(precision));
  }
  Parts parts{.whole = sign_of(value), .fraction = ""};
  if (decimal.exponent <= 0) {
    parts.whole += "0";
    if (!decimal.digits.empty())
      parts.fraction = std::string(static_cast<size_t>(-decimal.exponent), '0') + decimal.digits;
    return parts;
  }
  const auto whole = static_cast<size_t>(decimal.exponent);
  if (exact_whole && decimal.digits.size() < whole) {
    decimal = parse_scientific(std::fabs(convert_element<double>(value)), decimal.exponent - 1);
  }
  parts.whole += decimal.digits.substr(0, whole);
  if (decimal.digits.size() < whole)
    parts.whole += std::string(whole - decimal.digits.size(), '0');
  else
    parts.fraction = decimal.digits.substr(whole);
  return parts;
}

// `exact`: all `precision` digits of the value, not only those that tell it from its neighbours.
template <class T>
Parts scientific(T value, size_t precision, bool exact = false) {
  Decimal decimal = digits_of(value);
  if (decimal.digits.empty()) return {.whole = std::string(sign_of(value)) + "0", .fraction = ""};
  const T magnitude = T(std::fabs(convert_element<double>(value)));
  const int count = static_cast<int>(precision) + 1;
  if (exact)
    decimal = parse_scientific(convert_element<double>(magnitude), count - 1);
  else
    decimal = rounded(magnitude, decimal, count);
  return {.whole = sign_of(value) + decimal.digits.substr(0, 1),
          .fraction = decimal.digits.substr(1),
          .exponent = decimal.exponent - 1};
}

std::string exponent_digits(int exponent) {
  const std::string digits = std::to_string(std::abs(exponent));
  return digits.size() < 2 ? "0" + digits : digits;
}

std::string exponent_text(int exponent, size_t width) {
  const std::string digits = exponent_digits(exponent);
  return std::string(exponent < 0 ? "e-" : "e+") + std::string(width - digits.size(), '0') + digits;
}

std::string pad_left(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// Writes one element of an array: all alike, after a look at all that will be shown.
template <class T, class Enable = void>
class Format {  // integers and bool
 public:
  explicit Format(const std::vector<T>& shown) {
    for (const T value : shown) width_ = std::max(width_, text(value).size());
    if constexpr (std::is_same_v<T, bool>) width_ = std::string("False").size();
  }
  std::string operator()(T value) const { return pad_left(text(value), width_); }

 private:
  static std::string text(T value) {
    if constexpr (std::is_same_v<T, bool>)
      return value ? "True" : "False";
    else
      return std::to_string(value);
  }
  size_t width_ = 0;
};

template <class T>
class Format<T, std::enable_if_t<is_half_type<T> || std::is_floating_point_v<T>>> {
 public:
  explicit Format(const std::vector<T>& shown) {
    choose_scientific(shown);
    bool all_finite = true;
    bool negative_infinity = false;
    for (const T element : shown) {
      const auto value = convert_element<double>(element);
      if (std::isfinite(value)) {
        add(element);
      } else {
        all_finite = false;
        negative_infinity = negative_infinity || (std::isinf(value) && value < 0);
      }
    }
    right_ = fraction_ + (scientific_ ? exponent_ + 2 : 0);
    if (!all_finite) {
      const size_t longest = negative_infinity ? 4 : 3;  // "-inf", "inf", "nan"
      if (longest > right_ + 1) whole_ = std::max(whole_, longest - right_ - 1);
    }
  }

  std::string operator()(T element) const {
    const auto value = convert_element<double>(element);
    if (!std::isfinite(value)) {
      const char* name = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
      return pad_left(name, whole_ + right_ + 1);
    }
    const Parts parts =
        scientific_ ? scientific(element, fraction_, true) : positional(element, kPrecision, true);
    const std::string fill(fraction_ - parts.fraction.size(), scientific_ ? '0' : ' ');
    std::string text = pad_left(parts.whole, whole_) + "." + parts.fraction + fill;
    if (scientific_) text += exponent_text(parts.exponent, exponent_);
    return text;
  }

 private:
  void choose_scientific(const std::vector<T>& shown) {
    double largest = 0;
    double smallest = 0;
    for (const T element : shown) {
      const double magnitude = std::fabs(convert_element<double>(element));
      if (!std::isfinite(magnitude) || magnitude == 0) continue;
      largest = std::max(largest, magnitude);
      smallest = smallest == 0 ? magnitude : std::min(smallest, magnitude);
    }
    if (largest == 0) return;
    const auto ratio = convert_element<double>(T(largest / smallest));  // rounded, as NumPy's is
    scientific_ = largest >= kLargest || smallest < kSmallest || ratio > kWidestRatio;
  }

  void add(T element) {
    const Parts parts =
        scientific_ ? scientific(element, kPrecision) : positional(element, kPrecision, true);
    whole_ = std::max(whole_, parts.whole.size());
    fraction_ = std::max(fraction_, parts.fraction.size());
    if (scientific_) exponent_ = std::max(exponent_, exponent_digits(parts.exponent).size());
  }

  bool scientific_ = false;
  size_t whole_ = 0;     // characters before the point
  size_t fraction_ = 0;  // and after it
  size_t exponent_ = 0;  // digits of the exponent
  size_t right_ = 0;     // characters after the point, exponent included
};

// One tensor of element type T being written.
template <class T>
class Printer {
 public:
  explicit Printer(const Tensor& tensor)
      : shape_(tensor.shape()),
        strides_(tensor.shape().strides()),
        elements_(tensor.data<T>()),
        summarised_(tensor.num_elements() > kThreshold),
        format_(shown()) {}

  std::string print() const { return axis(0, 0, " ", kLineWidth); }

 private:
  static constexpr int64_t kEllipsis = -1;

  // Returns the indices of an axis that are shown, with kEllipsis for those left out.
  std::vector<int64_t> indices(size_t axis) const {
    const int64_t n = shape_[axis];
    std::vector<int64_t> result;
    const bool cut = summarised_ && n > 2 * kEdgeItems;
    for (int64_t i = 0; i < n; ++i) {
      if (!cut || i < kEdgeItems || i >= n - kEdgeItems)
        result.push_back(i);
      else if (i == kEdgeItems)
        result.push_back(kEllipsis);
      if (cut && i == kEdgeItems) i = n - kEdgeItems - 1;
    }
    return result;
  }

  std::vector<T> shown() const {
    std::vector<T> result;
    collect(0, 0, result);
    return result;
  }
  void collect(size_t axis, int64_t offset, std::vector<T>& result) const {
    if (axis == shape_.rank()) {
      result.push_back(elements_[static_cast<size_t>(offset)]);
      return;
    }
    for (const int64_t i : indices(axis)) {
      if (i != kEllipsis) collect(axis + 1, offset + i * strides_[axis], result);
    }
  }

  std::string axis(size_t axis_index, int64_t offset, const std::string& indent,
                   size_t width) const {
    const bool innermost = axis_index + 1 == shape_.rank();
    const std::string body =
        innermost ? row(offset, indent, width) : block(axis_index, offset, indent, width);
    return "[" + body.substr(indent.size()) + "]";
  }

  std::string block(size_t axis_index, int64_t offset, const std::string& indent,
                    size_t width) const {
    const std::string line_break(shape_.rank() - axis_index - 1, '\n');
    std::string text;
    for (const int64_t i : indices(axis_index)) {
      if (!text.empty()) text += line_break;
      text += indent;
      text += i == kEllipsis ? "..."
                             : axis(axis_index + 1, offset + i * strides_[axis_index], indent + " ",
                                    width - 1);
    }
    return text;
  }

  // Returns the elements of the last axis, wrapped.
  std::string row(int64_t offset, const std::string& indent, size_t width) const {
    std::string text;
    std::string line = indent;
    bool first = true;
    for (const int64_t i : indices(shape_.rank() - 1)) {
      if (!first) line += " ";
      first = false;
      const std::string word =
          i == kEllipsis ? "..." : format_(elements_[static_cast<size_t>(offset + i)]);
      if (line.size() > indent.size() && line.size() + word.size() > width - 1) {
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
        line = indent;
      }
      line += word;
    }
    return text + line;
  }

  Shape shape_;
  std::array<int64_t, Shape::kMaxRank> strides_;
  std::span<const T> elements_;
  bool summarised_;
  Format<T> format_;
};

// Returns a lone number, as Python writes it: 0.1, 1.0, 1e-05, 1e+16.
template <class T>
std::string scalar_text(T element) {
  if constexpr (std::is_same_v<T, bool>) {
    return element ? "True" : "False";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(element);
  } else {
    const auto value = convert_element<double>(element);
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    constexpr double kLargestPlain = 1e16;
    constexpr size_t kAllDigits = 400;  // more than any double has after its point
    const double magnitude = std::fabs(value);
    if (magnitude == 0 || (magnitude >= kSmallest && magnitude < kLargestPlain)) {
      const Parts parts = positional(element, kAllDigits, false);
      return parts.whole + "." + (parts.fraction.empty() ? "0" : parts.fraction);
    }
    const Parts parts = scientific(element, kAllDigits);
    return parts.whole + (parts.fraction.empty() ? "" : "." + parts.fraction) +
           exponent_text(parts.exponent, exponent_digits(parts.exponent).size());
  }
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (tensor.empty()) return "(no tensor)";
  if (tensor.num_elements() == 0) return "[]";
  return visit_dtype(tensor.dtype(), [&]<class T>() {
    if (tensor.shape().rank() == 0) return scalar_text(tensor.data<T>()[0]);
    return Printer<T>(tensor).print();
  });
}

}  // namespace keel
