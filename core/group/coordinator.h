// Coordinator: where the ranks of a job meet, and what tells all of them when one is lost. A
// launcher has one, with a socket to each rank; without a launcher rank 0 has one that listens.
// It lives in a thread of its own until it is destroyed. Any thread may call it.
#ifndef KEEL_CORE_GROUP_COORDINATOR_H
#define KEEL_CORE_GROUP_COORDINATOR_H

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "keel/core/base/export.h"

namespace keel {

struct CoordinatorOptions {
  int size = 1;
  std::string job = {};               // each rank has to know it
  std::chrono::seconds patience{60};  // for all ranks to join
  // A rank that is asked says within this time where it is, if it lives; and one that takes nothing
  // of what it is sent for so long is lost.
  std::chrono::milliseconds answer_patience{1000};
  std::chrono::milliseconds send_patience{2000};
  // A rank whose socket closes before it left is lost. A launcher that waits for its processes
  // knows more than that, and says no.
  bool watches_sockets = true;
};

// It puts this, as a rank may put other keys for all, when all ranks are there.
inline constexpr const char* kAllThereKey = "all there";

class KEEL_API Coordinator {
 public:
  // `sockets`: one for each rank, in their order; it owns them.
  Coordinator(const CoordinatorOptions& options, const std::vector<int>& sockets);
  // Listens there for ranks; throws Error where it cannot.
  Coordinator(const CoordinatorOptions& options, const std::string& address, uint16_t port);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Ends the calls of all ranks with this reason; only the first one counts.
  void abort(const std::string& why);
  // Takes note that a rank's process has ended, as `how` says: unless the rank had left, that is a
  // reason to end the calls of the others. REQUIRES one that is made of sockets.
  void note_end(int rank, const std::string& how);
  // Returns the reason for which the calls of all ranks have ended; empty: there is none.
  std::string why_ended() const;

 private:
  class Table;
  std::unique_ptr<Table> table_;
};

}  // namespace keel

#endif  // KEEL_CORE_GROUP_COORDINATOR_H
