#include "keel/core/group/rank_table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <arpa/inet.h>
#include <nlohmann/json.hpp>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/function_ref.h"
#include "keel/core/base/json.h"
#include "keel/core/base/sha256.h"

namespace keel {
namespace {

constexpr uint64_t kMostBytes = uint64_t{16} << 20;
constexpr int kDevicesOfServer = 8;
constexpr int kDevicesOfRing = 4;
constexpr size_t kLongestServerId = 64;
// More are not told, nor looked for: a file of another kind may have one in every element.
constexpr size_t kMostViolations = 100;

// Finds the first comment outside of strings, as "line 3"; "" where there is none.
std::string first_comment(std::string_view text) {
  bool in_string = false;
  size_t line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ++line;
    if (in_string) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        in_string = false;
      continue;
    }
    if (text[i] == '"') in_string = true;
    if (text[i] == '/' && i + 1 < text.size() && (text[i + 1] == '/' || text[i + 1] == '*'))
      return "line " + std::to_string(line);
  }
  return "";
}

Json parse(std::string_view text, const std::string& source) {
  try {
    return parse_json(text, source);
  } catch (const Error& error) {
    const std::string comment = first_comment(text);
    if (comment.empty()) throw;
    ErrorInfo info = error.info();
    info.fix =
        "JSON has no comments: remove those of the table, of which the first is in " + comment;
    throw Error(std::move(info));
  }
}

// Without a source the name of a view begins with ": ", and that of the document itself is empty.
std::string without_source(const std::string& name) {
  return name.rfind(": ", 0) == 0 ? name.substr(2) : name;
}
std::string path_of(const JsonView& view) { return without_source(view.where()); }

// Reads one document and remembers all that is wrong with it.
class Reader {
 public:
  explicit Reader(const std::string& source) { table_.source = source; }

  RankTable read(const Json& document) {
    check([&] { read_table(JsonView(document, "")); });
    if (!has_enough()) check_ranks();
    if (!violations_.empty()) refuse();
    sort_by_rank();
    return std::move(table_);
  }

 private:
  struct Place {
    int64_t rank;
    size_t server;
    std::string path;
  };

  // Runs one check; what it throws is one more violation.
  void check(FunctionRef<void()> part) {
    try {
      part();
    } catch (const Error& error) {
      if (!has_enough()) violations_.push_back(without_source(error.what()));
    }
  }
  void complain(const std::string& path, const std::string& message) {
    if (!has_enough()) violations_.push_back(path + ": " + message);
  }
  // There is one more than is told, as a sign that there are more.
  bool has_enough() const { return violations_.size() > kMostViolations; }

  // Each member of something else would be told to be missing.
  static void require_object(const JsonView& view) {
    if (!view.json().is_object()) throw view.error("an object");
  }

  void read_table(const JsonView& root) {
    require_object(root);
    check([&] { root.require_only({"status", "version", "server_count", "server_list"}); });
    check([&] { read_status(root["status"]); });
    check([&] {
      if (root["version"].text() != "1.0") throw root["version"].error("\"1.0\"");
    });
    check([&] { read_servers(root["server_list"]); });
    check([&] { read_server_count(root); });
  }

  static void read_status(const JsonView& status) {
    if (status.text() == "initializing")
      throw Error({.op = status.where(),
                   .expected = "\"completed\"",
                   .got = "\"initializing\"",
                   .fix = "wait until whoever writes the table is done"});
    if (status.text() != "completed") throw status.error("\"completed\"");
  }

  // Numbers of a rank table are strings of digits.
  static int64_t digits(const JsonView& view, int64_t most) {
    const std::string expected = "a string of digits, \"0\" to \"" + std::to_string(most) + "\"";
    if (!view.json().is_string()) throw view.error(expected);
    const std::string& text = view.text();
    const bool all_digits = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
      return c >= '0' && c <= '9';
    });
    if (!all_digits) throw view.error(expected);
    try {
      return parse_integer(text, view.where(), 0, most);
    } catch (const Error&) {
      throw view.error(expected);
    }
  }

  void read_server_count(const JsonView& root) {
    const auto count = root.find("server_count");
    if (!count) return;
    const int64_t said = digits(*count, kMostRanks);
    const auto list = root.find("server_list");
    if (!list || !list->json().is_array() || said == static_cast<int64_t>(list->size())) return;
    throw count->error("\"" + std::to_string(list->size()) + "\", as many as server_list has");
  }

  void read_servers(const JsonView& list) {
    table_.servers = list.size();
    if (table_.servers == 0) throw list.error("a server or more");
    for (size_t i = 0; i < table_.servers && !has_enough(); ++i) {
      check([&] { read_server(list[i], i); });
    }
  }

  void read_server(const JsonView& server, size_t index) {
    require_object(server);
    check([&] { server.require_only({"server_id", "device", "host_nic_ip"}); });
    std::string id;
    check([&] { id = read_server_id(server["server_id"]); });
    const JsonView devices = server["device"];
    if (devices.size() == 0) throw devices.error("a device or more");
    std::map<int64_t, std::string> taken;
    bool all_known = true;
    for (size_t i = 0; i < devices.size() && !has_enough(); ++i) {
      const size_t before = violations_.size();
      check([&] { read_device(devices[i], id, index, taken); });
      all_known = all_known && violations_.size() == before;
    }
    if (all_known && !has_enough()) check_ring(devices, taken);
  }

  std::string read_server_id(const JsonView& view) {
    const std::string& id = view.text();
    if (id.empty() || id.size() > kLongestServerId)
      throw view.error("1 to " + std::to_string(kLongestServerId) + " characters");
    const auto [other, fresh] = server_ids_.emplace(id, path_of(view));
    if (!fresh) throw view.error("another server_id than that of " + other->second);
    return id;
  }

  void read_device(const JsonView& device, const std::string& server, size_t server_index,
                   std::map<int64_t, std::string>& taken) {
    require_object(device);
    check([&] { device.require_only({"device_id", "device_ip", "rank_id"}); });
    RankDevice read;
    read.server = server;
    check([&] {
      const JsonView view = device["device_id"];
      read.device = static_cast<int>(digits(view, kDevicesOfServer - 1));
      const auto [other, fresh] = taken.emplace(read.device, path_of(view));
      if (!fresh) throw view.error("another device_id than that of " + other->second);
    });
    check([&] { read.ips = read_ips(device); });
    check([&] {
      const JsonView view = device["rank_id"];
      const int64_t rank = digits(view, kMostRanks - 1);
      places_.push_back({rank, server_index, path_of(view)});
      read.rank = static_cast<int>(rank);
    });
    table_.devices.push_back(std::move(read));
  }

  // Each device has as many addresses as the first one, separated by commas.
  std::vector<std::string> read_ips(const JsonView& device) {
    const auto view = device.find("device_ip");
    std::vector<std::string> ips;
    if (view && !view->text().empty()) {
      const std::string& text = view->text();
      for (size_t from = 0; from <= text.size();) {
        const size_t comma = std::min(text.find(',', from), text.size());
        ips.push_back(text.substr(from, comma - from));
        from = comma + 1;
      }
    }
    for (const std::string& ip : ips) check_ip(*view, ip);
    if (ips.empty() && table_.servers > 1)
      throw Error({.op = device.where(),
                   .message = "'device_ip' is missing",
                   .fix = "it may be left out only where there is one server"});
    if (!ip_count_) ip_count_ = {ips.size(), path_of(device)};
    if (ip_count_->first != ips.size())
      throw Error({.op = device.where() + ".device_ip",
                   .expected = std::to_string(ip_count_->first) + " addresses, as " +
                               ip_count_->second + " has",
                   .got = std::to_string(ips.size())});
    return ips;
  }

  void check_ip(const JsonView& view, const std::string& ip) {
    unsigned char address[sizeof(in6_addr)];
    if (inet_pton(AF_INET, ip.c_str(), address) != 1 &&
        inet_pton(AF_INET6, ip.c_str(), address) != 1)
      throw view.error("an IPv4 or IPv6 address");
    const auto [other, fresh] = ips_.emplace(ip, path_of(view));
    if (!fresh) throw view.error("another address than that of " + other->second);
  }

  // The devices of a server are two rings of four, and a job uses some of one or all of both.
  static void check_ring(const JsonView& devices, const std::map<int64_t, std::string>& taken) {
    const size_t count = taken.size();
    if (count != 1 && count != 2 && count != kDevicesOfRing && count != kDevicesOfServer)
      throw Error({.op = devices.where(),
                   .expected = "1, 2, 4 or 8 devices",
                   .got = std::to_string(count)});
    const bool first = taken.begin()->first < kDevicesOfRing;
    const bool last = taken.rbegin()->first < kDevicesOfRing;
    if (count < kDevicesOfServer && first != last)
      throw Error({.op = devices.where(),
                   .expected = "devices of one ring, 0 to 3 or 4 to 7",
                   .got = std::to_string(taken.begin()->first) + " and " +
                          std::to_string(taken.rbegin()->first)});
  }

  // Sorted, ranks are 0, 1, 2 ... without a gap, and those of a server lie together.
  void check_ranks() {
    if (places_.empty()) return;
    std::stable_sort(places_.begin(), places_.end(),
                     [](const Place& a, const Place& b) { return a.rank < b.rank; });
    int64_t expected = 0;
    bool whole = true;
    for (size_t i = 0; i < places_.size(); ++i) {
      if (i > 0 && places_[i].rank == places_[i - 1].rank) {
        complain(places_[i].path, "rank " + std::to_string(places_[i].rank) + " stands at " +
                                      places_[i - 1].path + ", too");
        whole = false;
        continue;
      }
      if (places_[i].rank != expected) {
        complain(places_[i].path, "expected ranks from 0 without a gap, but rank " +
                                      std::to_string(expected) + " is missing before rank " +
                                      std::to_string(places_[i].rank));
        whole = false;
      }
      expected = places_[i].rank + 1;
    }
    if (whole) check_neighbours();
  }

  void check_neighbours() {
    std::set<size_t> done;
    for (size_t i = 0; i < places_.size(); ++i) {
      if (i > 0 && places_[i].server == places_[i - 1].server) continue;
      if (!done.insert(places_[i].server).second) {
        complain(places_[i].path, "ranks of servers are interleaved: rank " +
                                      std::to_string(places_[i].rank) +
                                      " is of a server whose other ranks lie before rank " +
                                      std::to_string(places_[i - 1].rank) + " of another one");
        return;
      }
    }
  }

  [[noreturn]] void refuse() const {
    const size_t told = std::min(violations_.size(), kMostViolations);
    std::string message = violations_.size() == 1
                              ? ""
                              : (has_enough() ? "more than " : "") + std::to_string(told) +
                                    " things are wrong with it" +
                                    (has_enough() ? ", first: " : ": ");
    for (size_t i = 0; i < told; ++i) message += (i == 0 ? "" : "; ") + violations_[i];
    throw Error({.op = table_.source, .message = message});
  }

  void sort_by_rank() {
    std::sort(table_.devices.begin(), table_.devices.end(),
              [](const RankDevice& a, const RankDevice& b) { return a.rank < b.rank; });
  }

  RankTable table_;
  std::vector<std::string> violations_;
  std::vector<Place> places_;
  std::map<std::string, std::string> server_ids_;  // to the path of the first one
  std::map<std::string, std::string> ips_;
  std::optional<std::pair<size_t, std::string>> ip_count_;  // of the first device
};

}  // namespace

RankTable parse_rank_table(std::string_view text, const std::string& source) {
  RankTable table = Reader(source).read(parse(text, source));
  table.sha256 = sha256_hex(text);
  return table;
}

RankTable read_rank_table(const std::string& path) {
  return parse_rank_table(read_file(path, kMostBytes), path);
}

}  // namespace keel
