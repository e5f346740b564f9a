// Joining a group of processes: the ranks meet at a coordinator (coordinator.h), which is their
// launcher's or rank 0's, connect with each other, and watch for its word that one of them is lost.
#ifndef KEEL_CORE_GROUP_JOIN_GROUP_H
#define KEEL_CORE_GROUP_JOIN_GROUP_H

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "keel/core/base/export.h"
#include "keel/core/group/group.h"
#include "keel/core/group/rank_place.h"
#include "keel/core/group/rank_progress.h"

namespace keel {

struct JoinOptions {
  int rank = 0;
  int size = 1;
  std::string job = {};  // all ranks say the same
  // Where this rank listens for the others; empty: where its connection to the coordinator begins.
  std::string own_address = "127.0.0.1";
  // The coordinator: a connected socket, which the group owns then; or, with -1, rank 0's at the
  // address, which the group of rank 0 makes.
  int coordinator_socket = -1;
  std::string address = {};
  uint16_t port = 0;
  std::chrono::seconds connect_patience{60};
  std::chrono::milliseconds patience{60000};  // of each wait in a collective
  bool shares_memory = true;                  // sums, where all ranks can and have this set
  RankProgress* progress = nullptr;           // outlives the group; null: nobody looks
  // Who says own_address and address, for messages.
  std::string address_said_by = "ranks";
  std::string meeting_said_by = "ranks";
};

// How long ranks wait for one another: until all have joined, and in each wait afterwards.
struct RankPatience {
  std::chrono::seconds connect{60};
  std::chrono::seconds execute{60};
};
// Reads HCCL_CONNECT_TIMEOUT and HCCL_EXEC_TIMEOUT. Throws Error (kInvalidArgument) for what is no
// number of seconds from 1 to 7200.
KEEL_API RankPatience read_rank_patience();

// Reads from the environment where this process's group meets: its launcher's variables, or
// `place`'s address; KEEL_RANK_TRANSPORT, HCCL_CONNECT_TIMEOUT, HCCL_EXEC_TIMEOUT and JOB_ID,
// without which the rank table or the address and the size are the name of the job. Throws Error
// where more than one rank is asked for and nothing says where they meet.
KEEL_API JoinOptions read_join_options(const RankPlace& place);

// Waits for all ranks. A group of one needs neither Gloo nor sockets. The process has to ignore
// SIGPIPE, or a rank that dies takes the others along before they can say why. Throws RankLost
// where a rank does not come, Error where this build has no Gloo or this rank cannot listen at
// `own_address`, or as rank 0 at `address`.
KEEL_API std::shared_ptr<Group> join_group(const JoinOptions& options);

// Returns whether this process belongs to a group of several that it joined and still has.
KEEL_API bool has_joined_group() noexcept;

// How a launcher tells its processes where they meet: a socket's and a shared page's numbers.
inline constexpr const char* kRankSocketVariable = "KEEL_RANK_SOCKET";
inline constexpr const char* kRankPageVariable = "KEEL_RANK_PAGE";

}  // namespace keel

#endif  // KEEL_CORE_GROUP_JOIN_GROUP_H
