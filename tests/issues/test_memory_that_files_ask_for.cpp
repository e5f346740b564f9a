// Where a file asked for more memory than the machine has, the error named neither the file nor the
// tensor.
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <unistd.h>

#include <doctest/doctest.h>

#include "keel/core/tensor/npy.h"
#include "keel/data/formats/lazy_tensor.h"
#include "keel/graph/runtime/safetensors.h"

#include "support/error_of.h"
#include "support/safetensors_bytes.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("issues");

namespace {

using keel_test::contains;
using keel_test::error_of;

uint64_t more_than_the_memory() {
  return 2 * static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Writes a header and behind it so many zeros, which take no room. Says whether the file system has
// such files.
bool write_sparse(const std::string& path, const std::string& header, uint64_t zeros) {
  std::ofstream(path, std::ios::binary) << header;
  std::error_code refused;
  std::filesystem::resize_file(path, header.size() + zeros, refused);
  return !refused;
}

}  // namespace

TEST_CASE("a file with more data than the machine has memory is named with the tensor") {
  const keel_test::TempFolder folder;
  const uint64_t bytes = more_than_the_memory();
  const std::string count = std::to_string(bytes);
  const std::string states = folder.file("states"), array = folder.file("x.npy");
  const std::string entry =
      R"({"w":{"dtype":"U8","shape":[)" + count + R"(],"data_offsets":[0,)" + count + "]}}";
  const std::string text =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (" + count + ",), }\n";
  const std::string preamble =
      std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(text.size()) + '\0';
  if (!write_sparse(states, keel_test::safetensors_bytes(entry, ""), bytes) ||
      !write_sparse(array, preamble + text, bytes)) {
    MESSAGE("keel test skipped: no file of " << bytes << " bytes can be made here");
    return;
  }
  const std::string reason = "the host does not have " + count + " bytes left";
  const std::string of_states = error_of([&] { keel::read_safetensors(states); });
  CHECK_MESSAGE(contains(of_states, states + ": tensor 'w'"), of_states);
  CHECK_MESSAGE(contains(of_states, reason), of_states);
  const std::string of_array = error_of([&] { keel::read_npy(array); });
  CHECK_MESSAGE(of_array.starts_with(array + ": "), of_array);
  CHECK_MESSAGE(contains(of_array, reason), of_array);
}

TEST_CASE("a data set that the machine has no memory for is named") {
  const std::string error = error_of([] {
    keel::tensor_filled_later(keel::u8, {int64_t{1} << 60, 1}, "digits.idx");
  });
  CHECK_MESSAGE(contains(error,
                         "digits.idx: the host does not have 1152921504606846976 bytes left "
                         "for u8[1152921504606846976, 1]"),
                error);
}

TEST_SUITE_END();
