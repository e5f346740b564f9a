// Reading and atomic writing of files.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "keel/core/base/error.h"
#include "keel/core/base/file.h"

#include "support/error_of.h"

namespace {

using keel_test::contains;
namespace fs = std::filesystem;
using keel::AtomicFile;
using keel::Error;
using keel::InputFile;

// A fresh folder, removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "keel-file-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(path_))
      result.push_back(entry.path().filename().string());
    std::sort(result.begin(), result.end());
    return result;
  }

 private:
  fs::path path_;
};

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void spill(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

using keel_test::error_of;

using Names = std::vector<std::string>;

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("a file is read whole up to its limit") {
  const Folder folder;
  const std::string bytes("a\0b\n\xff", 5);
  spill(folder / "f", bytes);
  spill(folder / "empty", "");
  CHECK(keel::read_file(folder / "f", 5) == bytes);
  CHECK(keel::read_file(folder / "empty", 0).empty());
  CHECK(error_of([&] { keel::read_file(folder / "f", 4); }) ==
        (folder / "f") + ": expected at most 4 bytes, got 5");
}

TEST_CASE("what cannot be read is named with the reason") {
  const Folder folder;
  CHECK(error_of([&] { keel::read_file(folder / "none", 9); }) ==
        (folder / "none") + ": cannot open: No such file or directory");
  CHECK(contains(error_of([&] { keel::read_file(folder / "", 9); }), "expected a regular file"));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(
      contains(error_of([&] { keel::read_file(folder / "pipe", 9); }), "expected a regular file"));
  CHECK(contains(error_of([&] { keel::read_file("/dev/null", 9); }), "expected a regular file"));
}

TEST_CASE("parts of a file are read exactly or not at all") {
  const Folder folder;
  spill(folder / "f", "0123456789");
  const InputFile file(folder / "f");
  CHECK(file.size() == 10);
  char bytes[4] = {};
  file.read_at(6, bytes, 4);
  CHECK(std::string(bytes, 4) == "6789");
  file.read_at(10, bytes, 0);
  CHECK(contains(error_of([&] { file.read_at(7, bytes, 4); }),
                 "expected 4 bytes at offset 7, got a file of 10"));
  CHECK_THROWS_AS(file.read_at(UINT64_MAX, bytes, 4), Error);
  fs::resize_file(folder / "f", 3);
  CHECK(contains(error_of([&] { file.read_at(2, bytes, 4); }), "shrank"));
}

TEST_CASE("an atomic write replaces the file and leaves nothing beside it") {
  const Folder folder;
  keel::write_file_atomically(folder / "f", "one");
  CHECK(slurp(folder / "f") == "one");
  keel::write_file_atomically(folder / "f", std::string(1 << 20, 'x'));
  CHECK(slurp(folder / "f").size() == 1 << 20);
  CHECK(folder.names() == Names{"f"});
}

TEST_CASE("a written file has the usual permissions or those it had") {
  const Folder folder;
  const mode_t mask = umask(027);
  keel::write_file_atomically(folder / "new", "x");
  umask(mask);
  struct stat status {};
  REQUIRE(stat((folder / "new").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
  REQUIRE(chmod((folder / "new").c_str(), 0604) == 0);
  keel::write_file_atomically(folder / "new", "y");
  REQUIRE(stat((folder / "new").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0604);
}

TEST_CASE("an atomic file that is not committed leaves no trace") {
  const Folder folder;
  spill(folder / "f", "old");
  {
    AtomicFile file(folder / "f");
    file.write("ne");
    file.write("w");
    CHECK(folder.names().size() == 2);
  }
  CHECK(slurp(folder / "f") == "old");
  CHECK(folder.names() == Names{"f"});
  {
    AtomicFile first(folder / "f");
    AtomicFile second(folder / "f");
    first.write("first");
    second.write("second");
    second.commit();
    first.commit();
  }
  CHECK(slurp(folder / "f") == "first");
  CHECK(folder.names() == Names{"f"});
}

TEST_CASE("a write through a symbolic link changes the file it names") {
  const Folder folder;
  spill(folder / "real", "old");
  fs::create_symlink("real", folder / "link");
  fs::create_symlink("nowhere", folder / "dangling");
  keel::write_file_atomically(folder / "link", "new");
  CHECK(slurp(folder / "real") == "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(contains(error_of([&] { keel::write_file_atomically(folder / "dangling", "x"); }),
                 "cannot follow the symbolic link"));
  CHECK(folder.names() == Names{"dangling", "link", "real"});
}

TEST_CASE("a link to what is no file says what it is") {
  int pair[2];
  REQUIRE(::pipe(pair) == 0);
  // As /dev/stdout may be: a link to a name that is nowhere.
  const std::string link = "/proc/self/fd/" + std::to_string(pair[1]);
  CHECK(contains(error_of([&] { keel::write_file_atomically(link, "x"); }),
                 link + ": expected a regular file, got a pipe"));
  ::close(pair[0]);
  ::close(pair[1]);
}

TEST_CASE("what cannot be written is named and nothing is left behind") {
  const Folder folder;
  CHECK(contains(error_of([&] { keel::write_file_atomically(folder / "none/f", "x"); }),
                 (folder / "none/f") + ": cannot write: No such file or directory"));
  fs::create_directory(folder / "dir");
  CHECK(contains(error_of([&] { keel::write_file_atomically(folder / "dir", "x"); }),
                 "expected a regular file"));
  CHECK(contains(error_of([&] { keel::write_file_atomically("/dev/null", "x"); }),
                 "expected a regular file"));
  CHECK(contains(error_of([&] { keel::write_file_atomically("", "x"); }), "cannot"));
  CHECK(contains(error_of([&] { keel::write_file_atomically(folder / "", "x"); }),
                 "expected a regular file"));
  spill(folder / "file", "x");
  CHECK(contains(error_of([&] { keel::write_file_atomically(folder / "file/f", "x"); }),
                 "Not a directory"));
  CHECK(folder.names() == Names{"dir", "file"});
}

TEST_CASE("a write that fails half way keeps the old file and removes its temporary") {
  const Folder folder;
  spill(folder / "f", "old");
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 4096;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string message =
      error_of([&] { keel::write_file_atomically(folder / "f", std::string(10000, 'x')); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(message == (folder / "f") + ": cannot write: File too large");
  CHECK(slurp(folder / "f") == "old");
  CHECK(folder.names() == Names{"f"});
}

TEST_CASE("a write beyond the limit on file sizes is an error where nobody handles the signal") {
  const Folder folder;
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);
    struct rlimit small = before;
    small.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string message =
        error_of([&] { keel::write_file_atomically(folder / "f", std::string(10000, 'x')); });
    _exit(contains(message, "File too large") ? 7 : 8);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(folder.names().empty());
}

TEST_CASE("the temporary file of a killed write is removed by the next one") {
  const Folder folder;
  const auto begin_write = [&](const char* name) {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    const pid_t child = fork();
    if (child == 0) {
      AtomicFile file(folder / name);
      file.write("half");
      const char done = 1;
      if (write(ready[1], &done, 1) != 1) _exit(1);
      pause();
    }
    char done = 0;
    REQUIRE(read(ready[0], &done, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    return child;
  };
  const auto end = [](pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  };
  const pid_t killed = begin_write("a");
  const pid_t alive = begin_write("b");
  end(killed);
  const std::string dead = std::to_string(killed);
  // Of this process's number, as in a container where each run has the same; and files of others.
  spill(folder / (".c." + std::to_string(getpid()) + ".9.keel-tmp"), "");
  const Names others = {".." + dead + ".0.keel-tmp", ".a." + dead + ".0.tmp",
                        ".a." + dead + ".x.keel-tmp", ".a.0.0.keel-tmp",
                        "a." + dead + ".0.keel-tmp"};
  for (const std::string& name : others) spill(folder / name, "");
  AtomicFile open_here(folder / "d");
  CHECK(folder.names().size() == others.size() + 4 - 2);
  keel::write_file_atomically(folder / "f", "x");
  const Names names = folder.names();
  CHECK(names.size() == others.size() + 3);  // b's and d's temporaries, and f
  for (const std::string& name : others)
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
  end(alive);
  open_here.write("whole");
  open_here.commit();
  CHECK(slurp(folder / "d") == "whole");
}

TEST_CASE("a folder is made with those that it lies in") {
  const Folder folder;
  keel::make_folder(folder / "a/b/c//");
  CHECK(fs::is_directory(folder / "a/b/c"));
  keel::make_folder(folder / "a/b");  // it is there
  spill(folder / "file", "x");
  CHECK(error_of([&] { keel::make_folder(folder / "file"); }) ==
        (folder / "file") + ": expected a folder, got a file");
  CHECK(contains(error_of([&] { keel::make_folder(folder / "file/below"); }),
                 (folder / "file") + ": expected a folder"));
  CHECK(contains(error_of([] { keel::make_folder(""); }), "is no folder"));
  CHECK(contains(error_of([] { keel::make_folder("/proc/none"); }), "/proc/none: cannot be made"));
}

TEST_CASE("a file is removed and one that is gone is no error") {
  const Folder folder;
  spill(folder / "f", "x");
  keel::remove_file(folder / "f");
  CHECK(folder.names().empty());
  keel::remove_file(folder / "f");
  fs::create_directory(folder / "dir");
  CHECK(contains(error_of([&] { keel::remove_file(folder / "dir"); }),
                 (folder / "dir") + ": cannot be removed"));
}

TEST_CASE("a folder is locked by one at a time") {
  const Folder folder;
  {
    const keel::FolderLock held(folder / "");
    CHECK(contains(error_of([&] { const keel::FolderLock second(folder / ""); }),
                   "another training writes to it"));
  }
  // The lock of a killed process is gone with it.
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const keel::FolderLock held(folder / "");
    const char done = 1;
    if (write(ready[1], &done, 1) != 1) _exit(1);
    pause();
  }
  char done = 0;
  REQUIRE(read(ready[0], &done, 1) == 1);
  CHECK(contains(error_of([&] { const keel::FolderLock second(folder / ""); }), "another"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  const keel::FolderLock again(folder / "");
  CHECK(contains(error_of([&] { const keel::FolderLock none(folder / "none"); }), "cannot open"));
}

TEST_CASE("long names can be written") {
  const Folder folder;
  const std::string name(250, 'n');
  keel::write_file_atomically(folder / name, "x");
  CHECK(folder.names() == Names{name});
}

TEST_SUITE_END();
