// SocketSum: sums of floats over ranks, each of which has a connected socket to each other one. A
// message carries the number of its collective and which sum it belongs to, so that ranks that are
// at different sums find out before they use any value, and a vote, so that ranks agree by the
// same messages. Both ends of a socket send while they receive: neither waits for ever for the
// other one to read, however small the system's buffers are. Does not own the sockets. One thread.
#ifndef KEEL_CORE_GROUP_SOCKET_SUM_H
#define KEEL_CORE_GROUP_SOCKET_SUM_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/group/sum_place.h"

namespace keel {

class SocketSum {
 public:
  // `sockets`: by rank, in blocking mode; that of this rank is not looked at. `patience`: how long
  // a wait for another rank lasts. Throws Error where a socket takes no such limit.
  SocketSum(int rank, std::vector<int> sockets, std::chrono::milliseconds patience);

  // Replaces each element by its sum over the ranks, with the same bits on all of them: a balanced
  // tree where the number of ranks is a power of two. Returns the largest vote. Allocates nothing.
  // Throws SumsDiffer, and Error where another rank is gone or silent.
  uint8_t run(const SumPlace& place, float* values, size_t count, uint8_t vote);
  // Returns when, in the last run, the ranks that this one hears of were all there: when the last
  // message of the first block came.
  std::chrono::steady_clock::time_point met() const noexcept { return met_; }

 private:
  // Begins each message.
  struct Head {
    SumPlace place;
    int32_t block = 0;
    int32_t vote = 0;
  };
  struct Range {
    size_t begin = 0;
    size_t count = 0;
  };
  class Transfer;

  void sum_block(Head& head, float* values, size_t count);
  void sum_whole(Head& head, float* values, size_t count);
  void sum_by_halves(Head& head, float* values, size_t count);
  void send(int other, const Head& head, const float* values, size_t count);
  void receive(int other, Head& head, float* values, size_t count);
  void exchange(int other, Head& head, const float* own, size_t own_count, float* others,
                size_t others_count);
  void move(int other, Transfer& out, Transfer& in, Head& head, const Head& received);
  void check(int other, Head& head, const Head& received);
  bool send_some(int other, Transfer& out) const;
  bool receive_some(int other, Transfer& in, bool waits) const;
  void wait(int other, const Transfer& out, const Transfer& in) const;

  const int rank_;
  const int size_;
  int tree_size_;  // the largest power of two that is no more than `size_`
  const std::vector<int> sockets_;
  const std::chrono::milliseconds patience_;
  std::vector<float> received_;  // a block of another rank's
  std::chrono::steady_clock::time_point met_ = {};
};

}  // namespace keel

#endif  // KEEL_CORE_GROUP_SOCKET_SUM_H
