// Readers of single messages that several files share. Internal to the reader.
#ifndef KEEL_OPS_EXCHANGE_ONNX_READ_MESSAGES_H
#define KEEL_OPS_EXCHANGE_ONNX_READ_MESSAGES_H

#include "keel/ops/exchange/onnx/read_model.h"
#include "keel/ops/exchange/onnx/read_wire.h"

namespace keel::onnx {

// Reads a TensorProto. Its raw data points into the message's bytes.
TensorProto read_tensor(WireMessage message);

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_READ_MESSAGES_H
