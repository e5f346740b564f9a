#include "keel/data/formats/mnist.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "keel/core/base/log.h"
#include "keel/core/base/thread.h"
#include "keel/data/formats/data_folder.h"
#include "keel/data/formats/idx.h"

namespace keel {
namespace {

constexpr int64_t kMnistClasses = 10;
constexpr const char* kTrainImages = "train-images-idx3-ubyte";
constexpr const char* kTrainLabels = "train-labels-idx1-ubyte";
constexpr const char* kTestImages = "t10k-images-idx3-ubyte";
constexpr const char* kTestLabels = "t10k-labels-idx1-ubyte";

// The four files of a set.
struct MnistFiles {
  std::string train_images, train_labels, test_images, test_labels;
};

std::vector<std::string> named_mnist_files(const std::string& folder) {
  return paths_in_folder(folder, {kTrainImages, kTrainLabels, kTestImages, kTestLabels});
}

// The files by what is in them; nothing unless there are two of images and two with as many labels,
// whose numbers say which are the larger.
std::optional<MnistFiles> recognised_mnist_files(const std::string& folder) {
  struct Found {
    std::string path;
    int64_t count;
  };
  std::vector<Found> images, labels;
  for (const std::string& path : few_files_in(folder)) {
    const auto header = look_at_idx(path);
    if (!header) continue;
    if (header->rank == 3) images.push_back({path, header->count});
    if (header->rank == 1) labels.push_back({path, header->count});
  }
  if (images.size() != 2 || labels.size() != 2) return std::nullopt;
  for (auto* pair : {&images, &labels}) {
    if ((*pair)[0].count < (*pair)[1].count) std::swap((*pair)[0], (*pair)[1]);
  }
  if (images[0].count == images[1].count) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    if (images[i].count != labels[i].count) return std::nullopt;
  }
  return MnistFiles{images[0].path, labels[0].path, images[1].path, labels[1].path};
}

std::string file_in(const std::string& folder, const std::string& name) {
  const auto path = find_in_folder(folder, name);
  if (!path) throw missing_in_folder(folder, name);
  return *path;
}

MnistFiles mnist_files_in(const std::string& folder) {
  std::error_code failure;
  if (!std::filesystem::is_directory(folder, failure)) {
    throw Error({.op = folder,
                 .message = failure ? failure.message() : "is not a folder",
                 .fix = "give the folder that holds the four MNIST files"});
  }
  if (!any_exists(named_mnist_files(folder))) {
    if (const auto files = recognised_mnist_files(folder)) return *files;
  }
  return {file_in(folder, kTrainImages), file_in(folder, kTrainLabels),
          file_in(folder, kTestImages), file_in(folder, kTestLabels)};
}

// The two sets have files of one form; the first classes tell them apart.
std::string set_name(const Tensor& labels) {
  constexpr uint8_t kFashion[] = {9, 0, 0, 3, 0, 2, 7, 2, 5, 5};
  const auto classes = labels.data<uint8_t>();
  const bool fashion = classes.size() == 60000 &&
                       std::equal(std::begin(kFashion), std::end(kFashion), classes.begin());
  return fashion ? "Fashion-MNIST" : "MNIST";
}

LabelledImages load_part(const std::string& images_path, const std::string& labels_path,
                         int64_t max_bytes) {
  const Tensor labels = read_idx(labels_path, 1, max_bytes);
  const Tensor images = read_idx(images_path, 3, max_bytes);
  return label_images(images, labels, kMnistClasses, images_path, labels_path);
}

}  // namespace

LabelledSplits load_mnist(const std::string& folder, int64_t max_bytes) {
  const MnistFiles files = mnist_files_in(folder);
  LabelledSplits splits;
  // The two parts are decompressed at the same time; an error of the first part comes first.
  std::exception_ptr test_failure;
  const auto load_test = [&] {
    try {
      splits.test = load_part(files.test_images, files.test_labels, max_bytes);
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
    splits.train = load_part(files.train_images, files.train_labels, max_bytes);
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
        {.op = files.test_images,
         .expected = "images of " + std::to_string(splits.train.height) + " x " +
                     std::to_string(splits.train.width) + " as in " + files.train_images,
         .got = std::to_string(splits.test.height) + " x " + std::to_string(splits.test.width)});
  }
  splits.origin = set_name(splits.train.labels) + " files in " + folder;
  return splits;
}

std::vector<std::string> mnist_files(const std::string& folder) {
  std::vector<std::string> paths = named_mnist_files(folder);
  if (const auto files = any_exists(paths) ? std::nullopt : recognised_mnist_files(folder)) {
    for (const auto* path :
         {&files->train_images, &files->train_labels, &files->test_images, &files->test_labels})
      paths.push_back(*path);
  }
  return paths;
}

bool holds_mnist(const std::string& folder) { return any_exists(mnist_files(folder)); }

}  // namespace keel
