// DeviceCached: items of a Dataset that a device keeps. A feeder sends the numbers of their rows
// there instead of the items. Internal to data.
#ifndef KEEL_DATA_PIPELINE_DEVICE_CACHE_H
#define KEEL_DATA_PIPELINE_DEVICE_CACHE_H

#include <optional>
#include <vector>

#include "keel/core/queue/device_queue.h"
#include "keel/data/pipeline/dataset.h"

namespace keel {

struct DeviceCached {
  Device device;
  std::vector<ResidentField> resident;  // of each field of the items
  // The same pipeline over rows: field kRowField (and mask, where batches are padded). It and the
  // pipeline over items take each other's cursors. These are equal but for the end of a pass over
  // an unknown number of items, which are counted here: it is the beginning of the next pass.
  Dataset rows;
};

// Nothing where no stage of the chain is a cache on a device. Uploads the items where that has not
// been done. Throws Error where memory is short there, and where a stage behind the cache would
// look at the items.
std::optional<DeviceCached> find_device_cache(const std::shared_ptr<const Stage>& stage);

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_DEVICE_CACHE_H
