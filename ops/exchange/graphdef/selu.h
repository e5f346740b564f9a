// The constants of the activation Selu; its rule and that of its gradient share them. Internal to
// the import; any thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_SELU_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_SELU_H

namespace keel::graphdef {

// Klambauer et al., Self-Normalizing Neural Networks, 2017.
inline constexpr double kSeluScale = 1.0507009873554804934193349852946;
inline constexpr double kSeluAlpha = 1.6732632423543772848170429916717;

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_SELU_H
