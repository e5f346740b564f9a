// The seeds of the fuzz targets, which the build makes by seeds.sh, each as it is and cut and
// changed at some places. What fuzzing finds becomes a test of its own in tests/issues.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>

#include "fuzz/targets.h"

TEST_SUITE_BEGIN("fuzz");

namespace {

namespace fs = std::filesystem;
using keel_fuzz::Target;

std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

// Returns how many of the files as they are were read.
int64_t replay(const Target& target) {
  constexpr size_t kPlaces = 150;  // in each file
  int64_t read = 0;
  const auto run = [&](const std::string& bytes) {
    try {
      return target.run(bytes);
    } catch (const std::exception& error) {
      FAIL_CHECK(target.name << ": " << error.what());
      return false;
    }
  };
  for (const auto& entry : fs::directory_iterator(fs::path(KEEL_FUZZ_SEEDS) / target.name)) {
    CAPTURE(entry.path().string());
    const std::string bytes = read_bytes(entry.path());
    if (run(bytes)) ++read;
    const size_t stride = bytes.size() / kPlaces + 1;
    for (size_t at = 0; at < bytes.size(); at += stride) {
      run(bytes.substr(0, at));
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
      run(changed);
      changed[at] = '\xff';
      run(changed);
    }
  }
  return read;
}

void replay_named(const std::string& name) {
  const auto all = keel_fuzz::targets();
  const auto target =
      std::find_if(all.begin(), all.end(), [&](const Target& t) { return t.name == name; });
  REQUIRE(target != all.end());
  CHECK(replay(*target) >= 2);
}

}  // namespace

TEST_CASE("fuzz: the corpus of json is read or refused") { replay_named("json"); }
TEST_CASE("fuzz: the corpus of graph texts is read or refused") { replay_named("graph"); }
TEST_CASE("fuzz: the corpus of safetensors is read or refused") { replay_named("safetensors"); }
TEST_CASE("fuzz: the corpus of npy is read or refused") { replay_named("npy"); }
TEST_CASE("fuzz: the corpus of idx is read or refused") { replay_named("idx"); }
TEST_CASE("fuzz: the corpus of csv is read or refused") { replay_named("csv"); }
TEST_CASE("fuzz: the corpus of ONNX models is imported or refused") { replay_named("onnx"); }
TEST_CASE("fuzz: the corpus of TensorFlow graphs is imported or refused") {
  replay_named("graphdef");
}
TEST_CASE("fuzz: the corpus of Python scripts is scanned or refused") { replay_named("python"); }

TEST_SUITE_END();
