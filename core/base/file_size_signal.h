// FileSizeSignalBlock: while it lives, a write of this thread beyond the limit on file sizes fails
// with EFBIG, as a write to a full disk does, instead of ending the process with SIGXFSZ. Belongs
// to the thread that made it.
#ifndef KEEL_CORE_BASE_FILE_SIZE_SIGNAL_H
#define KEEL_CORE_BASE_FILE_SIZE_SIGNAL_H

#include <csignal>

#include "keel/core/base/export.h"

namespace keel {

class KEEL_API FileSizeSignalBlock {
 public:
  FileSizeSignalBlock() noexcept;
  // Takes back the signal that a write has raised meanwhile.
  ~FileSizeSignalBlock();
  FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
  FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;

 private:
  sigset_t before_;
};

}  // namespace keel

#endif  // KEEL_CORE_BASE_FILE_SIZE_SIGNAL_H
