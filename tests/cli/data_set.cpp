#include "cli/data_set.h"

#include "keel/data/formats/digits.h"

namespace keel_test {
namespace {

std::string bytes_of(const keel::Tensor& tensor) {
  const auto values = tensor.data<uint8_t>();
  return {values.begin(), values.end()};
}

}  // namespace

DataSet::DataSet(int64_t train, int64_t test) : train_count(train), test_count(test) {
  const auto digits = keel::make_digits({.seed = 5, .train_count = train, .test_count = test});
  train_pixels = bytes_of(digits.train.images);
  train_classes = bytes_of(digits.train.labels);
  test_pixels = bytes_of(digits.test.images);
  test_classes = bytes_of(digits.test.labels);
}

void DataSet::write_to(const TempFolder& folder) const {
  const auto train = static_cast<uint32_t>(train_count);
  const auto test = static_cast<uint32_t>(test_count);
  folder.write(kTrainImages, idx_bytes({train, 28, 28}, train_pixels));
  folder.write(kTrainLabels, idx_bytes({train}, train_classes));
  folder.write(kTestImages, idx_bytes({test, 28, 28}, test_pixels));
  folder.write(kTestLabels, idx_bytes({test}, test_classes));
}

}  // namespace keel_test
