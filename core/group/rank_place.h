// RankPlace: which of how many ranks this process is, and where the ranks of its job meet, as the
// environment says by Ascend's names. A plain value; the environment must not be changed by other
// threads meanwhile.
#ifndef KEEL_CORE_GROUP_RANK_PLACE_H
#define KEEL_CORE_GROUP_RANK_PLACE_H

#include <cstdint>
#include <optional>
#include <string>

#include "keel/core/base/export.h"
#include "keel/core/group/rank_table.h"

namespace keel {

struct RankPlace {
  int rank = 0;
  int size = 1;
  std::optional<RankTable> table = {};  // of RANK_TABLE_FILE
  // Where rank 0 listens; empty where no variable says so.
  std::string address = {};
  uint16_t port = 0;
};

// Reads RANK_ID, RANK_SIZE, RANK_TABLE_FILE, HCCL_IF_BASE_PORT and CM_*. Throws Error for values
// that are wrong in themselves and for two that do not fit (kInvalidArgument), and for a table that
// is wrong or does not fit the rest (kFailed).
KEEL_API RankPlace read_rank_place();

// Throws what read_rank_place() throws for a value of this variable that is wrong in itself.
// REQUIRES one of its variables.
void check_rank_variable(const std::string& name);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_RANK_PLACE_H
