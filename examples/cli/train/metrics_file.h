// MetricsFile: one JSON object a line and step, in a file, a pipe or a device. Lines are handed to
// a thread of its own, which writes them whole and at least every second, so that neither a slow
// disk nor a slow reader holds up the training. A regular file is locked: two trainings cannot
// write one. A write that fails is told of at once and ends the writing, never the training. Used
// by one thread, but for sync(); the callbacks come on the file's own.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_METRICS_FILE_H
#define KEEL_EXAMPLES_CLI_TRAIN_METRICS_FILE_H

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <keel/keel.h>

#include "cli/train/loss_scale_flag.h"

namespace keel_cli {

struct MetricsFileEvents {
  std::function<void(const keel::Error&)> on_failure;  // once
  std::function<void()> on_closed_pipe;                // instead: the reader went away
  std::function<bool()> stopping;  // asked while a pipe is full: whether to stop waiting for it
};

class MetricsFile {
 public:
  // No path: nothing is written. A file that is there keeps its lines up to that of the step
  // `steps_done`, or to the first of a later one, and loses the rest when the first line is
  // written, or by close(): 0 empties it, and a training that is resumed goes on in it as if it had
  // been saved there at that step. One that fails before its first step leaves it alone. Throws
  // keel::Error where it cannot be opened, where another process writes it, and for a pipe that
  // nobody reads.
  MetricsFile(const std::string& path, int64_t steps_done, MetricsFileEvents events);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // Lines behind that of `steps_done` that a resumed training takes out.
  int64_t lines_taken_out() const noexcept { return lines_taken_out_; }
  // Says whether a resumed training goes on in lines without that of `steps_done`: some are
  // missing.
  bool lacks_last_step() const noexcept { return lacks_last_step_; }

  // `scale`: null where the loss is not scaled. `precision`: of the step where it is not the
  // training's own; else empty.
  void write(int64_t step, int64_t epoch, double loss, uint32_t float_status,
             const StepScale* scale, const std::string& precision);
  // Returns when the lines that were handed over are on the disk, or writing has failed; at once
  // for a pipe or a device. Any thread, until close(). Throws keel::Error where they may not be on
  // the disk.
  void sync();
  // Returns when every line is written, or writing has failed. `through`: the training was not cut
  // short, so that a file without a new line is cut, too.
  void close(bool through);

 private:
  void open(int64_t steps_done);
  void start_writer();
  void find_end(int64_t steps_done);
  bool cut();
  bool put(std::string lines, bool last);
  int end();
  void lock() const;
  void run();
  bool write_whole(const std::string& lines);
  bool wait_for_room();
  void fail(int code);

  const std::string path_;
  const MetricsFileEvents events_;
  int descriptor_ = -1;
  bool regular_ = false;
  std::optional<int64_t> kept_bytes_;  // where the file is to be cut; nothing: it has been
  bool lacks_newline_ = false;         // behind those
  int64_t lines_taken_out_ = 0;
  bool lacks_last_step_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string lines_;  // not written yet
  // Bytes, from the beginning: those handed over, those written, and those that sync() waits for.
  int64_t handed_over_ = 0, written_ = 0, awaited_ = 0;
  bool closing_ = false;
  bool through_ = false;
  bool failed_ = false;
  std::thread writer_;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_METRICS_FILE_H
