// A model in two files had the weights of the new one beside the older graph where the second file
// failed at the disk. fsync() goes through that of this file, which fails where it is told to.
#include <cerrno>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <unistd.h>

#include <doctest/doctest.h>

#include "keel/ops/exchange/onnx/write_model.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

namespace {

// The beginning of an open file's name that cannot be synced; "": all can.
std::string unsynced_file;

std::string name_of_open_file(int descriptor) {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), unknown)
      .filename()
      .string();
}

std::string bytes_of_pair(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

}  // namespace

extern "C" int fsync(int descriptor) {
  if (!unsynced_file.empty() && name_of_open_file(descriptor).starts_with(unsynced_file)) {
    errno = EIO;
    return -1;
  }
  return reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"))(descriptor);
}

TEST_SUITE_BEGIN("issues");

TEST_CASE("an exported model in two files is replaced by both or by none") {
  const keel_test::TempFolder folder;
  const std::string path = folder.file("m.onnx"), data = path + ".data";
  const auto write = [&](double value) {
    keel::onnx::WrittenModel model;
    model.graph.name = "weights of " + std::to_string(value);
    model.graph.initializers.push_back({"w", keel::Tensor::full(keel::f32, {1024}, value)});
    keel::onnx::write_model(model, path, /*most_inline_bytes=*/0);
  };
  write(1);
  const std::string old_model = bytes_of_pair(path), old_data = bytes_of_pair(data);
  REQUIRE_FALSE(old_data.empty());
  const std::string process = std::to_string(getpid());
  for (const std::string& failing : {".m.onnx." + process, ".m.onnx.data." + process}) {
    CAPTURE(failing);
    unsynced_file = failing;
    const std::string error = keel_test::error_of([&] { write(2); });
    unsynced_file.clear();
    CHECK_MESSAGE(keel_test::contains(error, "cannot write: Input/output error"), error);
    CHECK((bytes_of_pair(path) == old_model));
    CHECK((bytes_of_pair(data) == old_data));
    CHECK(keel_test::names_in(folder.path()).size() == 2);
  }
  write(2);
  CHECK((bytes_of_pair(path) != old_model));
  CHECK((bytes_of_pair(data) != old_data));
}

TEST_SUITE_END();
