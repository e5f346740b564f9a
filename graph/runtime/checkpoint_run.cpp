#include "keel/graph/runtime/checkpoint_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <pthread.h>
#include <utility>

#include "keel/core/base/log.h"
#include "keel/core/base/thread.h"
#include "keel/core/tensor/finite.h"
#include "keel/graph/runtime/checkpoint_files.h"
#include "keel/graph/runtime/next_multiple.h"
#include "keel/graph/runtime/safetensors.h"
#include "keel/graph/runtime/seconds_since.h"
#include "keel/graph/runtime/train_options_check.h"

namespace keel {
namespace {

// Says whether there is a file to go on from.
bool has_checkpoints(const std::string& folder) {
  std::error_code unknown;
  return std::filesystem::is_directory(folder, unknown) && !checkpoints_in(folder).empty();
}

// A checkpoint with such states is of no use to anybody who resumes from it.
void require_finite(const StateValues& states, const std::string& path) {
  for (const auto& [name, value] : states) {
    const auto at = first_non_finite(value);
    if (!at) continue;
    throw Error({.op = path,
                 .argument = "state '" + name + "'",
                 .message = "is not written: element " + std::to_string(*at) +
                            " is NaN or infinite" +
                            (has_checkpoints(std::filesystem::path(path).parent_path().string())
                                 ? ", and the older files are of finite states"
                                 : ", and the folder has no older file"),
                 .fix = "take a smaller learning rate, or allow what is not finite"});
  }
}

// The fit throws what ended it, which may have lost states, too.
void warn_of_no_checkpoint(int64_t step, const char* reason) noexcept {
  try {
    log_warn(std::string("the training failed, and no checkpoint of step ") + std::to_string(step) +
             " is written: " + reason);
  } catch (...) {
  }
}

}  // namespace

void check_checkpoint_options(const CheckpointOptions& options, bool validates, CallSite site) {
  if (options.folder.empty()) complain_of_fit("checkpoint.folder", "a folder", "none", site);
  if (options.every_n_steps < 0)
    complain_of_fit("checkpoint.every_n_steps", "at least 0", std::to_string(options.every_n_steps),
                    site);
  if (!(options.every_seconds >= 0) || !std::isfinite(options.every_seconds)) {
    complain_of_fit("checkpoint.every_seconds", "a number that is not negative",
                    std::to_string(options.every_seconds), site);
  }
  if (options.keep < 0)
    complain_of_fit("checkpoint.keep", "at least 0", std::to_string(options.keep), site);
  if (options.keep_best && !validates)
    complain_of_fit("checkpoint.keep_best", "a validation that says what is the best", "none",
                    site);
}

CheckpointRun::CheckpointRun(const std::optional<CheckpointOptions>& options, bool validates,
                             Copy copy, Group* group, CheckpointReport& report, CallSite site)
    : copy_(std::move(copy)), group_(group), report_(report), site_(site) {
  if (!options) return;
  check_checkpoint_options(*options, validates, site);
  options_ = &*options;
}

CheckpointRun::~CheckpointRun() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

void CheckpointRun::begin(int64_t step, const std::string& resumed_from,
                          std::optional<int64_t> best) {
  if (!on()) return;
  if (options_->keep_best) best_ = best;
  if (follows()) return find_best();
  make_folder(options_->folder);
  lock_.emplace(options_->folder);
  require_own_checkpoints(options_->folder, resumed_from);
  for (const CheckpointFile& file : checkpoints_in(options_->folder)) {
    if (file.step > step) left_behind_.insert(file.step);
    if (file.step == step) newest_ = step;
  }
  // This also removes what a killed save has left.
  const AtomicFile never_committed(checkpoint_path(options_->folder, step));
  find_best();
  report_.best_file = file_of_best_;
  last_copy_ = Clock::now();
  writer_ = start_thread("the thread that writes checkpoints", [this] { run_writer(); });
}

// Only rank 0 looks: the folder of another one may be on another machine.
void CheckpointRun::find_best() {
  if (!best_) return;
  std::string path = checkpoint_path(options_->folder, *best_);
  std::error_code unknown;
  if (decided(!follows() && std::filesystem::is_regular_file(path, unknown)))
    file_of_best_ = std::move(path);
}

int64_t CheckpointRun::next(int64_t step, int64_t target) const {
  if (!on() || options_->every_n_steps == 0) return target;
  return std::min(target, next_multiple(step, options_->every_n_steps));
}

bool CheckpointRun::time_is_up() const {
  return options_->every_seconds > 0 && seconds_since(last_copy_) >= options_->every_seconds;
}

bool CheckpointRun::ends_launch() const {
  // Rank 0 alone knows when the last one was made.
  if (!on() || follows()) return false;
  const bool stops = options_->on_error == OnSaveError::kStop;
  if (!stops && !time_is_up()) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stops && std::any_of(done_.begin(), done_.end(), [](const Done& d) { return !!d.error; }))
    return true;
  return !job_ && time_is_up();
}

bool CheckpointRun::decided(bool own) const {
  if (group_ == nullptr || group_->size() == 1) return own;
  auto byte = static_cast<unsigned char>(own);
  group_->broadcast(&byte, 1, 0);
  return byte != 0;
}

void CheckpointRun::after(int64_t step, bool is_best) {
  if (!on()) return;
  const bool wanted = is_best && options_->keep_best;
  if (decided(!follows() && is_due(step, wanted))) save(wanted);
}

bool CheckpointRun::is_due(int64_t step, bool wanted) {
  collect();
  // The last step of a training that ends early is told of twice: behind it, and when it is judged.
  const int64_t n = options_->every_n_steps;
  const bool by_step = n > 0 && step % n == 0 && newest_ != step;
  due_ = due_ || by_step || time_is_up();
  return wanted || (due_ && (options_->waits_for_writer || !busy()));
}

void CheckpointRun::save(bool is_best) {
  if (follows()) {
    static_cast<void>(copy_());
    return;
  }
  wait_for_writer();
  collect();
  const auto begin = Clock::now();
  Job job{.step = 0, .is_best = is_best, .states = copy_()};
  // A hook may have written the counter.
  job.step = job.states.tensors.at(kStepState).item<int64_t>();
  report_.copy_seconds += seconds_since(begin);
  due_ = false;
  last_copy_ = Clock::now();
  newest_ = job.step;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = std::move(job);
  }
  changed_.notify_all();
}

bool CheckpointRun::busy() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return job_.has_value();
}

void CheckpointRun::wait_for_writer() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!job_) return;
  const auto begin = Clock::now();
  changed_.wait(lock, [&] { return !job_; });
  report_.wait_seconds += seconds_since(begin);
}

void CheckpointRun::collect() {
  std::vector<Done> done;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    done.swap(done_);
  }
  std::optional<Error> stops;
  for (const auto& [job, error] : done) {
    if (!error) {
      ++report_.saved;
      report_.last_step = job.step;
      report_.last_file = checkpoint_path(options_->folder, job.step);
      if (job.is_best) report_.best_file = report_.last_file;
      continue;
    }
    ++report_.failed;
    if (newest_ == job.step) newest_.reset();
    if (job.is_best) best_to_retry_ = job.step;
    if (options_->on_error == OnSaveError::kStop)
      stops = error->with_site(site_);
    else if (options_->on_failure)
      options_->on_failure(*error);
    else
      log_warn(std::string(error->what()) + "; the training goes on");
  }
  if (!stops) return;
  threw_ = true;
  throw Error(*stops);
}

void CheckpointRun::finish(int64_t step) {
  if (!on()) return;
  wait_for_writer();
  collect();
  if (!decided(newest_ != step)) return;
  save(best_to_retry_ == step);
  wait_for_writer();
  collect();
}

void CheckpointRun::finish_failed(int64_t step) noexcept {
  if (!writer_.joinable() || threw_) return;
  // The others cannot confirm its states any more.
  if (group_ != nullptr && group_->size() > 1) return;
  try {
    finish(step);
  } catch (const std::exception& error) {
    warn_of_no_checkpoint(step, error.what());
  } catch (...) {
    warn_of_no_checkpoint(step, "a callback threw no std::exception");
  }
}

// ---- the writing thread

void CheckpointRun::run_writer() {
  pthread_setname_np(pthread_self(), "keel-save");
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return job_ || closing_; });
    if (!job_) return;
    // Nobody else touches the job until it is gone.
    lock.unlock();
    std::optional<Error> error = write(*job_);
    job_->states = {};
    lock.lock();
    done_.push_back({std::move(*job_), std::move(error)});
    job_.reset();
    changed_.notify_all();
  }
}

std::optional<Error> CheckpointRun::write(const Job& job) {
  const std::string path = checkpoint_path(options_->folder, job.step);
  try {
    if (!options_->allow_non_finite) require_finite(job.states.tensors, path);
    if (options_->before_write) options_->before_write(job.step);
    write_safetensors(path, job.states.tensors, job.states.metadata,
                      [this] { remove_left_behind(); });
    if (group_ != nullptr) group_->note_checkpoint(path);
    remove_old_files(job);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error({.op = path, .message = std::string("is not written: ") + error.what()});
  } catch (...) {
    return Error({.op = path, .message = "is not written: before_write threw no std::exception"});
  }
}

// They go from the last one down, once the first file of this training is on the disk and before it
// has its name: whenever the training is killed, the newest file is of this training or the one
// that it was resumed from, and a file that cannot be written costs none.
void CheckpointRun::remove_left_behind() {
  for (auto step = left_behind_.rbegin(); step != left_behind_.rend(); ++step)
    remove_file(checkpoint_path(options_->folder, *step));
  left_behind_.clear();
}

// The new file is there all the same if an old one cannot go.
void CheckpointRun::remove_old_files(const Job& job) {
  if (job.is_best) best_ = job.step;
  if (options_->keep == 0) return;
  try {
    const std::vector<CheckpointFile> files = checkpoints_in(options_->folder);
    const auto kept = static_cast<size_t>(options_->keep);
    for (size_t i = 0; i + kept < files.size(); ++i) {
      if (files[i].step != best_) remove_file(files[i].path);
    }
  } catch (const Error& error) {
    log_warn(std::string("an old checkpoint stays: ") + error.what());
  }
}

}  // namespace keel
