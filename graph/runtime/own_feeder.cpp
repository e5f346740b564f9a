#include "keel/graph/runtime/own_feeder.h"

#include <optional>
#include <string>
#include <utility>

#include "keel/core/base/error.h"

namespace keel {

OwnFeeder::OwnFeeder(std::shared_ptr<Feeder> feeder) : feeder_(std::move(feeder)) { note_launch(); }

void OwnFeeder::open(const Cursor& cursor) {
  feeder_->open(cursor);
  note_launch();
}

Cursor OwnFeeder::place() const {
  std::optional<Cursor> taken;
  if (const std::shared_ptr<DeviceQueue>& now = feeder_->queue()) taken = now->last_cursor();
  return taken ? *taken : feeder_->opened_at();
}

void OwnFeeder::note_launch() noexcept {
  const std::shared_ptr<DeviceQueue>& now = feeder_->queue();
  seen_ = now;
  taken_ = now == nullptr ? 0 : now->counters().dequeued;
}

void OwnFeeder::require_untouched(CallSite site) const {
  const std::shared_ptr<DeviceQueue>& now = feeder_->queue();
  if (now == nullptr) return;  // Stopped: the loop says so.
  const bool reopened = seen_.lock() != now;
  if (!reopened && now->counters().dequeued == taken_) return;
  throw Error({.op = "fit",
               .argument = "source",
               .expected = "the feeder as this trainer left it",
               .got = std::string("one that somebody else has ") +
                      (reopened ? "opened" : "taken elements from"),
               .fix = "give each Trainer, Evaluator and Loop a feeder of its own; "
                      "TrainOptions::resume_from moves a training in its data",
               .site = site});
}

}  // namespace keel
