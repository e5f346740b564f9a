// Channel: a stream socket to one other process, through which lines of JSON go both ways. Owns the
// descriptor. One thread may receive while another one sends.
#ifndef KEEL_CORE_GROUP_CHANNEL_H
#define KEEL_CORE_GROUP_CHANNEL_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json_fwd.hpp>

namespace keel {

// An open file descriptor, closed when this is destroyed. One thread at a time.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) noexcept : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  int number() const noexcept { return number_; }
  bool open() const noexcept { return number_ >= 0; }

 private:
  int number_;
};

using Deadline = std::chrono::steady_clock::time_point;

// Throws Error with errno's text where `result` is -1; returns it elsewhere.
int check_call(int result, const std::string& what);

// Waits until the descriptor can be read from (or `events`); false once the deadline has passed.
bool wait_for(int descriptor, short events, Deadline deadline);

// Bounds how long a call on the socket waits: SO_SNDTIMEO or SO_RCVTIMEO.
void limit_waits(int socket, int option, std::chrono::milliseconds patience);

// A socket that listens at the address (IPv4 or IPv6); port 0 lets the system choose one.
Descriptor listen_at(const std::string& address, uint16_t port);
uint16_t port_of(int listening);
// Returns the address of this machine that a connected socket has; "" where it is no IP socket.
std::string address_of(int socket);
// Connects, again and again while nobody listens there, with a pause between two attempts. Throws
// RankLost at the deadline.
Descriptor connect_to(const std::string& address, uint16_t port, Deadline deadline,
                      std::chrono::milliseconds pause = std::chrono::milliseconds(20));

class Channel {
 public:
  static constexpr size_t kLongestLine = size_t{1} << 22;

  // `patience`: how long a send waits for the other side to take what it has been sent before.
  explicit Channel(Descriptor socket,
                   std::chrono::milliseconds patience = std::chrono::milliseconds(2000));

  int number() const noexcept { return socket_.number(); }
  // Returns false where the other side is gone or takes nothing; what it gets may have no end then.
  bool send(const nlohmann::json& message) noexcept;
  // Returns whether a send has waited in vain. Any thread.
  bool stalled() const noexcept { return stalled_.load(); }
  // Takes what has come, without waiting; false where the other side is gone or sent what is no
  // line of JSON.
  bool take_in() noexcept;
  // Returns the next message of what was taken in; throws Error for what is no JSON.
  std::optional<nlohmann::json> next();
  // Wakes whoever waits for it, on both sides.
  void shut() noexcept;

 private:
  Descriptor socket_;
  std::mutex sending_;
  std::atomic<bool> stalled_{false};
  std::string received_;
};

}  // namespace keel

#endif  // KEEL_CORE_GROUP_CHANNEL_H
