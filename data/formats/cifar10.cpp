#include "keel/data/formats/cifar10.h"

#include <array>
#include <filesystem>
#include <optional>
#include <span>

#include "keel/core/base/read_budget.h"
#include "keel/data/formats/byte_source.h"
#include "keel/data/formats/data_folder.h"
#include "keel/data/formats/lazy_tensor.h"

namespace keel {
namespace {

constexpr int64_t kCifarClasses = 10, kCifarSide = 32, kChannels = 3;
constexpr size_t kPlane = kCifarSide * kCifarSide;
constexpr size_t kCifarPixels = kPlane * kChannels;
constexpr size_t kRecord = 1 + kCifarPixels;
constexpr int kBatches = 5;
constexpr const char* kTest = "test_batch.bin";

std::string batch_name(int batch) { return "data_batch_" + std::to_string(batch) + ".bin"; }

using CifarRecord = std::array<uint8_t, kRecord>;

// Counts bytes of decompressed records over all files: how many there may be, and how many were
// read.
struct Budget {
  uint64_t bytes;
  uint64_t taken = 0;
};

// Calls use(record) for the records of a file, one after another.
template <class Use>
void for_each_record(const std::string& path, Budget& budget, Use use) {
  ByteSource source(path);
  CifarRecord record{};
  for (int64_t number = 0; !source.ended(); ++number) {
    budget.taken += kRecord;
    if (budget.taken > budget.bytes) {
      throw source.error("the files of this set take more than the " +
                             std::to_string(budget.bytes) + " bytes that they may take together",
                         source.offset(), raise_read_limit());
    }
    source.read(record.data(), kRecord, "record " + std::to_string(number));
    if (record[0] >= kCifarClasses) {
      throw source.error("record " + std::to_string(number) + ": expected a class from 0 to " +
                             std::to_string(kCifarClasses - 1) + ", got " +
                             std::to_string(record[0]),
                         source.offset() - kRecord);
    }
    use(record);
  }
  if (source.offset() == 0) throw source.error("there are no records in it", 0);
}

// How many records the files hold. They are read for that, and then again, so that the tensors are
// made once, at their size: what a compressed file says about its own is not trusted.
int64_t count_records(const std::vector<std::string>& paths, Budget& budget) {
  int64_t count = 0;
  for (const std::string& path : paths)
    for_each_record(path, budget, [&](const CifarRecord&) { ++count; });
  return count;
}

// The planes of colours are woven into pixels.
LabelledImages read_records(const std::vector<std::string>& paths, int64_t count) {
  Tensor images =
      tensor_filled_later(u8, {count, static_cast<int64_t>(kCifarPixels)}, paths.front());
  Tensor labels(u8, {count});
  const std::span<uint8_t> classes = labels.data<uint8_t>();
  auto* pixels = static_cast<uint8_t*>(images.raw());
  Budget known{static_cast<uint64_t>(count) * kRecord};
  size_t at = 0;
  for (const std::string& path : paths) {
    for_each_record(path, known, [&](const CifarRecord& record) {
      classes[at] = record[0];
      uint8_t* image = pixels + at * kCifarPixels;
      for (size_t c = 0; c < kChannels; ++c) {
        for (size_t i = 0; i < kPlane; ++i) image[i * kChannels + c] = record[1 + c * kPlane + i];
      }
      ++at;
    });
  }
  if (known.taken != known.bytes)
    throw Error({.op = paths.back(), .message = "the files changed while they were read"});
  return {.images = std::move(images),
          .labels = std::move(labels),
          .height = kCifarSide,
          .width = kCifarSide,
          .channels = kChannels,
          .classes = kCifarClasses};
}

struct CifarFiles {
  std::vector<std::string> batches, tests;
  bool recognised = false;  // by what is in them, whatever their names
};

std::vector<std::string> named_cifar_files(const std::string& folder) {
  std::vector<std::string> names;
  for (int batch = 1; batch <= kBatches; ++batch) names.push_back(batch_name(batch));
  names.emplace_back(kTest);
  return paths_in_folder(folder, names);
}

// Says whether a plain file has whole records, the first of a class that there is.
bool holds_records(const std::string& path) {
  try {
    ByteSource source(path);
    uint8_t first = kCifarClasses;
    if (source.file_bytes() % kRecord != 0) return false;
    source.read(&first, 1, "the first class");
    return first < kCifarClasses && source.content_limit() == source.file_bytes();
  } catch (const Error&) {
    return false;
  }
}

// The files by what is in them; nothing unless there are some for training and some for the test.
std::optional<CifarFiles> recognised_cifar_files(const std::string& folder) {
  CifarFiles files;
  for (const std::string& path : few_files_in(folder)) {
    if (!holds_records(path)) continue;
    const bool test =
        std::filesystem::path(path).filename().string().find("test") != std::string::npos;
    (test ? files.tests : files.batches).push_back(path);
  }
  if (files.batches.empty() || files.tests.empty()) return std::nullopt;
  files.recognised = true;
  return files;
}

CifarFiles cifar_files_in(const std::string& folder) {
  if (!any_exists(named_cifar_files(folder))) {
    if (auto files = recognised_cifar_files(folder)) return *files;
  }
  CifarFiles files;
  for (int batch = kBatches; batch >= 1; --batch) {
    const auto path = find_in_folder(folder, batch_name(batch));
    if (path) files.batches.insert(files.batches.begin(), *path);
    if (!path && (!files.batches.empty() || batch == 1))
      throw missing_in_folder(folder, batch_name(batch));
  }
  const auto test = find_in_folder(folder, kTest);
  if (!test) throw missing_in_folder(folder, kTest);
  files.tests = {*test};
  return files;
}

std::string files_for_training(const CifarFiles& files) {
  const std::string count = std::to_string(files.batches.size());
  return files.recognised ? count + " recognised by content for training"
                          : count + " of " + std::to_string(kBatches) + " training batches";
}

}  // namespace

bool holds_cifar10(const std::string& folder) { return any_exists(cifar10_files(folder)); }

LabelledSplits load_cifar10(const std::string& folder, int64_t max_bytes) {
  const CifarFiles files = cifar_files_in(folder);
  uint64_t file_bytes = 0;
  for (const auto* paths : {&files.batches, &files.tests})
    for (const std::string& path : *paths) file_bytes += ByteSource(path).file_bytes();
  Budget budget{static_cast<uint64_t>(read_limit(file_bytes, max_bytes))};
  const int64_t of_training = count_records(files.batches, budget);
  const int64_t of_test = count_records(files.tests, budget);
  return {.train = read_records(files.batches, of_training),
          .test = read_records(files.tests, of_test),
          .origin = "CIFAR-10 files in " + folder + ", " + files_for_training(files)};
}

std::vector<std::string> cifar10_files(const std::string& folder) {
  std::vector<std::string> paths = named_cifar_files(folder);
  if (const auto files = any_exists(paths) ? std::nullopt : recognised_cifar_files(folder)) {
    for (const auto* found : {&files->batches, &files->tests})
      paths.insert(paths.end(), found->begin(), found->end());
  }
  return paths;
}

}  // namespace keel
