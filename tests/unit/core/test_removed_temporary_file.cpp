// A new temporary file that another process takes for abandoned before it is locked. flock() goes
// through that of this file, in which the other process comes in between when it is told to.
#include <cerrno>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <unistd.h>

#include <doctest/doctest.h>
#include <sys/file.h>

#include "keel/core/base/file.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

namespace {

enum class OtherProcess { kAway, kHasRemovedIt, kHoldsIt, kHasAnother };

OtherProcess other_process = OtherProcess::kAway;
int removals = 0;

// A process in another container does this with a file that it finds unlocked.
int come_in_between(int descriptor) {
  std::error_code unknown;
  const auto path =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), unknown);
  ++removals;
  if (other_process == OtherProcess::kHoldsIt) {
    errno = EWOULDBLOCK;
    return -1;
  }
  ::unlink(path.c_str());
  if (other_process == OtherProcess::kHasAnother) std::ofstream(path) << "another's";
  return 0;
}

}  // namespace

extern "C" int flock(int descriptor, int operation) noexcept {
  if (other_process != OtherProcess::kAway && removals < 3) {
    if (const int result = come_in_between(descriptor); result != 0) return result;
  }
  return reinterpret_cast<int (*)(int, int)>(dlsym(RTLD_NEXT, "flock"))(descriptor, operation);
}

TEST_SUITE_BEGIN("unit");

TEST_CASE("a file whose temporary is taken for abandoned before it is locked is written") {
  for (const auto how :
       {OtherProcess::kHasRemovedIt, OtherProcess::kHoldsIt, OtherProcess::kHasAnother}) {
    CAPTURE(static_cast<int>(how));
    const keel_test::TempFolder folder;
    removals = 0;
    other_process = how;
    const std::string error =
        keel_test::error_of([&] { keel::write_file_atomically(folder.file("f"), "all of it"); });
    other_process = OtherProcess::kAway;
    CHECK(error == "");
    CHECK(removals == 3);
    CHECK(keel::read_file(folder.file("f"), 100) == "all of it");
  }
}

TEST_SUITE_END();
