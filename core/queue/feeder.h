// Feeder: fills a DeviceQueue from some source on its own thread. data/feed implements it; loops
// and the Trainer hold it. A feeder can be opened at a cursor and stopped at any time; destroying
// it stops it.
#ifndef KEEL_CORE_QUEUE_FEEDER_H
#define KEEL_CORE_QUEUE_FEEDER_H

#include <memory>

#include "keel/core/queue/device_queue.h"

namespace keel {

class KEEL_API Feeder {
 public:
  virtual ~Feeder();
  // Starts (or restarts, after stop) producing right behind `cursor` into a fresh queue.
  virtual void open(const Cursor& cursor) = 0;
  // Joins the thread within a second, closing the queue; idempotent.
  virtual void stop() = 0;
  // Null before the first open(), behind stop(), and where the last open() could make no queue.
  virtual const std::shared_ptr<DeviceQueue>& queue() const = 0;
  // Returns the cursor that the last open() was given.
  virtual Cursor opened_at() const { return {}; }
};

}  // namespace keel

#endif  // KEEL_CORE_QUEUE_FEEDER_H
