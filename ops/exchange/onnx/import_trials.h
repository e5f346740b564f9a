// Models that compute shapes from dimensions that the file leaves open, such as x.view(x.size(0),
// -1) of PyTorch: imported once for each of a few trial sizes, where all such arithmetic folds, and
// put together again. A reshape whose target differs in one dimension infers it; whatever else
// differs depends on the size, and the model is not imported this way. Nor is one in which a size
// that differs between trials decides anything else, be it the same in all of them
// (import_sizes.h). A dimension is not seen to be open where it is the same in all trials, such as
// that of x[1000:], of which none has any rows. Internal to the import; one thread.
#ifndef KEEL_OPS_EXCHANGE_ONNX_IMPORT_TRIALS_H
#define KEEL_OPS_EXCHANGE_ONNX_IMPORT_TRIALS_H

#include <optional>

#include "keel/ops/exchange/onnx/import.h"
#include "keel/ops/exchange/onnx/import_rules.h"

namespace keel::onnx {

// Says whether inputs that are not bound leave dimensions open.
bool has_open_dimensions(const ModelProto& model, const ImportOptions& options);
// Nothing where the trials differ in more than that. Throws what an import throws.
std::optional<ImportedModel> import_by_trials(const ModelProto& model, const ImportOptions& options,
                                              const ImportRules& rules);

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_IMPORT_TRIALS_H
