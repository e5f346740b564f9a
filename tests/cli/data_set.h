// Small data sets in MNIST's four IDX files, written byte by byte: good ones, and the pieces to
// make bad ones of.
#ifndef KEEL_TESTS_CLI_DATA_SET_H
#define KEEL_TESTS_CLI_DATA_SET_H

#include <cstdint>
#include <string>
#include <vector>

#include "support/idx_bytes.h"
#include "support/temp_folder.h"

namespace keel_test {

inline const std::string kTrainImages = "train-images-idx3-ubyte";
inline const std::string kTrainLabels = "train-labels-idx1-ubyte";
inline const std::string kTestImages = "t10k-images-idx3-ubyte";
inline const std::string kTestLabels = "t10k-labels-idx1-ubyte";

inline constexpr int64_t kPixels = 784;  // of an image

// Drawn digits as the contents of the four files.
struct DataSet {
  DataSet(int64_t train_count, int64_t test_count);
  void write_to(const TempFolder& folder) const;

  int64_t train_count;
  int64_t test_count;
  std::string train_pixels, train_classes;  // kPixels bytes and 1 byte an image
  std::string test_pixels, test_classes;
};

// A folder with the four files.
struct DataFolder : TempFolder {
  DataFolder(int64_t train_count, int64_t test_count) {
    DataSet(train_count, test_count).write_to(*this);
  }
};

// The folder that most tests train on, one for each process: 200 images and 20 for the test. In
// batches of 16 an epoch has 12 steps, in batches of 20 it has 10.
inline const TempFolder& small_data() {
  static const DataFolder folder(200, 20);
  return folder;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_CLI_DATA_SET_H
