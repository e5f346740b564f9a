// A LoopAgreement (agreement.h) whose parties are the ranks of a group: their loops leave behind
// the same step, though each runs in a process of its own. A step in which ranks sum tells with its
// last sum whether all of them go on (step_ballot.h); where one is not sure, they vote as always.
#ifndef KEEL_CORE_GROUP_GROUP_AGREEMENT_H
#define KEEL_CORE_GROUP_GROUP_AGREEMENT_H

#include <memory>
#include <optional>

#include "keel/core/base/export.h"
#include "keel/core/group/agreement.h"
#include "keel/core/group/group.h"

namespace keel {

// All ranks make it at the same place among their other calls of the group, which it keeps; throws
// RankLost. A vote is a sum over the ranks, which tells
// them besides how long each of them has waited (Group::times). A rank that votes kFailed breaks
// the group for good: what it computed together with the others is lost to them, and their loops
// end with a RankLost that names it.
KEEL_API std::shared_ptr<LoopAgreement> make_group_agreement(std::shared_ptr<Group> group);

// Returns the group whose ranks are its parties; null for other parties, and without an agreement.
KEEL_API Group* group_of(const LoopAgreement* agreement) noexcept;
// Returns the error of a call that ended because another rank among the parties is lost, naming it;
// nothing while none is known to be, where this rank failed first, and for other parties.
KEEL_API std::optional<RankLost> loss_among(const LoopAgreement* agreement);
// Returns whether an error tells of such a loss. A device's stream hands it on as a mere Error.
KEEL_API bool tells_of_loss(const LoopAgreement* agreement, const Error& error);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_GROUP_AGREEMENT_H
