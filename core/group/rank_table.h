// RankTable: which ranks a job has and where each of them runs, as Ascend's rank table
// (version 1.0) says: servers, their devices, and the rank on each device. A plain value; any
// thread.
#ifndef KEEL_CORE_GROUP_RANK_TABLE_H
#define KEEL_CORE_GROUP_RANK_TABLE_H

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/base/export.h"

namespace keel {

// So many ranks a job has at most; more is taken for a mistake.
inline constexpr int64_t kMostRanks = int64_t{1} << 20;

struct RankDevice {
  int rank = 0;
  int device = 0;                     // its number on its server
  std::string server = {};            // server_id
  std::vector<std::string> ips = {};  // device_ip; may be empty where there is one server
};

struct RankTable {
  std::string source = {};  // the file, for messages
  std::string sha256 = {};  // of its text
  size_t servers = 0;
  std::vector<RankDevice> devices = {};  // in the order of ranks: devices[i].rank == i

  int size() const noexcept { return static_cast<int>(devices.size()); }
};

// Reads a table from its text; `source` names it in messages. Throws one Error that lists
// everything that is wrong, each with its path in the document
// ("server_list[1].device[0].rank_id").
KEEL_API RankTable parse_rank_table(std::string_view text, const std::string& source);
// The same, from a file.
KEEL_API RankTable read_rank_table(const std::string& path);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_RANK_TABLE_H
