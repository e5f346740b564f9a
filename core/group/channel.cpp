#include "keel/core/group/channel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include "keel/core/base/json.h"
#include "keel/core/group/group.h"

namespace keel {
namespace {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress socket_address(const std::string& address, uint16_t port) {
  SocketAddress made;
  auto* four = reinterpret_cast<sockaddr_in*>(&made.storage);
  auto* six = reinterpret_cast<sockaddr_in6*>(&made.storage);
  if (inet_pton(AF_INET, address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    made.length = sizeof(sockaddr_in);
  } else if (inet_pton(AF_INET6, address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    made.length = sizeof(sockaddr_in6);
  } else {
    throw Error({.op = "'" + address + "'", .expected = "an IPv4 or IPv6 address"});
  }
  return made;
}

Descriptor make_socket(int family) {
  return Descriptor(check_call(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), "a socket"));
}

// Where nobody listens at a port of this machine, the system may choose that port for the near end,
// too, and TCP then connects the socket with itself.
bool is_connected_with_itself(int socket) {
  SocketAddress near, far;
  near.length = far.length = sizeof near.storage;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&near.storage), &near.length) == 0 &&
         getpeername(socket, reinterpret_cast<sockaddr*>(&far.storage), &far.length) == 0 &&
         near.length == far.length && std::memcmp(near.get(), far.get(), near.length) == 0;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

int check_call(int result, const std::string& what) {
  if (result != -1) return result;
  throw Error({.op = what, .message = std::generic_category().message(errno)});
}

bool wait_for(int descriptor, short events, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd entry{descriptor, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000)));
    if (ready > 0) return true;
    if (ready == -1 && errno != EINTR) check_call(ready, "poll");
    if (left.count() <= 0) return false;
  }
}

void limit_waits(int socket, int option, std::chrono::milliseconds patience) {
  timeval wait = {};
  wait.tv_sec = static_cast<time_t>(patience.count() / 1000);
  wait.tv_usec = static_cast<suseconds_t>(patience.count() % 1000 * 1000);
  check_call(setsockopt(socket, SOL_SOCKET, option, &wait, sizeof wait), "the timeout of a socket");
}

Descriptor listen_at(const std::string& address, uint16_t port) {
  const std::string what = "listening at " + address + " port " + std::to_string(port);
  const SocketAddress at = socket_address(address, port);
  Descriptor socket = make_socket(at.storage.ss_family);
  const int on = 1;
  check_call(setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), what);
  check_call(bind(socket.number(), at.get(), at.length), what);
  check_call(listen(socket.number(), SOMAXCONN), what);
  return socket;
}

uint16_t port_of(int listening) {
  SocketAddress at;
  at.length = sizeof at.storage;
  check_call(getsockname(listening, reinterpret_cast<sockaddr*>(&at.storage), &at.length),
             "the port");
  return ntohs(at.storage.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in*>(&at.storage)->sin_port
                   : reinterpret_cast<const sockaddr_in6*>(&at.storage)->sin6_port);
}

std::string address_of(int socket) {
  SocketAddress at;
  at.length = sizeof at.storage;
  check_call(getsockname(socket, reinterpret_cast<sockaddr*>(&at.storage), &at.length),
             "the address of a socket");
  char text[INET6_ADDRSTRLEN] = "";
  if (at.storage.ss_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&at.storage)->sin_addr, text,
              sizeof text);
  else if (at.storage.ss_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&at.storage)->sin6_addr, text,
              sizeof text);
  return text;
}

Descriptor connect_to(const std::string& address, uint16_t port, Deadline deadline,
                      std::chrono::milliseconds pause) {
  const SocketAddress to = socket_address(address, port);
  while (true) {
    Descriptor socket = make_socket(to.storage.ss_family);
    fcntl(socket.number(), F_SETFL, O_NONBLOCK);
    int status = connect(socket.number(), to.get(), to.length) == 0 ? 0 : errno;
    if (status == EINPROGRESS) {
      status = ETIMEDOUT;
      socklen_t length = sizeof status;
      if (wait_for(socket.number(), POLLOUT, deadline))
        getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &status, &length);
    }
    if (status == 0 && is_connected_with_itself(socket.number())) status = ECONNREFUSED;
    if (status == 0) {
      fcntl(socket.number(), F_SETFL, 0);
      const int on = 1;
      setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return socket;
    }
    if (std::chrono::steady_clock::now() >= deadline)
      throw RankLost({.op = "HCCL_CONNECT_TIMEOUT",
                      .message = "nobody answers at " + address + " port " + std::to_string(port) +
                                 ": " + std::generic_category().message(status)});
    // Before the pause, lest a connection with itself keeps the port from who wants to listen
    // there.
    socket = Descriptor();
    std::this_thread::sleep_for(pause);
  }
}

Channel::Channel(Descriptor socket, std::chrono::milliseconds patience)
    : socket_(std::move(socket)) {
  limit_waits(socket_.number(), SO_SNDTIMEO, patience);
}

bool Channel::send(const Json& message) noexcept {
  try {
    const std::string line = write_json(message) + "\n";
    const std::lock_guard<std::mutex> lock(sending_);
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t count =
          ::send(socket_.number(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (count == -1 && errno == EINTR) continue;
      if (count == -1 && errno == EAGAIN) stalled_.store(true);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool Channel::take_in() noexcept {
  char bytes[4096];
  const ssize_t count = recv(socket_.number(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (count == -1) return errno == EAGAIN || errno == EINTR;
  received_.append(bytes, static_cast<size_t>(count));
  return count > 0 && received_.size() <= kLongestLine;
}

std::optional<Json> Channel::next() {
  const size_t end = received_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return parse_json(line, "message");
}

void Channel::shut() noexcept { shutdown(socket_.number(), SHUT_RDWR); }

}  // namespace keel
