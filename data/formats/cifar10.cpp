#include "keel/data/formats/cifar10.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include "keel/core/base/read_budget.h"
#include "keel/data/formats/byte_source.h"
#include "keel/data/formats/lazy_tensor.h"

namespace keel {
namespace {

constexpr int64_t kClasses = 10, kSide = 32, kChannels = 3;
constexpr size_t kPlane = kSide * kSide;
constexpr size_t kPixels = kPlane * kChannels;
constexpr size_t kRecord = 1 + kPixels;
constexpr int kBatches = 5;
constexpr const char* kTest = "test_batch.bin";

std::string batch_name(int batch) { return "data_batch_" + std::to_string(batch) + ".bin"; }

std::optional<std::string> find_file(const std::string& folder, const std::string& name) {
  const std::string plain = (std::filesystem::path(folder) / name).string();
  std::error_code unknown;
  for (const std::string& path : {plain, plain + ".gz"}) {
    if (std::filesystem::exists(path, unknown)) return path;
  }
  return std::nullopt;
}

Error missing(const std::string& folder, const std::string& name) {
  return Error({.op = folder, .message = "neither " + name + " nor " + name + ".gz is there"});
}

// Records as they are read, the planes of colours woven into pixels.
struct Records {
  std::vector<uint8_t> classes;
  std::vector<uint8_t> pixels;

  void add(const std::array<uint8_t, kRecord>& record) {
    classes.push_back(record[0]);
    const size_t at = pixels.size();
    pixels.resize(at + kPixels);
    for (size_t c = 0; c < kChannels; ++c) {
      for (size_t i = 0; i < kPlane; ++i)
        pixels[at + i * kChannels + c] = record[1 + c * kPlane + i];
    }
  }
};

void read_records(const std::string& path, int64_t max_bytes, Records& records) {
  ByteSource source(path);
  const auto budget = static_cast<uint64_t>(read_limit(source.file_bytes(), max_bytes));
  std::array<uint8_t, kRecord> record{};
  const size_t before = records.classes.size();
  while (!source.ended()) {
    const size_t number = records.classes.size() - before;
    if ((number + 1) * kRecord > budget) {
      throw source.error("more than the " + std::to_string(budget) + " bytes that it may take",
                         source.offset(), raise_read_limit());
    }
    source.read(record.data(), kRecord, "record " + std::to_string(number));
    if (record[0] >= kClasses) {
      throw source.error("record " + std::to_string(number) + ": expected a class from 0 to " +
                             std::to_string(kClasses - 1) + ", got " + std::to_string(record[0]),
                         source.offset() - kRecord);
    }
    records.add(record);
  }
  if (records.classes.size() == before) throw source.error("there are no records in it", 0);
}

LabelledImages images_of(const Records& records) {
  const auto count = static_cast<int64_t>(records.classes.size());
  Tensor images = tensor_filled_later(u8, {count, static_cast<int64_t>(kPixels)});
  std::memcpy(images.raw(), records.pixels.data(), records.pixels.size());
  return {.images = std::move(images),
          .labels = Tensor::of<uint8_t>({count}, std::span<const uint8_t>(records.classes)),
          .height = kSide,
          .width = kSide,
          .channels = kChannels,
          .classes = kClasses};
}

}  // namespace

bool holds_cifar10(const std::string& folder) {
  const std::vector<std::string> files = cifar10_files(folder);
  std::error_code unknown;
  return std::any_of(files.begin(), files.end(), [&](const std::string& path) {
    return std::filesystem::exists(path, unknown);
  });
}

LabelledSplits load_cifar10(const std::string& folder, int64_t max_bytes) {
  std::vector<std::string> batches;
  for (int batch = kBatches; batch >= 1; --batch) {
    const auto path = find_file(folder, batch_name(batch));
    if (path) batches.insert(batches.begin(), *path);
    if (!path && (!batches.empty() || batch == 1)) throw missing(folder, batch_name(batch));
  }
  const auto test = find_file(folder, kTest);
  if (!test) throw missing(folder, kTest);
  Records of_training, of_test;
  for (const std::string& path : batches) read_records(path, max_bytes, of_training);
  read_records(*test, max_bytes, of_test);
  return {.train = images_of(of_training),
          .test = images_of(of_test),
          .origin = "CIFAR-10 files in " + folder + ", " + std::to_string(batches.size()) + " of " +
                    std::to_string(kBatches) + " training batches"};
}

std::vector<std::string> cifar10_files(const std::string& folder) {
  std::vector<std::string> files;
  const auto add = [&](const std::string& name) {
    files.push_back((std::filesystem::path(folder) / name).string());
    files.push_back(files.back() + ".gz");
  };
  for (int batch = 1; batch <= kBatches; ++batch) add(batch_name(batch));
  add(kTest);
  return files;
}

}  // namespace keel
