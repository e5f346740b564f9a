#include "keel/core/base/file_size_signal.h"

#include <ctime>

namespace keel {
namespace {

sigset_t only_file_size() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGXFSZ);
  return signals;
}

}  // namespace

FileSizeSignalBlock::FileSizeSignalBlock() noexcept {
  const sigset_t signals = only_file_size();
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
}

FileSizeSignalBlock::~FileSizeSignalBlock() {
  // A caller that had it blocked keeps what is pending.
  if (sigismember(&before_, SIGXFSZ) == 0) {
    const sigset_t signals = only_file_size();
    constexpr timespec kNow{};
    while (sigtimedwait(&signals, nullptr, &kNow) == SIGXFSZ) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace keel
