// The value of `--inputs NAME:SHAPE,...`: which values of a TensorFlow graph are given from
// outside, and of which shapes. Plain function.
#ifndef KEEL_EXAMPLES_CLI_ONNX_GRAPH_INPUTS_H
#define KEEL_EXAMPLES_CLI_ONNX_GRAPH_INPUTS_H

#include <string>
#include <vector>

#include <keel/ops/exchange/graphdef/import.h>

namespace keel_cli {

// "X:[-1,784],y:[-1],keep_prob:[]", or "X:-1x784,y:-1"; without a shape the graph's own stays. A
// dimension of -1 is not known. Throws keel::Error naming the flag.
std::vector<keel::graphdef::GivenInput> graph_inputs(const std::string& flag,
                                                     const std::string& text);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_ONNX_GRAPH_INPUTS_H
