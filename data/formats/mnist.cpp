#include "keel/data/formats/mnist.h"

#include <exception>
#include <filesystem>
#include <thread>

#include "keel/core/base/log.h"
#include "keel/core/base/thread.h"
#include "keel/data/formats/data_folder.h"
#include "keel/data/formats/idx.h"

namespace keel {
namespace {

constexpr int64_t kClasses = 10;
constexpr const char* kTrainImages = "train-images-idx3-ubyte";
constexpr const char* kTrainLabels = "train-labels-idx1-ubyte";
constexpr const char* kTestImages = "t10k-images-idx3-ubyte";
constexpr const char* kTestLabels = "t10k-labels-idx1-ubyte";

std::string file_in(const std::string& folder, const std::string& name) {
  std::error_code failure;
  if (!std::filesystem::is_directory(folder, failure)) {
    throw Error({.op = folder,
                 .message = failure ? failure.message() : "is not a folder",
                 .fix = "give the folder that holds the four MNIST files"});
  }
  const auto path = find_in_folder(folder, name);
  if (!path) throw missing_in_folder(folder, name);
  return *path;
}

LabelledImages load_part(const std::string& images_path, const std::string& labels_path,
                         int64_t max_bytes) {
  const Tensor labels = read_idx(labels_path, 1, max_bytes);
  const Tensor images = read_idx(images_path, 3, max_bytes);
  return label_images(images, labels, kClasses, images_path, labels_path);
}

}  // namespace

LabelledSplits load_mnist(const std::string& folder, int64_t max_bytes) {
  const std::string train_images = file_in(folder, kTrainImages);
  const std::string train_labels = file_in(folder, kTrainLabels);
  const std::string test_images = file_in(folder, kTestImages);
  const std::string test_labels = file_in(folder, kTestLabels);

  LabelledSplits splits;
  splits.origin = "MNIST files in " + folder;
  // The two parts are decompressed at the same time; an error of the first part comes first.
  std::exception_ptr test_failure;
  const auto load_test = [&] {
    try {
      splits.test = load_part(test_images, test_labels, max_bytes);
    } catch (...) {
      test_failure = std::current_exception();
    }
  };
  std::thread test_loader;
  try {
    test_loader = start_thread("the thread that reads the test images", load_test);
  } catch (const Error& refused) {
    log_warn(std::string(refused.what()) + "; the files are read one after the other");
  }
  std::exception_ptr train_failure;
  try {
    splits.train = load_part(train_images, train_labels, max_bytes);
  } catch (...) {
    train_failure = std::current_exception();
  }
  if (test_loader.joinable())
    test_loader.join();
  else
    load_test();
  if (train_failure) std::rethrow_exception(train_failure);
  if (test_failure) std::rethrow_exception(test_failure);
  if (splits.test.height != splits.train.height || splits.test.width != splits.train.width) {
    throw Error(
        {.op = test_images,
         .expected = "images of " + std::to_string(splits.train.height) + " x " +
                     std::to_string(splits.train.width) + " as in " + train_images,
         .got = std::to_string(splits.test.height) + " x " + std::to_string(splits.test.width)});
  }
  return splits;
}

std::vector<std::string> mnist_files(const std::string& folder) {
  return paths_in_folder(folder, {kTrainImages, kTrainLabels, kTestImages, kTestLabels});
}

bool holds_mnist(const std::string& folder) { return any_exists(mnist_files(folder)); }

}  // namespace keel
