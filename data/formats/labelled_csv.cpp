#include "keel/data/formats/labelled_csv.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "keel/core/base/random.h"
#include "keel/data/formats/csv_table.h"

namespace keel {
namespace {

constexpr int64_t kMostClasses = 256;
constexpr int64_t kTestShare = 5;  // one row in so many
constexpr uint64_t kTestKey = 0x63737600;

// The error names the line of the file; the header is its first record.
Error row_error(const std::string& path, int64_t row, const std::string& message) {
  return Error({.op = path,
                .argument = "line " + std::to_string(line_of_record(path, row + 1)),
                .message = message});
}

Tensor classes_of(const Tensor& column, const std::string& path, const std::string& label) {
  const auto values = column.data<int64_t>();
  Tensor classes(u8, column.shape());
  uint8_t* out = classes.data<uint8_t>().data();
  for (size_t row = 0; row < values.size(); ++row) {
    if (values[row] < 0 || values[row] >= kMostClasses) {
      throw row_error(path, static_cast<int64_t>(row),
                      "column '" + label + "': expected a class from 0 to " +
                          std::to_string(kMostClasses - 1) + ", got " +
                          std::to_string(values[row]));
    }
    out[row] = static_cast<uint8_t>(values[row]);
  }
  return classes;
}

Tensor rows_of(const Tensor& table, std::span<const size_t> rows) {
  Shape shape{static_cast<int64_t>(rows.size())};
  for (size_t axis = 1; axis < table.shape().rank(); ++axis) shape.push_back(table.shape()[axis]);
  Tensor part(table.dtype(), shape);
  const size_t bytes = part.num_bytes() / rows.size();
  auto* out = static_cast<std::byte*>(part.raw());
  const auto* in = static_cast<const std::byte*>(table.raw());
  for (const size_t row : rows) {
    std::memcpy(out, in + row * bytes, bytes);
    out += bytes;
  }
  return part;
}

}  // namespace

LabelledSplits load_labelled_csv(const std::string& path, const std::string& label,
                                 int64_t max_bytes) {
  if (csv_columns(path) == std::vector<std::string>{label}) {
    throw Error(
        {.op = path,
         .expected = "columns beside '" + label + "', with the numbers to tell its classes by",
         .got = "none"});
  }
  const CsvTable table = read_csv_table(
      path,
      {{.name = "label", .dtype = i64, .columns = {label}},
       {.name = "numbers", .dtype = f32, .columns = {}, .finite = true}},
      {.max_bytes = max_bytes},
      {{"label", "a class, a whole number from 0 to " + std::to_string(kMostClasses - 1)}});
  const Tensor classes = classes_of(table.fields[0].second, path, label);
  const int64_t count = classes.num_elements();
  if (count < 2) {
    throw Error({.op = path,
                 .expected = "at least 2 rows, one to train on and one for the test",
                 .got = std::to_string(count)});
  }
  const Tensor& written = table.fields[1].second;
  const Tensor numbers = table.are_bytes[1] ? written.cast(u8) : written;
  const int64_t width = numbers.shape()[1];
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(width))));
  const bool square = numbers.dtype() == u8 && side > 1 && side * side == width;
  const auto labels = classes.data<uint8_t>();
  const int64_t largest = *std::max_element(labels.begin(), labels.end());

  const Permutation drawn(static_cast<uint64_t>(count), kTestKey);
  std::vector<size_t> order(static_cast<size_t>(count));
  for (size_t i = 0; i < order.size(); ++i) order[i] = drawn[i];
  const int64_t of_test = std::max<int64_t>(1, count / kTestShare);
  const auto border = order.begin() + (count - of_test);
  std::sort(border, order.end());
  const auto part = [&](std::span<const size_t> rows) {
    return LabelledImages{.images = rows_of(numbers, rows),
                          .labels = rows_of(classes, rows),
                          .height = square ? side : 1,
                          .width = square ? side : width,
                          .channels = 1,
                          .classes = std::max<int64_t>(2, largest + 1)};
  };
  return {.train = part({order.begin(), border}),
          .test = part({border, order.end()}),
          .origin = "CSV file " + path + ", " + std::to_string(count) + " rows of " +
                    std::to_string(width) +
                    (numbers.dtype() == u8 ? " bytes, " : " floats, taken as they are, ") +
                    std::to_string(of_test) + " of them for the test"};
}

}  // namespace keel
