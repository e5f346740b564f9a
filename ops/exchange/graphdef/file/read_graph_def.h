// Reads TensorFlow graphs: a GraphDef (.pb), the graph of a MetaGraphDef (.meta), and the text form
// of both (.pbtxt, or a .meta that is text). Nothing is taken on trust: every field is checked
// against the bytes that are there, and memory is bounded by the read budget
// (core/base/read_budget.h). Functions of the library become bodies; what their nodes call
// "node:output:1" is "node:1" there. Plain functions; any thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_READ_GRAPH_DEF_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_READ_GRAPH_DEF_H

#include <string>

#include "keel/core/base/export.h"
#include "keel/ops/exchange/graphdef/file/graph_def.h"

namespace keel::graphdef {

enum class FileKind { kGraph, kMetaGraph };

// Goes by the name's ending: ".meta" is a MetaGraphDef, any other a GraphDef. Whether it is text is
// seen. Throws Error naming the file and the place for a file that cannot be read, is none or is
// damaged.
KEEL_API GraphDef read_graph_def(const std::string& path);
KEEL_API GraphDef parse_graph_def(std::string bytes, const std::string& source_name, FileKind kind);

// Says whether a path ends like that of a TensorFlow graph: .pb, .pbtxt, .meta.
KEEL_API bool is_graph_def_path(const std::string& path);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_FILE_READ_GRAPH_DEF_H
