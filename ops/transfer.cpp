// transfer: a copy of a value in the other of two memories, the device's and its host's. The
// placement policy `mixed` inserts it; it has no builder, as a user has no use for it.
#include "keel/graph/ir/transfer.h"

#include <cstring>
#include <vector>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"

namespace keel {
namespace {

std::vector<Type> infer_transfer(const InferContext& c) {
  const std::string& to = c.as<TransferAttributes>().to;
  if (to != kToHost && to != kToDevice) c.fail("to", "host or device", "'" + to + "'");
  return {c.inputs[0]};
}

void reference_transfer(const ReferenceContext& c) {
  const size_t bytes = c.outputs[0].num_bytes();
  if (bytes != 0) std::memcpy(c.outputs[0].raw(), c.inputs[0].raw(), bytes);
}

Value emit_transfer(Operand x, const char* to) {
  return emit("transfer", {x}, Attributes::of(TransferAttributes{to}), CallSite::here());
}

Sample sample_transfer(SampleSource& source) {
  const char* to = source.coin() ? kToHost : kToDevice;
  return {{source.values(source.shape(0, 4))},
          [to](Graph&, const Values& in) { return Values{emit_transfer(in[0], to)}; }};
}

}  // namespace

void register_transfer(OpTable& table) {
  table.add({.name = "transfer",
             .summary = "x, copied to the memory of the host's processor or of the device",
             .input_names = {"x"},
             .attributes = &attributes_schema<TransferAttributes>(),
             .infer = infer_transfer,
             .reference = reference_transfer,
             .gradient = [](const BuildContext& c) { return Values{c.output_gradients[0]}; },
             .traits = kNoFold,
             .sample = sample_transfer});
}

}  // namespace keel
