// The rank table: what is read of a good one, and the message of each bad one.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/core/base/json.h"
#include "keel/core/group/rank_table.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("unit");

namespace {

using keel::Json;
using keel::parse_rank_table;
using keel::RankTable;
using keel_test::contains;
using keel_test::error_of;

Json device(const std::string& id, const std::string& ip, const std::string& rank) {
  return {{"device_id", id}, {"device_ip", ip}, {"rank_id", rank}};
}

// Two servers of two devices.
Json good_table() {
  return {{"status", "completed"},
          {"version", "1.0"},
          {"server_count", "2"},
          {"server_list",
           {{{"server_id", "a"},
             {"device", {device("0", "10.0.0.1", "0"), device("1", "10.0.0.2", "1")}}},
            {{"server_id", "b"},
             {"device", {device("4", "10.0.1.1", "2"), device("5", "10.0.1.2", "3")}}}}}};
}

std::string refusal(const std::string& text) {
  return error_of([&] { parse_rank_table(text, "hccl.json"); });
}

struct BadTable {
  const char* what;
  std::function<void(Json& table)> damage;
  std::string told;
};

Json& server(Json& table, size_t i) { return table["server_list"][i]; }
Json& device_of(Json& table, size_t i, size_t k) { return table["server_list"][i]["device"][k]; }

const BadTable kBadTables[] = {
    {"no status", [](Json& t) { t.erase("status"); }, "hccl.json: 'status' is missing"},
    {"still written", [](Json& t) { t["status"] = "initializing"; },
     R"(status: expected "completed", got "initializing"; wait until)"},
    {"another status", [](Json& t) { t["status"] = "done"; },
     R"(status: expected "completed", got "done")"},
    {"no version", [](Json& t) { t.erase("version"); }, "'version' is missing"},
    {"another version", [](Json& t) { t["version"] = "1.2"; },
     R"(version: expected "1.0", got "1.2")"},
    {"a version that is a number", [](Json& t) { t["version"] = 1.0; },
     "version: expected a string, got 1.0"},
    {"a wrong count", [](Json& t) { t["server_count"] = "3"; },
     R"(server_count: expected "2", as many as server_list has, got "3")"},
    {"a count that is a number", [](Json& t) { t["server_count"] = 2; },
     "server_count: expected a string of digits"},
    {"no servers", [](Json& t) { t.erase("server_list"); }, "'server_list' is missing"},
    {"an empty list",
     [](Json& t) {
       t["server_list"] = Json::array();
       t["server_count"] = "0";
     },
     "server_list: expected a server or more, got []"},
    {"servers that are no list", [](Json& t) { t["server_list"] = "a"; },
     R"(server_list: expected an array, got "a")"},
    {"a name twice", [](Json& t) { server(t, 1)["server_id"] = "a"; },
     "server_list[1].server_id: expected another server_id than that of server_list[0].server_id"},
    {"an empty name", [](Json& t) { server(t, 0)["server_id"] = ""; },
     "server_list[0].server_id: expected 1 to 64 characters"},
    {"a long name", [](Json& t) { server(t, 0)["server_id"] = std::string(65, 'x'); },
     "server_list[0].server_id: expected 1 to 64 characters"},
    {"no devices", [](Json& t) { server(t, 0).erase("device"); },
     "server_list[0]: 'device' is missing"},
    {"an empty server", [](Json& t) { server(t, 1)["device"] = Json::array(); },
     "server_list[1].device: expected a device or more"},
    {"a device number of nine", [](Json& t) { device_of(t, 0, 0)["device_id"] = "8"; },
     R"(server_list[0].device[0].device_id: expected a string of digits, "0" to "7", got "8")"},
    {"a device number with a sign", [](Json& t) { device_of(t, 0, 0)["device_id"] = "+1"; },
     "server_list[0].device[0].device_id: expected a string of digits"},
    {"a device twice", [](Json& t) { device_of(t, 0, 1)["device_id"] = "0"; },
     "server_list[0].device[1].device_id: expected another device_id than that of "
     "server_list[0].device[0].device_id"},
    {"three devices",
     [](Json& t) { server(t, 1)["device"].push_back(device("6", "10.0.1.3", "4")); },
     "server_list[1].device: expected 1, 2, 4 or 8 devices, got 3"},
    {"devices of both rings", [](Json& t) { device_of(t, 0, 1)["device_id"] = "4"; },
     "server_list[0].device: expected devices of one ring, 0 to 3 or 4 to 7, got 0 and 4"},
    {"no address", [](Json& t) { device_of(t, 1, 0).erase("device_ip"); },
     "server_list[1].device[0]: 'device_ip' is missing; it may be left out only where"},
    {"an address that is none", [](Json& t) { device_of(t, 1, 0)["device_ip"] = "10.0.1.256"; },
     "server_list[1].device[0].device_ip: expected an IPv4 or IPv6 address"},
    {"an address twice", [](Json& t) { device_of(t, 1, 0)["device_ip"] = "10.0.0.1"; },
     "server_list[1].device[0].device_ip: expected another address than that of "
     "server_list[0].device[0].device_ip"},
    {"two addresses beside one",
     [](Json& t) { device_of(t, 1, 0)["device_ip"] = "10.0.1.1,10.0.2.1"; },
     "server_list[1].device[0].device_ip: expected 1 addresses, as server_list[0].device[0] has"},
    {"no rank", [](Json& t) { device_of(t, 1, 1).erase("rank_id"); },
     "server_list[1].device[1]: 'rank_id' is missing"},
    {"a rank that is a number", [](Json& t) { device_of(t, 1, 1)["rank_id"] = 3; },
     "server_list[1].device[1].rank_id: expected a string of digits"},
    {"a rank twice", [](Json& t) { device_of(t, 1, 1)["rank_id"] = "2"; },
     "server_list[1].device[1].rank_id: rank 2 stands at server_list[1].device[0].rank_id, too"},
    {"a gap", [](Json& t) { device_of(t, 1, 1)["rank_id"] = "5"; },
     "server_list[1].device[1].rank_id: expected ranks from 0 without a gap, but rank 3 is "
     "missing"},
    {"interleaved ranks",
     [](Json& t) {
       device_of(t, 0, 1)["rank_id"] = "2";
       device_of(t, 1, 0)["rank_id"] = "1";
     },
     "ranks of servers are interleaved: rank 2 is of a server whose other ranks lie before rank 1"},
    {"an unknown key", [](Json& t) { device_of(t, 0, 0)["device_ib"] = "x"; },
     "server_list[0].device[0]: unknown key 'device_ib'; did you mean"},
};

}  // namespace

TEST_CASE("rank table: what a good one says") {
  const RankTable table = parse_rank_table(good_table().dump(), "hccl.json");
  CHECK(table.servers == 2);
  REQUIRE(table.size() == 4);
  CHECK(table.devices[2].rank == 2);
  CHECK(table.devices[2].device == 4);
  CHECK(table.devices[2].server == "b");
  CHECK(table.devices[2].ips == std::vector<std::string>{"10.0.1.1"});
}

TEST_CASE("rank table: ranks come in their order whatever the file's is") {
  Json json = good_table();
  std::swap(json["server_list"][0], json["server_list"][1]);
  const RankTable table = parse_rank_table(json.dump(), "hccl.json");
  for (int i = 0; i < 4; ++i) CHECK(table.devices[static_cast<size_t>(i)].rank == i);
  CHECK(table.devices[0].server == "a");
}

TEST_CASE("rank table: what may be left out") {
  Json json = good_table();
  json.erase("server_count");
  json["server_list"].erase(1);
  for (size_t i = 0; i < 2; ++i) device_of(json, 0, i).erase("device_ip");
  json["server_list"][0]["host_nic_ip"] = "reserve";
  const RankTable table = parse_rank_table(json.dump(), "hccl.json");
  CHECK(table.size() == 2);
  CHECK(table.devices[0].ips.empty());
}

TEST_CASE("rank table: each bad one has its message") {
  CHECK(refusal(good_table().dump()).empty());
  for (const BadTable& bad : kBadTables) {
    CAPTURE(bad.what);
    Json json = good_table();
    bad.damage(json);
    const std::string told = refusal(json.dump());
    CHECK_MESSAGE(contains(told, bad.told), told);
    CHECK(told.rfind("hccl.json: ", 0) == 0);
  }
}

TEST_CASE("rank table: all that is wrong is told at once") {
  Json json = good_table();
  json["status"] = "done";
  server(json, 0)["server_id"] = "";
  device_of(json, 0, 1)["device_id"] = "9";
  device_of(json, 1, 0)["device_ip"] = "here";
  device_of(json, 1, 1)["rank_id"] = "7";
  const std::string told = refusal(json.dump());
  CHECK(contains(told, "hccl.json: 5 things are wrong with it: status: "));
  for (const char* path :
       {"; server_list[0].server_id: ", "; server_list[0].device[1].device_id: ",
        "; server_list[1].device[0].device_ip: ", "; server_list[1].device[1].rank_id: "})
    CHECK_MESSAGE(contains(told, path), told);
}

// Each of its members was told to be missing, too.
TEST_CASE("rank table: what is no object is told once") {
  for (const char* text : {"[]", "null", "7", "\"a\""})
    CHECK(refusal(text) == std::string("hccl.json: expected an object, got ") + text);
  Json json = good_table();
  server(json, 1) = "b";
  const std::string of_server = refusal(json.dump());
  CHECK(contains(of_server, "server_list[1]: expected an object, got \"b\""));
  CHECK(!contains(of_server, "things are wrong"));
  json = good_table();
  device_of(json, 1, 1) = Json::array();
  const std::string of_device = refusal(json.dump());
  CHECK(contains(of_device, "server_list[1].device[1]: expected an object, got []"));
  CHECK(!contains(of_device, "things are wrong"));
}

TEST_CASE("rank table: comments are refused with a hint and no other text is") {
  const std::string good = good_table().dump(2);
  const std::string told = refusal(good.substr(0, good.find('\n')) + " // the desk\n" +
                                   good.substr(good.find('\n') + 1));
  CHECK(told.rfind("hccl.json:1:", 0) == 0);
  CHECK_MESSAGE(contains(told,
                         "JSON has no comments: remove those of the table, of which the first "
                         "is in line 1"),
                told);
  CHECK(contains(refusal("{}\n/* none */"), "the first is in line 2"));
  CHECK(!contains(refusal(R"({"status": "http://x" "version"})"), "comments"));
  CHECK(contains(refusal("[]"), "hccl.json: "));
  CHECK(!refusal("").empty());
  CHECK(!refusal("null").empty());
}

TEST_CASE("rank table: a file that is not there is an error that names it") {
  CHECK(contains(error_of([] { keel::read_rank_table("/nowhere/hccl.json"); }),
                 "/nowhere/hccl.json"));
}

TEST_SUITE_END();
