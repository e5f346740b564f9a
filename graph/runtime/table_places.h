// Where the tables of a compiled step are (core/resource/hash_table.h), and that all users of one
// share its place. Pure functions but for the uses that they take out; any thread.
#ifndef KEEL_GRAPH_RUNTIME_TABLE_PLACES_H
#define KEEL_GRAPH_RUNTIME_TABLE_PLACES_H

#include <memory>
#include <string>
#include <vector>

#include "keel/core/device/device.h"
#include "keel/core/resource/hash_table.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/placement.h"

namespace keel {

// Returns where a device keeps what it reads: kHostPlace where its memory is the host's, else the
// name of its backend.
std::string place_of(const Device& device);

// Says no for a node whose table is used on the host, where the device's place is another.
Support supports_table(const Node& node, const std::string& place);

// Takes out a use of each table that the graph reads. Under the policy `mixed` those that are read
// on the device are left alone: what is immutable may have a copy there. Throws Error
// RESOURCE_SPLIT.
std::vector<std::shared_ptr<const TableUse>> use_tables(const Graph& graph,
                                                        const std::string& place,
                                                        PlacementPolicy policy);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_TABLE_PLACES_H
