// compile: from a user's graph and a request to a Program: the passes of
// graph/runtime/pass_table.h, the sunk loop around the step where asked for, and the backend's
// compiler. Builds with KEEL_VERIFY_PASSES verify the graph after each pass. Pure; any thread, as
// long as nobody adds to the graph meanwhile.
#ifndef KEEL_GRAPH_RUNTIME_COMPILE_H
#define KEEL_GRAPH_RUNTIME_COMPILE_H

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/device/device.h"
#include "keel/core/device/element_spec.h"
#include "keel/core/resource/hash_table.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/precision/precision.h"
#include "keel/graph/runtime/compile_report.h"
#include "keel/graph/runtime/pass_table.h"

namespace keel {

// Says where a sunk program's inputs come from: fields of the queue's elements, and rows of
// resident fields ([rows, ...]) that the elements' kRowField names. The resident fields that are
// used become the program's inputs.
struct QueueSource {
  std::string name;
  ElementSpec element;
  std::vector<FieldSpec> resident = {};
  bool operator==(const QueueSource&) const = default;
};

struct CompileRequest {
  // input_types is filled in from the queue where there is one.
  SpecialiseRequest step;
  bool sink = false;
  std::optional<QueueSource> queue;
  bool data_sink = true;  // off: the host drives the loop and feeds each step
  std::vector<std::string> disabled_passes = {};  // as select_passes() takes them
  Precision precision = {};
  PlacementPolicy placement = PlacementPolicy::kFull;
  int threads = 0;  // compute threads of a launch; 0: of this thread
  std::shared_ptr<const DeviceOptions> device_options = {};
};

struct Compiled {
  std::unique_ptr<Graph> graph;  // what the backend compiled
  std::unique_ptr<Program> program;
  CompileReport report;
  // Keep the tables that the program reads in their place.
  std::vector<std::shared_ptr<const TableUse>> tables = {};
};

// A step that is to be sunk without data_sink, or that the backend declines to loop over
// (Backend::supports says no to `sunk_loop` or `dequeue`), becomes a program of one step, its
// inputs the queue's fields and its last output the stop value where no fetch is; the report says
// so. Throws Error for what the passes and the backend refuse, for passes that cannot be switched
// off, RESOURCE_SPLIT for a table that is used elsewhere (under the policy `mixed` its readers
// follow it to the host), and for an input that the queue has no field for or one of another type,
// naming both.
Compiled compile(Device device, CompileRequest request);

// Returns what a queue hands over, for a request.
QueueSource source_of(const DeviceQueue& queue);

// Returns the full names of the nodes that give the fetches of the request's step when what the
// backend lacks has been decomposed, one for each fetch. Throws Error for such a step as compile()
// does.
std::vector<std::string> names_of_fetches(Device device, CompileRequest request);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_COMPILE_H
