#include "keel/core/group/socket_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <poll.h>
#include <system_error>
#include <utility>

#include <sys/socket.h>

#include "keel/core/group/channel.h"

namespace keel {
namespace {

// A rank that waits looks so often at the time.
constexpr std::chrono::milliseconds kTimeGlance{20};
// A block stays in the caches while it is summed.
constexpr size_t kSocketBlockElements = (size_t{256} << 10) / sizeof(float);
// Blocks of up to so many elements travel whole in each round: that takes more bytes, but half as
// many rounds as to sum them by halves and gather those. Between two ranks it takes no more bytes.
constexpr size_t kWholeElements = (size_t{32} << 10) / sizeof(float);

[[noreturn]] void fail(int other, const std::string& how) {
  throw Error({.message = "rank " + std::to_string(other) + " " + how});
}

}  // namespace

// A message in one direction, as far as it has not been moved yet.
class SocketSum::Transfer {
 public:
  Transfer() = default;
  Transfer(Head& head, float* values, size_t count)
      : parts_{{{&head, sizeof head}, {values, count * sizeof(float)}}},
        left_(sizeof head + count * sizeof(float)) {}
  bool done() const noexcept { return left_ == 0; }
  bool has_head() const noexcept { return parts_[0].iov_len == 0; }
  msghdr rest() noexcept {
    const size_t first = has_head() ? 1 : 0;
    msghdr message = {};
    message.msg_iov = &parts_[first];
    message.msg_iovlen = parts_.size() - first;
    return message;
  }
  void advance(size_t bytes) noexcept {
    left_ -= bytes;
    for (iovec& part : parts_) {
      const size_t moved = std::min(bytes, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + moved;
      part.iov_len -= moved;
      bytes -= moved;
    }
  }

 private:
  std::array<iovec, 2> parts_ = {};
  size_t left_ = 0;
};

SocketSum::SocketSum(int rank, std::vector<int> sockets, std::chrono::milliseconds patience)
    : rank_(rank),
      size_(static_cast<int>(sockets.size())),
      tree_size_(static_cast<int>(std::bit_floor(sockets.size()))),
      sockets_(std::move(sockets)),
      patience_(patience),
      received_(kSocketBlockElements) {
  for (int other = 0; other < size_; ++other) {
    if (other != rank_) limit_waits(sockets_[static_cast<size_t>(other)], SO_RCVTIMEO, patience);
  }
}

uint8_t SocketSum::run(const SumPlace& place, float* values, size_t count, uint8_t vote) {
  Head head{.place = place, .vote = vote};
  size_t from = 0;
  // The vote travels with the first block, which may be empty.
  do {
    const size_t length = std::min(kSocketBlockElements, count - from);
    sum_block(head, values + from, length);
    from += length;
    ++head.block;
  } while (from < count);
  return static_cast<uint8_t>(head.vote);
}

// The ranks beyond the largest power of two give their values to one of the others, and get the
// sums from it.
void SocketSum::sum_block(Head& head, float* values, size_t count) {
  if (rank_ >= tree_size_) {
    send(rank_ - tree_size_, head, values, count);
    receive(rank_ - tree_size_, head, values, count);
    return;
  }
  const int partner = rank_ + tree_size_;
  if (partner < size_) {
    receive(partner, head, received_.data(), count);
    add_values(values, received_.data(), values, count);
  }
  if (tree_size_ == 2 || count <= kWholeElements) {
    sum_whole(head, values, count);
  } else {
    sum_by_halves(head, values, count);
  }
  if (partner < size_) send(partner, head, values, count);
}

void SocketSum::sum_whole(Head& head, float* values, size_t count) {
  for (int distance = 1; distance < tree_size_; distance *= 2) {
    const int other = rank_ ^ distance;
    exchange(other, head, values, count, received_.data(), count);
    if (rank_ < other)
      add_values(values, received_.data(), values, count);
    else
      add_values(received_.data(), values, values, count);
  }
}

// Each round halves the range that a rank sums; then the ranges are gathered the other way round.
void SocketSum::sum_by_halves(Head& head, float* values, size_t count) {
  std::array<Range, 32> others = {};
  Range own{0, count};
  size_t round = 0;
  for (int distance = 1; distance < tree_size_; distance *= 2) {
    const int other = rank_ ^ distance;
    Range& theirs = others[round++];
    const Range first{own.begin, own.count / 2};
    const Range second{own.begin + first.count, own.count - first.count};
    own = rank_ < other ? first : second;
    theirs = rank_ < other ? second : first;
    float* sums = values + own.begin;
    exchange(other, head, values + theirs.begin, theirs.count, received_.data(), own.count);
    if (rank_ < other)
      add_values(sums, received_.data(), sums, own.count);
    else
      add_values(received_.data(), sums, sums, own.count);
  }
  for (int distance = tree_size_ / 2; distance > 0; distance /= 2) {
    const Range& theirs = others[--round];
    exchange(rank_ ^ distance, head, values + own.begin, own.count, values + theirs.begin,
             theirs.count);
    own = {std::min(own.begin, theirs.begin), own.count + theirs.count};
  }
}

void SocketSum::send(int other, const Head& head, const float* values, size_t count) {
  Head own = head;
  Transfer out(own, const_cast<float*>(values), count);
  Transfer none;
  move(other, out, none, own, own);
}

void SocketSum::receive(int other, Head& head, float* values, size_t count) {
  Head received;
  Transfer none;
  Transfer in(received, values, count);
  move(other, none, in, head, received);
}

void SocketSum::exchange(int other, Head& head, const float* own, size_t own_count, float* others,
                         size_t others_count) {
  Head sent = head, received;
  Transfer out(sent, const_cast<float*>(own), own_count);
  Transfer in(received, others, others_count);
  move(other, out, in, head, received);
}

void SocketSum::move(int other, Transfer& out, Transfer& in, Head& head, const Head& received) {
  bool checked = in.done();
  while (!out.done() || !in.done()) {
    bool moved = !out.done() && send_some(other, out);
    if (!in.done() && receive_some(other, in, /*waits=*/out.done())) moved = true;
    if (!checked && in.has_head()) {
      check(other, head, received);
      checked = true;
    }
    if (!moved) wait(other, out, in);
  }
}

// Before any more of the message is waited for: another sum's may be shorter.
void SocketSum::check(int other, Head& head, const Head& received) {
  if (received.place != head.place || received.block != head.block)
    throw SumsDiffer(other, received.place);
  head.vote = std::max(head.vote, received.vote);
  if (head.block == 0) met_ = std::chrono::steady_clock::now();
}

bool SocketSum::send_some(int other, Transfer& out) const {
  const msghdr message = out.rest();
  const ssize_t count =
      sendmsg(sockets_[static_cast<size_t>(other)], &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count >= 0) out.advance(static_cast<size_t>(count));
  if (count >= 0 || errno == EINTR) return true;
  if (errno == EAGAIN) return false;
  fail(other, "takes nothing: " + std::generic_category().message(errno));
}

bool SocketSum::receive_some(int other, Transfer& in, bool waits) const {
  msghdr message = in.rest();
  const ssize_t count =
      recvmsg(sockets_[static_cast<size_t>(other)], &message, waits ? 0 : MSG_DONTWAIT);
  if (count == 0) fail(other, "has closed its connection");
  if (count > 0) in.advance(static_cast<size_t>(count));
  if (count > 0 || errno == EINTR) return true;
  if (errno == EAGAIN && !waits) return false;
  if (errno == EAGAIN) fail_silent(other, "sends", patience_);
  fail(other, "sends nothing: " + std::generic_category().message(errno));
}

void SocketSum::wait(int other, const Transfer& out, const Transfer& in) const {
  const auto events = static_cast<short>((out.done() ? 0 : POLLOUT) | (in.done() ? 0 : POLLIN));
  WaitLimit limit(patience_);
  while (!wait_for(sockets_[static_cast<size_t>(other)], events,
                   std::chrono::steady_clock::now() + kTimeGlance)) {
    if (limit.over()) fail_silent(other, in.done() ? "takes" : "sends", patience_);
  }
}

}  // namespace keel
