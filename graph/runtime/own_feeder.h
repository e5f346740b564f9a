// OwnFeeder: the feeder of one Trainer, which passes all calls on to the user's and knows whether
// its queue is still as the trainer left it: who shares a feeder with others would go on with
// elements of theirs. Owned by that trainer, on the session's thread. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_OWN_FEEDER_H
#define KEEL_GRAPH_RUNTIME_OWN_FEEDER_H

#include <cstdint>
#include <memory>

#include "keel/core/base/call_site.h"
#include "keel/core/queue/feeder.h"

namespace keel {

class OwnFeeder final : public Feeder {
 public:
  // One that is open goes on where it is.
  explicit OwnFeeder(std::shared_ptr<Feeder> feeder);

  void open(const Cursor& cursor) override;
  void stop() override { feeder_->stop(); }
  const std::shared_ptr<DeviceQueue>& queue() const override { return feeder_->queue(); }
  Cursor opened_at() const override { return feeder_->opened_at(); }

  // Returns where the feeder is: behind the last element that anybody has taken from it.
  Cursor place() const;
  // Notes which elements the trainer's own launches have taken, behind each of them.
  void note_launch() noexcept;
  // Throws Error where somebody else has opened the feeder, or taken elements, since then.
  void require_untouched(CallSite site) const;

 private:
  std::shared_ptr<Feeder> feeder_;
  // It does not hold the queue: the feeder would open the next one beside its slots.
  std::weak_ptr<const DeviceQueue> seen_;
  int64_t taken_ = 0;  // elements of that queue
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_OWN_FEEDER_H
