// The temporary files behind AtomicFile: how they are named and made, and what becomes of those
// whose process was killed. Internal to core/base. Any thread.
#ifndef KEEL_CORE_BASE_TEMPORARY_FILE_H
#define KEEL_CORE_BASE_TEMPORARY_FILE_H

#include <string>

namespace keel {

struct TemporaryFile {
  std::string path;
  int descriptor = -1;  // open for writing; -1: errno says why there is none
};

// Makes ".<target's name>.<process>.<number>.keel-tmp" in the target's folder, so that rename stays
// within one file system; hidden, and of a name that nobody else uses. Before that removes the
// files of such names from the folder whose process no longer runs.
TemporaryFile make_temporary_file(const std::string& target, const std::string& folder);

}  // namespace keel

#endif  // KEEL_CORE_BASE_TEMPORARY_FILE_H
