// dequeue: the op by which a step on the device takes the next element of a DeviceQueue. Sessions
// put it into the graphs they sink; a model itself names plain inputs. Building: one thread per
// graph.
#ifndef KEEL_OPS_QUEUE_H
#define KEEL_OPS_QUEUE_H

#include <string>
#include <vector>

#include "keel/core/device/element_spec.h"
#include "keel/graph/ir/graph.h"

namespace keel {

struct DequeueAttributes {
  std::string queue;               // the queue's name
  std::vector<std::string> names;  // of the element's fields, in the queue's order
  std::vector<Type> types;         // one for each name, all dimensions known
  static void fields(auto&& visit) {
    visit("queue", &DequeueAttributes::queue);
    visit("names", &DequeueAttributes::names);
    visit("types", &DequeueAttributes::types);
  }
};

// Returns one value for each field of the next element of the queue named `queue`. An effect: it
// happens once per step, in the order of building. Throws Error for a spec without fields, repeated
// names or unknown dimensions.
KEEL_API Values dequeue(Graph& graph, const std::string& queue, const ElementSpec& spec,
                        CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_QUEUE_H
