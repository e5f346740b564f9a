// This does with updates all but making them: it finds what they are to change, skips them, makes
// one of several micro-batches, and keeps running means of the weights. All are compositions of
// ops. Building: one thread per graph.
//
//   auto states = trainable_states(loss);
//   auto gathered = accumulate_gradients(states, gradients(loss, states), 4);
//   auto train = apply_if(gathered.complete, adam(0.001).apply(states, gathered.means));
//   train += gathered.update;         // every step
//   train += attached_updates(loss);  // running statistics, too
#ifndef KEEL_OPS_NN_UPDATES_H
#define KEEL_OPS_NN_UPDATES_H

#include <cstdint>
#include <string>

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/update.h"

namespace keel {

// The trainable float states that `value` depends on, in the order they were made.
KEEL_API Values trainable_states(Operand value);
// The updates that layers attached to values under `value` (running statistics). Of several for one
// state, which is a layer that was called more than once, each goes on from the one before: it is
// computed again with that one's next value in place of the state. But what it observed
// (Graph::attach_update), the outputs of the calls before and all that these were computed from
// stay as they are, since the loss is made of them. What is attached elsewhere counts for nothing.
KEEL_API Update attached_updates(Operand value);

// The same update, applied only in steps in which `predicate` (a bool scalar of the step) is true.
// In the others every state keeps its bits, running statistics included: keel/step and random
// numbers go on, keel/updates does not, and neither do the schedules and the bias correction of the
// optimizers that made the update. Joined with others (+=) it counts a step where any of them is
// applied; one that assigns trainable states and was not made by apply_if always is. Throws Error
// for a predicate that is no bool scalar of the root graph, and for an update that has a predicate
// already.
KEEL_API Update apply_if(Operand predicate, const Update& update, CallSite site = CallSite::here());

// The gradients of several micro-batches, one a step, gathered for one update.
struct Accumulated {
  // By gradient, of f64 gradients f64, else f32: what the micro-batches of this update have summed
  // up to, divided by how many it takes. So it is their mean in the step in which `complete` is
  // true.
  Values means;
  Value loss;      // likewise, f32; invalid where none was given
  Value complete;  // bool scalar: whether this step's micro-batch is the last one
  // Bool scalar: whether all micro-batches of this update were sound so far; invalid where nothing
  // says which ones are. The means of others are of the sound ones alone, and of no use.
  Value sound;
  // The next values of the sums and of their count, which every step needs.
  Update update;
};
struct AccumulateOptions {
  // Keeps the states of two accumulations in one graph apart (two losses, the two sides of a GAN):
  // "<name>/accumulated/micro_batches", "<name>/accumulated/loss", "<state>/<name>/gradient_sum".
  // Empty: the states have the names below.
  std::string name;
  // A bool scalar of the step, such as LossScaler::finite: where it is false, the gradients and the
  // loss of this micro-batch are not added, so that the sums stay numbers. Invalid: all are added.
  Value sound = {};
};
// Keeps the sum of each gradient in a state "<state>/gradient_sum" of f32 (of f64 gradients, f64),
// and how many there are in "accumulated/micro_batches"; how many of these were not sound, where
// that is said, in "accumulated/unsound". They are saved, so a training may be stopped and resumed
// between micro-batches. Throws Error for micro_batches < 1, for gradients that are not one for
// each state, of its type (of 16-bit states also f32), for a `sound` that is no bool scalar, and
// where the graph has states of these names.
KEEL_API Accumulated accumulate_gradients(const Values& states, const Values& gradients,
                                          int64_t micro_batches,
                                          const AccumulateOptions& options = {},
                                          CallSite site = CallSite::here());
// The same with a loss, by which a schedule may go (reduce_on_plateau); its sum is the state
// "accumulated/loss".
KEEL_API Accumulated accumulate_gradients(const Values& states, const Values& gradients,
                                          Operand loss, int64_t micro_batches,
                                          const AccumulateOptions& options = {},
                                          CallSite site = CallSite::here());

// `update`, and with it the next value of a state "<state>/average" for each trainable float state
// that it assigns: average += (1 - d) * (next - average), where d = min(decay, n / (n + 9)) and n
// is how often this has been applied, whatever was trained before. So the first average is the
// first weights that it sees, and early ones are soon forgotten (the ramp of TensorFlow's
// ExponentialMovingAverage). Averages are f32, of f64 states f64. Throws Error for a decay outside
// of [0, 1), for an update without such a state or with one that has an average, and for one that
// apply_if made: average first.
KEEL_API Update average_weights(const Update& update, double decay,
                                CallSite site = CallSite::here());
// `value` computed from the averages in place of the states that have one (from the states
// themselves before the first update that is averaged): what evaluates the averaged weights. Throws
// Error where no state under `value` has an average.
KEEL_API Value with_averaged_weights(Operand value);

}  // namespace keel

#endif  // KEEL_OPS_NN_UPDATES_H
