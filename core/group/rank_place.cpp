#include "keel/core/group/rank_place.h"

#include <utility>

#include <arpa/inet.h>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"

namespace keel {
namespace {

constexpr int64_t kLowestPort = 1024;
constexpr int64_t kHighestPort = 65535;
// Systems choose the near ends of connections above this one (from 32768 on), where a port may be
// taken at any time.
constexpr uint16_t kUsualPort = 29600;

struct Cluster {
  std::optional<std::string> chief_ip;
  std::optional<int64_t> chief_port;
  std::optional<int64_t> size;
  std::string first_set;  // a variable of these that is set; "" where none is
};

void check_ip(const std::string& variable) {
  const std::string ip = environment_text(variable).value_or("");
  unsigned char address[sizeof(in6_addr)];
  if (inet_pton(AF_INET, ip.c_str(), address) == 1 || inet_pton(AF_INET6, ip.c_str(), address) == 1)
    return;
  throw Error({.op = variable,
               .expected = "an IPv4 or IPv6 address",
               .got = "'" + ip + "'",
               .kind = ErrorKind::kInvalidArgument});
}

// Says what each of the variables that hold an integer may be.
struct IntegerVariable {
  const char* name;
  int64_t least;
  int64_t most;
};
constexpr IntegerVariable kIntegers[] = {
    {"RANK_ID", 0, kMostRanks - 1},
    {"RANK_SIZE", 1, kMostRanks},
    {"HCCL_IF_BASE_PORT", kLowestPort, kHighestPort},
    {"CM_CHIEF_PORT", kLowestPort, kHighestPort},
    {"CM_CHIEF_DEVICE", 0, kMostRanks - 1},
    {"CM_WORKER_SIZE", 1, kMostRanks},
};

std::optional<int64_t> read_integer(const std::string& name) {
  for (const IntegerVariable& variable : kIntegers)
    if (name == variable.name) return environment_integer(name, variable.least, variable.most);
  return std::nullopt;
}

Cluster read_cluster() {
  Cluster cluster;
  for (const char* variable :
       {"CM_CHIEF_IP", "CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_SIZE", "CM_WORKER_IP"}) {
    check_rank_variable(variable);
    if (cluster.first_set.empty() && environment_text(variable)) cluster.first_set = variable;
  }
  cluster.chief_ip = environment_text("CM_CHIEF_IP");
  cluster.chief_port = read_integer("CM_CHIEF_PORT");
  cluster.size = read_integer("CM_WORKER_SIZE");
  return cluster;
}

[[noreturn]] void conflict(const std::string& variable, const std::string& expected,
                           const std::string& got, const std::string& fix, ErrorKind kind) {
  throw Error({.op = variable, .expected = expected, .got = got, .fix = fix, .kind = kind});
}

// Two variables, or a variable and the table, have to say the same number of ranks.
void check_size(std::optional<int64_t> said, int64_t other, const std::string& others_name,
                ErrorKind kind) {
  if (said && *said != other)
    conflict("RANK_SIZE", std::to_string(other) + ", as " + others_name + " says",
             std::to_string(*said), "make them agree, or unset RANK_SIZE", kind);
}

int place_rank(std::optional<int64_t> rank, int size, const std::string& size_from,
               ErrorKind kind) {
  if (!rank && size > 1)
    conflict("RANK_ID",
             "0 to " + std::to_string(size - 1) + ", since " + size_from + " says " +
                 std::to_string(size) + " ranks",
             "none", "each process has one of its own", ErrorKind::kInvalidArgument);
  if (rank && *rank >= size)
    conflict("RANK_ID",
             size == 1 ? "0, since " + size_from + " says one rank"
                       : "0 to " + std::to_string(size - 1) + ", since " + size_from + " says " +
                             std::to_string(size) + " ranks",
             std::to_string(*rank), "", kind);
  return static_cast<int>(rank.value_or(0));
}

void place_by_table(RankPlace& place, const std::string& file, std::optional<int64_t> rank,
                    std::optional<int64_t> size, std::optional<int64_t> port) {
  RankTable table = read_rank_table(file);
  place.size = table.size();
  check_size(size, place.size, table.source, ErrorKind::kFailed);
  place.rank = place_rank(rank, place.size, table.source, ErrorKind::kFailed);
  if (place.size > 1) {
    const RankDevice& first = table.devices.front();
    place.address = first.ips.empty() ? "127.0.0.1" : first.ips.front();
    place.port = static_cast<uint16_t>(port.value_or(kUsualPort));
  }
  place.table = std::move(table);
}

void place_by_cluster(RankPlace& place, const Cluster& cluster, std::optional<int64_t> rank,
                      std::optional<int64_t> size) {
  const auto require = [&](bool given, const char* variable) {
    if (!given)
      conflict(variable, "a value, since " + cluster.first_set + " is set", "none",
               "set it, or unset all of CM_*", ErrorKind::kInvalidArgument);
  };
  require(cluster.size.has_value(), "CM_WORKER_SIZE");
  check_size(size, *cluster.size, "CM_WORKER_SIZE", ErrorKind::kInvalidArgument);
  place.size = static_cast<int>(*cluster.size);
  place.rank = place_rank(rank, place.size, "CM_WORKER_SIZE", ErrorKind::kInvalidArgument);
  if (place.size == 1) return;
  require(cluster.chief_ip.has_value(), "CM_CHIEF_IP");
  require(cluster.chief_port.has_value(), "CM_CHIEF_PORT");
  place.address = *cluster.chief_ip;
  place.port = static_cast<uint16_t>(*cluster.chief_port);
}

}  // namespace

void check_rank_variable(const std::string& name) {
  const auto text = environment_text(name);
  if (!text) return;
  if (name == "CM_CHIEF_IP" || name == "CM_WORKER_IP")
    check_ip(name);
  else if (name == "RANK_TABLE_FILE")
    static_cast<void>(read_rank_table(*text));
  else
    static_cast<void>(read_integer(name));
}

RankPlace read_rank_place() {
  const auto rank = read_integer("RANK_ID");
  const auto size = read_integer("RANK_SIZE");
  const auto port = read_integer("HCCL_IF_BASE_PORT");
  const auto file = environment_text("RANK_TABLE_FILE");
  const Cluster cluster = read_cluster();
  if (file && !cluster.first_set.empty())
    conflict(cluster.first_set, "none, since RANK_TABLE_FILE is set",
             "'" + environment_text(cluster.first_set).value_or("") + "'",
             "a job is told of its ranks by a table or by CM_*, not by both",
             ErrorKind::kInvalidArgument);
  RankPlace place;
  if (file) {
    place_by_table(place, *file, rank, size, port);
  } else if (!cluster.first_set.empty()) {
    place_by_cluster(place, cluster, rank, size);
  } else {
    place.size = static_cast<int>(size.value_or(1));
    place.rank = place_rank(rank, place.size, size ? "RANK_SIZE" : "RANK_SIZE, which is not set,",
                            ErrorKind::kInvalidArgument);
  }
  return place;
}

}  // namespace keel
